// Plays a text, an element at a time.

export class Player {
  #script = []; #at = 0; #timer;
  playing = false;

  /** `on`: `type(text)`, `end()`, `change()`; `speed()` elements a second. */
  constructor(on, speed) {
    this.on = on;
    this.speed = speed;
  }

  /** Loads a text in pieces. */
  load(pieces) {
    this.#script = pieces;
    this.#at = 0;
  }

  /** Whether `text` is what it has typed so far, and more follows. */
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

  /** Types one element; after the last, ends the text. */
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

/** Splits a text into pieces of one element. */
export function pieces(text, kind) {
  if (kind === "characters") return [...text];
  if (kind === "words") return text.match(/\S+\s*/gu) ?? [];
  return text.match(/[^\n]+\n?/g) ?? [];
}
