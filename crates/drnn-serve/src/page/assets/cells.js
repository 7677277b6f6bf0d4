// One element on the page: its input, whether it waits, and its prediction.

import { make } from "./dom.js";

/** A cell that waits for its prediction. */
export function cell(kind, raw) {
  if (kind !== "characters") {
    const tag = make("span", { class: "tag" }, "\u00a0");
    return make("span", { class: "cell token waiting" }, make("span", { class: "sign" }, raw), tag);
  }
  const masked = raw === "_" ? " masked" : "";
  return make("span", { class: `cell letter waiting${masked}` }, make("span", { class: "sign" }, shown(raw)));
}

/** Writes a prediction into its cell. */
export function answerCell(node, { answer, late, truth }) {
  node.classList.remove("waiting");
  const said = saidOf(answer);
  const mark = (text) => make("span", { class: "late", "aria-hidden": "true" }, text);
  if (node.classList.contains("token")) {
    node.lastChild.replaceChildren(said.text, mark(`+${late}`));
  } else {
    if (!answer.masked) return;
    node.firstChild.textContent = answer.character === " " ? "\u2423" : shown(answer.character);
    node.append(mark(String(late)));
    if (truth !== undefined) node.classList.add(truth === answer.character ? "right" : "wrong");
  }
  node.classList.add("answered");
  if (said.probability !== undefined) node.style.setProperty("--sure", said.probability.toFixed(3));
}

/** The text of a prediction, its probability, and the alternatives. */
export function saidOf(answer) {
  const { probability } = answer;
  if (answer.tag !== undefined) return { text: answer.tag, probability, others: [] };
  if (answer.class !== undefined) return { text: answer.class, probability, others: Object.entries(answer.probabilities) };
  if (answer.character !== undefined) {
    const others = answer.alternatives.map((other) => [other.character === " " ? "space" : other.character, other.probability]);
    return { text: answer.character, probability: others[0]?.[1], others };
  }
  const text = Array.isArray(answer.values)
    ? answer.values.map(number).join(" ")
    : Object.entries(answer.values).map(([name, value]) => `${name} ${number(value)}`).join(" ");
  return { text, others: [] };
}

const number = (value) => String(Number(value.toPrecision(4)));

/** Spaces and line ends are visible too. */
function shown(raw) {
  if (raw === "_") return "";
  return raw === "\n" ? "\u21b5" : /^\s$/u.test(raw) ? "\u00a0" : raw;
}
