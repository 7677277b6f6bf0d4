// Types a text by itself, an element at a time.

export class Player {
  #script = []; #at = 0; #timer;
  playing = false;

  /** `on`: `type(text)`, `end()`, `change()`; `speed()` elements a second. */
  constructor(on, speed) {
    this.on = on;
    this.speed = speed;
  }

  /** What is typed from now on, in pieces. */
  load(pieces) {
    this.#script = pieces;
    this.#at = 0;
  }

  /** Whether `text` is what it has typed so far, with more to come. */
  follows(text) {
    return this.#at < this.#script.length && text === this.#typed;
  }

  get #typed() {
    return this.#script.slice(0, this.#at).join("");
  }

  play() {
    this.playing = true;
    this.on.change();
    this.#tick();
  }

  pause() {
    clearTimeout(this.#timer);
    if (!this.playing) return;
    this.playing = false;
    this.on.change();
  }

  /** One element; at the end, the end. */
  step() {
    this.#at += 1;
    this.on.type(this.#typed);
    if (this.#at < this.#script.length) return;
    this.pause();
    this.on.end();
  }

  #tick() {
    if (!this.playing) return;
    this.step();
    if (this.playing) this.#timer = setTimeout(() => this.#tick(), 1000 / this.speed());
  }
}

/** A text in pieces, an element in each. */
export function pieces(text, kind) {
  if (kind === "characters") return [...text];
  if (kind === "words") return text.match(/\S+\s*/gu) ?? [];
  return text.match(/[^\n]+\n?/g) ?? [];
}
