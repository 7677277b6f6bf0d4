// One model's lane: what it was sent and what it has answered, with the band of what waits between the two.
//
//   t h e   o l d   m|a n   l|      | answer front, d behind the cursor

import { answerCell, cell, saidOf } from "./cells.js";
import { make } from "./dom.js";
import { KINDS, counted } from "./elements.js";
import * as frame from "./frame.js";
import { family } from "./groups.js";
import * as hint from "./hint.js";
import { Live } from "./live.js";
import { Whole } from "./whole.js";

const SHOWN = 600; // cells; what is before them is counted, not shown
const LONGEST_RUN = 24; // cells that are kept on one line
const REMEMBERED = 200; // answers whose lateness counts for the median

export class Lane {
  #kind; #name; #truth; #source;
  #elements = []; #answers = []; #cells = []; #lates = [];
  #first = 0; #sent = 0; #run = null; #right = 0; #known = 0; #ended = false; #rest = "";
  #doneFor = ""; #drawnUpTo = 0;

  /** `truth(position)`: the letter that was masked there, where that is known. `on`: `unauthorized()`, `done(lane)`. */
  constructor(model, truth, on) {
    this.model = model;
    this.#name = model.reads.kind;
    this.#kind = KINDS[this.#name];
    this.#truth = truth;
    this.on = on;
    this.node = this.#build();
    const events = {
      begin: () => this.#begin(),
      sent: (count) => this.#sentUpTo(count),
      answer: (position, answer, ms) => this.#answer(position, answer, ms),
      state: (state, message) => this.#state(state, message),
      unauthorized: () => on.unauthorized(),
    };
    this.#source = new (model.streams ? Live : Whole)(model, this.#kind.value, events);
  }

  /** The text as its elements, with what is not yet one. */
  set(elements, rest, ended) {
    this.#elements = elements;
    this.#rest = rest;
    this.#ended = ended;
    this.#source.set(elements, ended);
    frame.soon(this);
  }

  close() {
    this.#source.close();
    frame.never(this);
    this.node.remove();
  }

  /** What was answered, as text, for those who listen. */
  get spoken() {
    return this.#answers.slice(-60).map((a) => saidOf(a.answer).text).join(this.#name === "characters" ? "" : " ");
  }

  #build() {
    const { model } = this;
    const id = `lane-${model.name}`;
    const wait = !model.streams ? "waits for the end" : model.delay === 0 ? "answers at once" : `answers ${counted(model.delay, this.#kind)} late`;
    const last = model.streams ? "the last element that an answer waits for" : "the end of the text";
    this.waits = make("dd", {}, "0");
    this.right = make("dd", {}, "\u2013");
    this.latency = make("dd", {}, "\u2013");
    this.state = make("p", { class: "state", role: "status" });
    this.before = make("span", { class: "before" });
    this.rest = make("span", { class: "rest" });
    this.cursor = make("span", { class: "cursor", "aria-hidden": "true" });
    this.tape = make("div", { class: `tape ${this.#name}`, role: "group", "aria-label": `What ${model.name} answers; arrow keys move between answers`, tabindex: "0" },
      this.before, this.rest, this.cursor);
    hint.attach(this.tape, (node) => this.#explain(node));
    return make("article", { class: "lane", "aria-labelledby": id, "data-model": model.name, "data-delay": model.streams ? model.delay : "end" },
      make("header", {},
        make("h3", { id }, family(model), " ", make("span", { class: "name", title: model.network }, model.name)),
        make("p", { class: "wait" }, wait),
        make("dl", {},
          make("div", {}, make("dt", {}, "waiting"), this.waits),
          make("div", { title: `median time from ${last} to the answer` }, make("dt", {}, "latency"), this.latency),
          ...(this.#name === "characters" ? [make("div", {}, make("dt", {}, "right"), this.right)] : [])),
        this.state),
      this.tape);
  }

  #begin() {
    this.#answers = [];
    this.#cells.forEach((node) => node?.remove());
    this.tape.querySelectorAll(".run").forEach((run) => run.remove());
    this.#cells = [];
    this.#first = this.#sent = this.#right = this.#known = this.#drawnUpTo = 0;
    this.#run = null;
    this.#doneFor = "";
    frame.soon(this);
  }

  #sentUpTo(count) {
    this.#sent = count;
    frame.soon(this);
  }

