// A model that streams: elements are sent as they are typed, predictions arrive d elements later.
//
// The text is the source of truth. What was sent is a prefix of it; if an edit changes that prefix, the sequence is
// flushed and the text is sent again from the start. The same happens after a lost connection.

import { Backoff } from "./backoff.js";
import { open, models } from "./server.js";

const MAX_ELEMENTS = 256; // of a message
const MAX_IN_FLIGHT = 2048; // elements without predictions, so that a pasted book does not fill the server's memory
const MAX_BYTES = 30_000; // of a message

export class Live {
  #model; #value; #on; #socket; #backoff = new Backoff();
  #text = []; #ended = false; // the text to send
  #sent = []; #flushed = false; #sequence = 0; // what was sent
  #times = []; #flushTime = 0; #answered = 0;
  #blocked = null; // a refused element: nothing is sent from there on until it is edited
  #trouble = "";

  /** `on`: `begin()`, `sent(count)`, `answer(position, answer, late)`, `state(name, message)`, `unauthorized()`. */
  constructor(model, value, on) {
    this.#model = model;
    this.#value = value;
    this.#on = on;
    this.#connect();
  }

  /** Sets the text, and whether it has ended. */
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
    socket.onmessage = (event) => this.#receive(JSON.parse(event.data));
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
      this.#on.state("asleep", "idle; typing reconnects");
      return;
    }
    const wait = this.#backoff.wait(() => this.#connect());
    const why = this.#trouble || (opened ? "connection lost" : "no connection");
    this.#trouble = "";
    this.#on.state("lost", `${why}; next attempt in ${Math.max(1, Math.round(wait / 1000))} s. Your text is kept.`);
    // Browsers do not reveal why a WebSocket failed.
    if (!opened) models().catch((e) => e.status === 401 && this.#on.unauthorized());
  }

  #receive(frame) {
    if (frame.ready) {
      this.#ready = true;
      this.#backoff.reset();
      this.#sequence = 0;
      this.#on.state("live", "");
      this.#fresh();
      this.#send();
    } else if (frame.error) {
      this.#refused(frame.error);
    } else if (frame.position !== undefined && frame.sequence === this.#current) {
      const due = frame.position + this.#model.delay;
      const since = due < this.#sent.length ? this.#times[due] : this.#flushTime;
      this.#answered = frame.position + 1;
      this.#on.answer(frame.position, frame, performance.now() - since);
      this.#send();
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

  /** Starts a sequence. */
  #fresh() {
    this.#sent = [];
    this.#times = [];
    this.#flushed = false;
    this.#answered = 0;
    this.#on.begin();
  }

  /** The server's index of the sequence that is shown. */
  get #current() {
    return this.#sequence - (this.#flushed ? 1 : 0);
  }

  /** Sends the changes of the text. */
  #follow() {
    const begun = this.#sent.every((element, at) => element === this.#text[at]);
    const over = this.#flushed && (!this.#ended || this.#text.length !== this.#sent.length);
    if (!begun || over) {
      if (!this.#flushed) this.#flush();
      this.#fresh();
    }
    this.#send();
  }

  /** Sends what was not sent yet. */
  #send() {
    const end = this.#blocked ? this.#blocked.at : this.#text.length;
    while (this.#sent.length < end && this.#sent.length - this.#answered < MAX_IN_FLIGHT) this.#sendSome(end);
    if (this.#ended && !this.#flushed && !this.#blocked && this.#sent.length === this.#text.length) {
      this.#flush();
      this.#flushed = true;
    }
  }

  #sendSome(end) {
    const position = this.#sent.length;
    const elements = [];
    for (let at = position, bytes = 0; at < end && elements.length < MAX_ELEMENTS && bytes < MAX_BYTES; at++) {
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
