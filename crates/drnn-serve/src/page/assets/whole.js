// A bidirectional model: it runs when the text has ended.

import { Backoff } from "./backoff.js";
import { run } from "./server.js";

export class Whole {
  #model; #value; #on; #backoff = new Backoff(); #request;
  #shown = []; #key = ""; // the text; its key once it was requested

  /** `on` as in live.js. */
  constructor(model, value, on) {
    this.#model = model;
    this.#value = value;
    this.#on = on;
  }

  set(elements, ended) {
    const key = ended ? JSON.stringify(elements) : "";
    if (ended && key === this.#key) return;
    const goesOn = !this.#key && this.#shown.every((element, at) => element === elements[at]);
    this.#key = key;
    this.#shown = elements;
    this.close();
    if (!goesOn) this.#on.begin();
    this.#on.sent(elements.length);
    this.#on.state("live", "");
    if (ended && elements.length) this.#run(elements);
  }

  close() {
    this.#request?.abort();
    this.#backoff.stop();
  }

  async #run(elements) {
    const request = (this.#request = new AbortController());
    const begun = performance.now();
    try {
      const answers = await run(this.#model.name, elements.map(this.#value), request.signal);
      if (request.signal.aborted) return;
      const late = performance.now() - begun;
      this.#backoff.reset();
      this.#on.state("live", "");
      answers.forEach((answer) => this.#on.answer(answer.position, answer, late));
    } catch (e) {
      if (request.signal.aborted) return;
      if (e.status === 401) {
        this.#key = ""; // it is requested again with another token
        this.#on.unauthorized();
      }
      if (e.status !== 0 && e.status !== 503) return this.#on.state("refused", e.message);
      const wait = this.#backoff.wait(() => this.#run(elements));
      this.#on.state("lost", `${e.message}; next attempt in ${Math.max(1, Math.round(wait / 1000))} s. Your text is kept.`);
    }
  }
}