  #answer(position, answer, ms) {
    const late = this.model.streams ? Math.min(this.model.delay, this.#sent - 1 - position) : this.#sent - 1 - position;
    const truth = answer.masked ? this.#truth(position) : undefined;
    if (truth !== undefined) {
      this.#known += 1;
      this.#right += truth === answer.character ? 1 : 0;
    }
    this.#answers[position] = { answer, late, truth, ms, drawn: false };
    this.#lates.push(ms);
    if (this.#lates.length > REMEMBERED) this.#lates.shift();
    frame.soon(this);
  }

  #state(state, message) {
    this.node.dataset.state = state;
    this.state.textContent = state === "connecting" ? "connecting" : message;
  }

  draw() {
    this.#trim();
    for (let at = Math.max(this.#first, this.#cells.length); at < this.#sent; at++) this.#add(at);
    // What was refused is not there.
    for (; this.#cells.length > Math.max(this.#sent, this.#first); ) this.#cells.pop()?.remove();
    for (let at = Math.max(this.#first, this.#drawnUpTo); at < this.#answers.length; at++) {
      const found = this.#answers[at];
      if (!found || found.drawn || !this.#cells[at]) continue;
      answerCell(this.#cells[at], this.#elements[at], found.answer, found.late, found.truth);
      found.drawn = true;
    }
    this.#drawnUpTo = this.#answers.length;
    this.rest.textContent = this.#rest;
    this.before.textContent = this.#first ? `${this.#first.toLocaleString("en")} before \u2026 ` : "";
    this.tape.append(this.rest, this.cursor);
    this.#count();
  }

  /** The cursor stays in sight. */
  settle() {
    this.tape.scrollTop = this.tape.scrollHeight;
  }

  #add(at) {
    const raw = this.#elements[at] ?? "";
    const node = cell(this.#name, raw);
    node.classList.add("waiting");
    node.dataset.at = at;
    this.#cells[at] = node;
    // Letters of a word stay together. By what was typed and not by what is answered: so lanes break at the same place.
    if (!this.#run || this.#run.childElementCount >= LONGEST_RUN || this.#name !== "characters") {
      this.#run = make("span", { class: "run" });
      this.tape.append(this.#run);
    }
    this.#run.append(node);
    if (/^\s$/u.test(raw)) this.#run = null;
  }

  #trim() {
    const first = this.#sent - SHOWN;
    if (first < this.#first + SHOWN / 4) return; // seldom, and many at once
    for (let at = this.#first; at < first; at++) {
      const node = this.#cells[at];
      if (node?.parentNode?.childElementCount === 1) node.parentNode.remove();
      else node?.remove();
      delete this.#cells[at];
    }
    this.#first = first;
  }

  #count() {
    const waiting = this.#sent - this.#answers.length;
    this.waits.textContent = waiting.toLocaleString("en");
    this.node.dataset.waiting = waiting;
    this.node.dataset.ended = this.#ended;
    this.node.dataset.answered = this.#answers.length;
    const sorted = [...this.#lates].sort((a, b) => a - b);
    this.latency.textContent = sorted.length ? milliseconds(sorted[sorted.length >> 1]) : "\u2013";
    this.right.textContent = this.#known ? `${this.#right} of ${this.#known}` : "\u2013";
    const done = `${this.#ended}${this.#sent}`;
    if (this.#ended && waiting === 0 && this.#sent > 0 && this.#doneFor !== done) {
      this.#doneFor = done;
      this.on.done(this);
    }
  }

  /** What the hint at a cell says. */
  #explain(node) {
    const at = Number(node.dataset.at);
    const found = this.#answers[at];
    if (!found) return { title: "waiting", lines: [], note: this.model.streams ? `for ${counted(this.model.delay, this.#kind)} that follow` : "for the end of the text" };
    const { text, probability, others } = saidOf(found.answer);
    const lines = others.length ? others : probability === undefined ? [] : [[text, probability]];
    const when = found.late === 0 ? "at once" : `${counted(found.late, this.#kind)} late`;
    const truth = found.truth === undefined ? "" : found.truth === found.answer.character ? "; right" : `; it was ${found.truth === " " ? "a space" : found.truth}`;
    return { title: text === " " ? "space" : text, lines, note: `${when}, + ${milliseconds(found.ms)}${truth}` };
  }
}

const milliseconds = (ms) => (ms < 10 ? `${ms.toFixed(1)} ms` : ms < 1000 ? `${Math.round(ms)} ms` : `${(ms / 1000).toFixed(1)} s`);
