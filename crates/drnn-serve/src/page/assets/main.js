// The page: a text, and the predictions of models while it is typed.
//
// | file | contents |
// |---|---|
// | server, backoff | requests to the server; retries |
// | groups | models that can be compared |
// | elements, words | a text as elements |
// | live, whole | models that stream; models that wait for the end |
// | lane, tape, cells, curve, hint | one model: its statistics, its elements, one element, its values, its tooltip |
// | frame | redraws once per frame |
// | player, examples, masks | texts that are played, and masked letters |
// | legend | the legend |
// | plot, sweep | which delay is enough: the plot and its data |

import { byId, make } from "./dom.js";
import { KINDS, counted } from "./elements.js";
import { example } from "./examples.js";
import { groups } from "./groups.js";
import { Lane } from "./lane.js";
import { legend, legendWords } from "./legend.js";
import { Masks } from "./masks.js";
import { Player, pieces } from "./player.js";
import { plot } from "./plot.js";
import * as server from "./server.js";

const SPEEDS = { characters: [1, 60, 14], words: [1, 20, 3], numbers: [1, 60, 6], fields: [1, 60, 6], tokens: [1, 60, 6] };
const HINTS = {
  characters: "Type or paste; _ is a masked letter. Enter ends the text.",
  words: "Type or paste; a word counts when a space follows. Enter ends the text.",
  numbers: "A row per line; it counts when the line ends. Ctrl + Enter ends the text.",
  fields: "A row per line, fields separated by commas; it counts when the line ends. Ctrl + Enter ends the text.",
  tokens: "A number per line; it counts when the line ends. Ctrl + Enter ends the text.",
};
const DEFAULT_LANES = 4; // shown before the user selects some
const RETRY = 3000; // milliseconds

const text = byId("text");
const masks = new Masks();
let group, elements = [], ended = false;
let examples = 0, played = ""; // how many examples were shown; what was played last
const lanes = new Map(), said = new Map(); // by model

const player = new Player(
  {
    type: (typed) => {
      text.value = typed;
      text.scrollTop = text.scrollHeight;
      changed();
    },
    end: () => end(),
    change: () => (byId("play").textContent = player.playing ? "Pause" : "Play"),
  },
  () => Number(byId("speed").value),
);

/** Passes a changed text to every lane. */
function changed(isEnd = false) {
  ended = isEnd;
  if (!ended) said.clear();
  const { whole, rest } = KINDS[group.kind].split(text.value, ended);
  elements = whole;
  for (const lane of lanes.values()) lane.set(whole, rest, ended);
  byId("end").disabled = ended || !text.value;
}

function end() {
  player.pause();
  if (text.value) changed(true);
}

/** Loads the player: with the text in the box, or with an example if that was played already. */
function script() {
  if (player.follows(text.value)) return;
  let typed = text.value;
  if (!typed.trim() || played === typed) {
    const { text: next, original } = example(group, examples++);
    if (original) masks.remember(next, original);
    typed = next;
  }
  played = typed;
  player.load(pieces(typed, group.kind));
  text.value = "";
  changed();
}

function choose(next) {
  player.pause();
  group = next;
  for (const lane of lanes.values()) lane.close();
  lanes.clear();
  text.value = "";
  const letters = group.kind === "characters";
  byId("text-label").textContent = letters || group.kind === "words" ? "Text" : `Rows${columns()}`;
  byId("text-hint").textContent = HINTS[group.kind];
  text.rows = letters || group.kind === "words" ? 2 : 5;
  byId("mask").hidden = !letters;
  const [min, max, value] = SPEEDS[group.kind];
  Object.assign(byId("speed"), { min, max, value });
  speed();
  byId("legend").replaceChildren(...legend(group));
  byId("legend-words").textContent = legendWords(group);
  byId("models").replaceChildren(...(group.models.length > 1 ? group.models.map(chip) : []));
  defaults(group.models).forEach(show);
  changed();
}

/** `: temperature, pressure`. */
function columns() {
  const { columns, count, kind } = group.reads;
  const names = group.reads.names ?? columns?.map((column) => column.name);
  if (names) return `: ${names.join(", ")}`;
  return kind === "tokens" ? `: a number below ${count}` : ` of ${count} number${count === 1 ? "" : "s"}`;
}

