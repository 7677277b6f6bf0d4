// One model's lane: its name, its statistics, and its tape.

import { saidOf } from "./cells.js";
import { make } from "./dom.js";
import { KINDS, counted } from "./elements.js";
import * as frame from "./frame.js";
import { family } from "./groups.js";
import { Live } from "./live.js";
import { Curve } from "./curve.js";
import { Tape } from "./tape.js";
import { Whole } from "./whole.js";

const REMEMBERED = 200; // predictions in the median response time
const SPOKEN = 60; // predictions that are read aloud
const NONE = "\u2013";

export class Lane {
  #kind; #truth; #on; #source; #tape; #curve;
  #elements = []; #rest = ""; #ended = false; // the text
  #sent = 0; #answers = []; #right = 0; #known = 0; #reported = false; // this sequence
  #times = []; // milliseconds from the element that a prediction waits for to the prediction

  /** `truth(position)`: the masked letter there, if known. `on`: `unauthorized()`, `done(lane)`. */
  constructor(model, truth, on) {
    this.model = model;
    this.#kind = KINDS[model.reads.kind];
    this.#truth = truth;
    this.#on = on;
    const label = `Predictions of ${model.name}; arrow keys move between them`;
    this.#tape = new Tape(model.reads.kind, label, (position) => this.#explain(position));
    this.#curve = model.answers.kind === "values" ? new Curve(model.answers.names) : null;
    this.node = this.#build();
    this.#source = new (model.streams ? Live : Whole)(model, this.#kind.value, {
      begin: () => this.#begin(),
      sent: (count) => this.#hasSent(count),
      answer: (position, answer, ms) => this.#answer(position, answer, ms),
      state: (state, message) => this.#state(state, message),
      unauthorized: () => on.unauthorized(),
    });
  }

  /** Sets the text: its elements, and the rest that is not yet an element. */
  set(elements, rest, ended) {
    this.#elements = elements;
    this.#rest = rest;
    this.#ended = ended;
    this.#source.set(elements, ended);
    frame.soon(this);
  }

  close() {
    this.#source.close();
    this.#tape.clear();
    frame.never(this);
    this.node.remove();
  }

  /** The last predictions as text, for screen readers. */
  get spoken() {
    const between = this.model.reads.kind === "characters" ? "" : " ";
    return this.#answers.slice(-SPOKEN).map(({ answer }) => saidOf(answer).text).join(between);
  }

  #build() {
    const { name, network, streams, delay, reads } = this.model;
    const late = () => (delay === 0 ? "predicts at once" : `predicts ${counted(delay, this.#kind)} late`);
    const last = streams ? "the last element that a prediction waits for" : "the end of the text";
    const [waiting, response, right] = ["0", NONE, NONE].map((text) => make("dd", {}, text));
    this.shown = { waiting, response, right, state: make("p", { class: "state", role: "status" }) };
    const facts = [
      make("div", {}, make("dt", {}, "waiting"), waiting),
      make("div", { title: `median time from ${last} to the prediction` }, make("dt", {}, "response"), response),
      make("div", { hidden: reads.kind === "characters" ? null : "" }, make("dt", {}, "right"), right),
    ];
    const id = `lane-${name}`;
    return make(
      "article",
      { class: "lane", "aria-labelledby": id, "data-model": name, "data-delay": streams ? delay : "end" },
      make(
        "header",
        {},
        make("h3", { id }, family(this.model), " ", make("span", { class: "name", title: network }, name)),
        make("p", { class: "wait" }, streams ? late() : "waits for the end"),
        make("dl", {}, ...facts),
        this.shown.state,
      ),
      make("div", { class: "answers" }, this.#tape.node, ...(this.#curve ? [this.#curve.node] : [])),
    );
  }

  #begin() {
    this.#answers = [];
    this.#sent = this.#right = this.#known = 0;
    this.#reported = false;
    this.#times = [];
    this.#tape.clear();
    this.#curve?.clear();
    frame.soon(this);
  }

  #hasSent(count) {
    this.#sent = count;
    frame.soon(this);
  }

  #answer(position, answer, ms) {
    const after = this.#sent - 1 - position; // less than the delay if the text has ended
    const late = this.model.streams ? Math.min(this.model.delay, after) : after;
    const truth = answer.masked ? this.#truth(position) : undefined;
    this.#known += truth === undefined ? 0 : 1;
    this.#right += truth !== undefined && truth === answer.character ? 1 : 0;
    this.#answers[position] = { answer, late, truth, ms };
    this.#times.push(ms);
    if (this.#times.length > REMEMBERED) this.#times.shift();
    this.#curve?.add(position, answer.values);
    frame.soon(this);
  }

  #state(state, message) {
    this.node.dataset.state = state;
    this.shown.state.textContent = state === "connecting" ? "connecting" : message;
  }

  draw() {
    this.#tape.draw(this.#elements, this.#sent, this.#answers, this.#rest);
    const answered = this.#answers.length, waiting = this.#sent - answered;
    Object.assign(this.node.dataset, { answered, waiting, ended: this.#ended });
    this.#curve?.draw();
    const sorted = [...this.#times].sort((a, b) => a - b);
    this.shown.waiting.textContent = waiting.toLocaleString("en");
    this.shown.response.textContent = sorted.length ? milliseconds(sorted[sorted.length >> 1]) : NONE;
    this.shown.right.textContent = this.#known ? `${this.#right} of ${this.#known}` : NONE;
    if (this.#ended && waiting === 0 && answered > 0 && !this.#reported) {
      this.#reported = true;
      this.#on.done(this);
    }
  }

  settle() {
    this.#tape.settle();
  }

  /** The content of the tooltip at an element. */
  #explain(position) {
    const found = this.#answers[position];
    if (!found) {
      const what = this.model.streams ? `${counted(this.model.delay, this.#kind)} that follow` : "the end of the text";
      return { title: "waiting", lines: [], note: `for ${what}` };
    }
    const { answer, late, truth, ms } = found;
    const { text, probability, others } = saidOf(answer);
    const lines = others.length ? others : probability === undefined ? [] : [[text, probability]];
    const when = late === 0 ? "at once" : `${counted(late, this.#kind)} late`;
    const was = truth === undefined ? "" : truth === answer.character ? "; right" : `; it was ${named(truth)}`;
    return { title: named(text), lines, note: `${when}, + ${milliseconds(ms)}${was}` };
  }
}

const named = (letter) => (letter === " " ? "a space" : letter);

function milliseconds(ms) {
  if (ms < 10) return `${ms.toFixed(1)} ms`;
  return ms < 1000 ? `${Math.round(ms)} ms` : `${(ms / 1000).toFixed(1)} s`;
}
