// What a model was sent and has answered, one cell per element, with the band of what waits between the two.
//
//   t h e   o l d   m|a n   l|      | answer front, d behind the cursor

import { answerCell, cell } from "./cells.js";
import { make } from "./dom.js";
import * as hint from "./hint.js";

const SHOWN = 600; // cells; what is before them is counted, not shown
const LONGEST_RUN = 24; // cells that are kept on one line

export class Tape {
  #kind; #cells; #first; #answered; #run;
  #before = make("span", { class: "before" });
  #rest = make("span", { class: "rest" });
  #cursor = make("span", { class: "cursor", "aria-hidden": "true" });

  /** `explain(position)`: what the hint at an element says. */
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

  /** So many elements are sent, these are answered, and `rest` is not yet an element. */
  draw(elements, sent, answers, rest) {
    this.#forget(sent - SHOWN);
    while (this.#cells.length > Math.max(sent, this.#first)) this.#cells.pop()?.remove(); // it was refused
    for (let at = Math.max(this.#first, this.#cells.length); at < sent; at++) this.#add(at, elements[at] ?? "");
    for (let at = Math.max(this.#first, this.#answered); at < answers.length; at++) {
      if (answers[at] && this.#cells[at]) answerCell(this.#cells[at], answers[at]);
    }
    this.#answered = answers.length;
    this.#before.textContent = this.#first ? `${this.#first.toLocaleString("en")} before \u2026 ` : "";
    this.#rest.textContent = rest;
    this.node.append(this.#rest, this.#cursor);
  }

  /** The cursor stays in sight. */
  settle() {
    this.node.scrollTop = this.node.scrollHeight;
  }

  #add(at, raw) {
    const node = cell(this.#kind, raw);
    node.dataset.at = at;
    this.#cells[at] = node;
    // Letters of a word stay together: by what was typed, not by what is answered, so all lanes break at the same place.
    if (!this.#run || this.#run.childElementCount >= LONGEST_RUN || this.#kind !== "characters") {
      this.#run = make("span", { class: "run" });
      this.node.append(this.#run);
    }
    this.#run.append(node);
    if (/^\s$/u.test(raw)) this.#run = null;
  }

  /** Cells before the first that is to be shown: seldom, and many at once. */
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
