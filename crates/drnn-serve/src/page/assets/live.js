// A model that streams: elements go out as they come, answers come back d later.
//
// The text is the truth. What was sent is a beginning of it; where that is no longer so, because the text was edited,
// the sequence is ended and the text sent anew. So it is after a lost connection, and nothing is lost with it.

import { Backoff } from "./backoff.js";
import { open, models } from "./server.js";

const AT_ONCE = 256; // elements of a message
const UNANSWERED = 2048; // elements on the way: whoever pastes a book does not fill the server's memory
const BYTES = 30_000; // of a message

export class Live {
  #model; #value; #on; #socket; #backoff = new Backoff();
  #text = []; #ended = false; // what is to be said
  #sent = []; #flushed = false; #sequence = 0; // what was
  #times = []; #flushTime = 0; #answered = 0;
  #blocked = null; // an element that was refused: nothing is sent from there on until it is another
  #trouble = "";

  /** `on`: `begin()`, `sent(count)`, `answer(position, answer, late)`, `state(name, message)`, `unauthorized()`. */
  constructor(model, value, on) {
    this.#model = model;
    this.#value = value;
    this.#on = on;
    this.#connect();
  }

  /** The text is now this, and has ended or not. */
  set(elements, ended) {
    this.#text = elements;
    this.#ended = ended;
    if (this.#blocked && elements[this.#blocked.at] !== this.#blocked.raw) {
      this.#blocked = null;
      if (this.#ready) this.#on.state("live", "");
    }
    if (!this.#socket) return this.#asleep && this.#connect();
    if (this.#ready) this.#follow();
  }

  close() {
    this.#backoff.stop();
    this.#drop();
  }

  #ready = false;
  #asleep = false;

  #connect() {
    this.#asleep = false;
    this.#on.state("connecting", "");
    const socket = (this.#socket = open(this.#model.name));
    socket.onmessage = (event) => this.#hear(JSON.parse(event.data));
    socket.onclose = (event) => this.#lost(event);
  }

  #drop() {
    const socket = this.#socket;
    this.#socket = undefined;
    this.#ready = false;
    if (socket) {
      socket.onmessage = socket.onclose = null;
      socket.close();
    }
  }

  #lost(event) {
    const opened = this.#ready;
    this.#drop();
    if (["idle", "too_long"].includes(event.reason)) {
      this.#asleep = true;
      this.#on.state("asleep", "asleep; it wakes when you type");
      return;
    }
    const wait = this.#backoff.wait(() => this.#connect());
    const why = this.#trouble || (opened ? "connection lost" : "no connection");
    this.#trouble = "";
    this.#on.state("lost", `${why}; next try in ${Math.max(1, Math.round(wait / 1000))} s. Your text is kept.`);
    // A browser does not say why a connection could not be had.
    if (!opened) models().catch((e) => e.status === 401 && this.#on.unauthorized());
  }

  #hear(said) {
    if (said.ready) {
      this.#ready = true;
      this.#backoff.reset();
      this.#sequence = 0;
      this.#on.state("live", "");
      this.#fresh();
      this.#say();
    } else if (said.error) {
      this.#refused(said.error);
    } else if (said.position !== undefined && said.sequence === this.#current) {
      const known = said.position + this.#model.delay;
      const asked = known < this.#sent.length ? this.#times[known] : this.#flushTime;
      this.#answered = said.position + 1;
      this.#on.answer(said.position, said, performance.now() - asked);
      this.#say();
    }
  }

  #refused({ code, message, position, sequence }) {
    this.#trouble = message;
    if (code !== "element_refused" || sequence !== this.#current) return;
    this.#sent.length = position;
    this.#blocked = { at: position, raw: this.#text[position] };
    this.#trouble = "";
    this.#on.state("refused", message);
    this.#on.sent(position);
  }

  /** A sequence begins. */
  #fresh() {
    this.#sent = [];
    this.#times = [];
    this.#flushed = false;
    this.#answered = 0;
    this.#on.begin();
  }

  /** Of the text that is shown: the number of sequences that were ended before. */
  get #current() {
    return this.#sequence - (this.#flushed ? 1 : 0);
  }

  /** The text may be another. */
  #follow() {
    const begun = this.#sent.every((element, at) => element === this.#text[at]);
    const over = this.#flushed && (!this.#ended || this.#text.length !== this.#sent.length);
    if (!begun || over) {
      if (!this.#flushed) this.#flush();
      this.#fresh();
    }
    this.#say();
  }

  /** Says what is not said yet. */
  #say() {
    const end = this.#blocked ? this.#blocked.at : this.#text.length;
    while (this.#sent.length < end && this.#sent.length - this.#answered < UNANSWERED) this.#sendSome(end);
    if (this.#ended && !this.#flushed && !this.#blocked && this.#sent.length === this.#text.length) {
      this.#flush();
      this.#flushed = true;
    }
  }

  #sendSome(end) {
    const position = this.#sent.length;
    const elements = [];
    for (let at = position, bytes = 0; at < end && elements.length < AT_ONCE && bytes < BYTES; at++) {
      elements.push(this.#value(this.#text[at]));
      bytes += 4 * this.#text[at].length;
    }
    this.#socket.send(JSON.stringify({ elements, position }));
    const now = performance.now();
    elements.forEach((_, i) => {
      this.#sent.push(this.#text[position + i]);
      this.#times.push(now);
    });
    this.#on.sent(this.#sent.length);
  }

  #flush() {
    this.#socket.send(JSON.stringify({ flush: true }));
    this.#flushTime = performance.now();
    this.#sequence += 1;
  }
}
