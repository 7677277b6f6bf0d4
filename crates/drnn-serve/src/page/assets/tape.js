// The elements sent to a model, one cell each. The cells between the last prediction and the cursor wait: the band.
//
//   t h e   o l d   m|a n   l|      predictions are d elements late

import { answerCell, cell } from "./cells.js";
import { make } from "./dom.js";
import * as hint from "./hint.js";

const SHOWN = 600; // cells; earlier ones are counted, not shown
const MAX_RUN = 24; // cells without a line break

export class Tape {
  #kind; #cells; #first; #answered; #run;
  #before = make("span", { class: "before" });
  #rest = make("span", { class: "rest" });
  #cursor = make("span", { class: "cursor", "aria-hidden": "true" });

  /** `explain(position)`: the content of the tooltip at an element. */
  constructor(kind, label, explain) {
    this.#kind = kind;
    this.node = make("div", { class: `tape ${kind}`, role: "group", "aria-label": label, tabindex: "0" });
    hint.attach(this.node, (node) => explain(Number(node.dataset.at)));
    this.clear();
  }

  clear() {
    this.#cells = [];
    this.#first = this.#answered = 0;
    this.#run = null;
    hint.leave(this.node);
    this.node.replaceChildren(this.#before, this.#rest, this.#cursor);
  }

  /** Draws `sent` elements with their predictions; `rest` is not yet an element. */
  draw(elements, sent, answers, rest) {
    this.#forget(sent - SHOWN);
    while (this.#cells.length > Math.max(sent, this.#first)) this.#cells.pop()?.remove(); // refused elements
    for (let at = Math.max(this.#first, this.#cells.length); at < sent; at++) this.#add(at, elements[at] ?? "");
    for (let at = Math.max(this.#first, this.#answered); at < answers.length; at++) {
      if (answers[at] && this.#cells[at]) answerCell(this.#cells[at], answers[at]);
    }
    this.#answered = answers.length;
    this.#before.textContent = this.#first ? `${this.#first.toLocaleString("en")} before \u2026 ` : "";
    this.#rest.textContent = rest;
    this.node.append(this.#rest, this.#cursor);
  }

  /** Keeps the cursor in view. */
  settle() {
    this.node.scrollTop = this.node.scrollHeight;
  }

  #add(at, raw) {
    const node = cell(this.#kind, raw);
    node.dataset.at = at;
    this.#cells[at] = node;
    // Keeps the letters of a word together, by the typed text, so that all lanes break lines at the same place.
    if (!this.#run || this.#run.childElementCount >= MAX_RUN || this.#kind !== "characters") {
      this.#run = make("span", { class: "run" });
      this.node.append(this.#run);
    }
    this.#run.append(node);
    if (/^\s$/u.test(raw)) this.#run = null;
  }

  /** Removes cells before the first that is shown; seldom, and many at a time. */
  #forget(first) {
    if (first < this.#first + SHOWN / 4) return;
    for (let at = this.#first; at < first; at++) {
      const node = this.#cells[at];
      if (node?.parentNode?.childElementCount === 1) node.parentNode.remove();
      else node?.remove();
      delete this.#cells[at];
    }
    this.#first = first;
  }
}