/** The models shown at first: one of each sort, then others. */
function defaults(models) {
  if (models.length <= DEFAULT_LANES) return models;
  const sorts = [(m) => m.streams && m.delay === 0, (m) => m.streams && m.delay > 0, (m) => !m.streams];
  const firsts = sorts.map((sort) => models.find(sort)).filter(Boolean);
  const others = models.filter((model) => !firsts.includes(model));
  return models.filter((m) => firsts.includes(m) || others.slice(0, DEFAULT_LANES - firsts.length).includes(m));
}

function chip(model) {
  const box = make("input", { type: "checkbox", value: model.name });
  box.checked = defaults(group.models).includes(model);
  box.addEventListener("change", () => (box.checked ? show(model) : hide(model)));
  return make("label", {}, box, make("span", {}, model.name));
}

function show(model) {
  const lane = new Lane(model, (at) => masks.truth(elements, at), { unauthorized: requestToken, done });
  lanes.set(model.name, lane);
  // In the group's order.
  const after = group.models.slice(group.models.indexOf(model) + 1).find((other) => lanes.has(other.name));
  byId("lanes").insertBefore(lane.node, after ? lanes.get(after.name).node : null);
  if (text.value) lane.set(...Object.values(KINDS[group.kind].split(text.value, ended)), ended);
}

function hide(model) {
  lanes.get(model.name)?.close();
  lanes.delete(model.name);
}

/** Screen readers are notified when a model has predicted everything, not at every prediction. */
function done(lane) {
  said.set(lane.model.name, `${lane.model.name}: ${lane.spoken}`);
  byId("said").textContent = [...said.values()].join(". ");
}

function speed() {
  byId("speed-shown").textContent = `${counted(Number(byId("speed").value), KINDS[group.kind])}/s`;
}

function controls() {
  text.addEventListener("input", () => {
    player.pause();
    changed();
  });
  text.addEventListener("keydown", (event) => {
    const ends = event.ctrlKey || event.metaKey || (!event.shiftKey && ["characters", "words"].includes(group.kind));
    if (event.key !== "Enter" || !ends || event.isComposing) return;
    event.preventDefault();
    end();
  });
  byId("play").addEventListener("click", () => {
    if (player.playing) return player.pause();
    script();
    player.play();
  });
  byId("step").addEventListener("click", () => {
    player.pause();
    script();
    player.step();
  });
  byId("end").addEventListener("click", end);
  byId("mask").addEventListener("click", () => {
    player.pause();
    const source = text.value.trim() ? text.value : example(group, examples++).original;
    text.value = masks.mask(source);
    changed(true);
  });
  byId("reset").addEventListener("click", () => {
    player.pause();
    player.load([]);
    text.value = "";
    changed();
    text.focus();
  });
  byId("speed").addEventListener("input", speed);
}

function tabs(all) {
  byId("tasks").replaceChildren(...all.map((each, i) => {
    const radio = make("input", { type: "radio", name: "task", value: String(i) });
    radio.checked = i === 0;
    radio.addEventListener("change", () => choose(each));
    return make("label", {}, radio, make("span", {}, each.title));
  }));
  byId("tasks").hidden = all.length < 2;
}

function requestToken() {
  byId("token").hidden = false;
  byId("token-text").focus();
}

byId("token").addEventListener("submit", (event) => {
  event.preventDefault();
  const given = byId("token-text").value.trim();
  // A token must be valid in a header.
  if (!/^[\x21-\x7e]+$/.test(given)) return void (byId("token-wrong").textContent = "That is not a valid token.");
  server.useToken(given);
  byId("token-text").value = "";
  begin();
});

async function begin() {
  const trouble = byId("trouble");
  let models;
  try {
    models = await server.models();
  } catch (e) {
    if (!(e instanceof server.ApiError)) throw e;
    if (e.status === 401) {
      byId("token-wrong").textContent = byId("token").hidden ? "" : "The server does not accept that token.";
      return requestToken();
    }
    trouble.hidden = false;
    trouble.textContent = `No models: ${e.message}. Retrying.`;
    return void setTimeout(begin, RETRY);
  }
  byId("token").hidden = trouble.hidden = true;
  if (!byId("desk").hidden) return changed(ended); // a new token for the same page: the text stays
  if (models.length) {
    byId("desk").hidden = false;
    const all = groups(models);
    tabs(all);
    choose(all[0]);
  }
  plot(byId("plot"), await server.sweep().catch(() => null));
}

controls();
begin();
