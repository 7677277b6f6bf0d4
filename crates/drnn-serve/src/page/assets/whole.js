// A model that reads from the end too: it is asked when the text has ended, and not before.

import { Backoff } from "./backoff.js";
import { run } from "./server.js";

export class Whole {
  #model; #value; #on; #backoff = new Backoff(); #asked;
  #shown = []; #key = ""; // the text; the same once it was asked for

  /** `on` as of a live one. */
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
    if (ended && elements.length) this.#ask(elements);
  }

  close() {
    this.#asked?.abort();
    this.#backoff.stop();
  }

  async #ask(elements) {
    const asked = (this.#asked = new AbortController());
    const begun = performance.now();
    try {
      const answers = await run(this.#model.name, elements.map(this.#value), asked.signal);
      if (asked.signal.aborted) return;
      const late = performance.now() - begun;
      this.#backoff.reset();
      this.#on.state("live", "");
      answers.forEach((answer) => this.#on.answer(answer.position, answer, late));
    } catch (e) {
      if (asked.signal.aborted) return;
      if (e.status === 401) {
        this.#key = ""; // it is asked again with another token
        this.#on.unauthorized();
      }
      if (e.status !== 0 && e.status !== 503) return this.#on.state("refused", e.message);
      const wait = this.#backoff.wait(() => this.#ask(elements));
      this.#on.state("lost", `${e.message}; next try in ${Math.max(1, Math.round(wait / 1000))} s. Your text is kept.`);
    }
  }
}
