// One element as it is shown: what went in, whether it waits, and what was answered.

import { make } from "./dom.js";

/** A cell of this kind of element. */
export function cell(kind, raw) {
  const node = kind === "characters" ? make("span", { class: "cell letter" }) : make("span", { class: "cell token" });
  if (kind === "characters") {
    node.append(make("span", { class: "sign" }, shown(raw)));
    if (raw === "_") node.classList.add("masked");
  } else {
    node.append(make("span", { class: "sign" }, raw), make("span", { class: "tag" }, "\u00a0"));
  }
  return node;
}

/** The answer goes into its cell. */
export function answerCell(node, raw, answer, late, truth) {
  const said = saidOf(answer);
  node.classList.remove("waiting");
  if (node.classList.contains("letter")) {
    if (!answer.masked) return;
    node.firstChild.textContent = shown(answer.character);
    node.append(make("span", { class: "late", "aria-hidden": "true" }, String(late)));
    if (truth !== undefined) node.classList.add(truth === answer.character ? "right" : "wrong");
  } else {
    node.lastChild.textContent = said.text;
    node.lastChild.append(make("span", { class: "late", "aria-hidden": "true" }, `+${late}`));
  }
  if (said.probability !== undefined) node.style.setProperty("--sure", said.probability.toFixed(3));
  node.classList.add("answered");
}

/** What an answer says: in short, how sure, and what else it may be. */
export function saidOf(answer) {
  const percent = (p) => ({ probability: p });
  if (answer.tag !== undefined) return { text: answer.tag, ...percent(answer.probability), others: [] };
  if (answer.class !== undefined) {
    const others = Object.entries(answer.probabilities).map(([name, p]) => [name, p]);
    return { text: answer.class, ...percent(answer.probability), others };
  }
  if (answer.character !== undefined) {
    const others = (answer.alternatives ?? []).map((a) => [a.character === " " ? "space" : a.character, a.probability]);
    return { text: answer.character, probability: others[0]?.[1], others };
  }
  const values = Array.isArray(answer.values) ? answer.values.map((v) => [null, v]) : Object.entries(answer.values ?? {});
  const text = values.map(([name, v]) => (name ? `${name} ${number(v)}` : number(v))).join(" ");
  return { text, others: [] };
}

const number = (value) => String(Number(value.toPrecision(4)));

/** Spaces and line ends take their place too. */
const shown = (raw) => (raw === "\n" ? "\u21b5" : raw === "_" ? "" : /^\s$/u.test(raw) ? "\u00a0" : raw);
