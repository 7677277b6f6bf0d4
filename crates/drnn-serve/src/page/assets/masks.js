// Letters that the page has masked itself: it knows what they were.

const SHARE = 0.2;

export class Masks {
  #masked = [];
  #original = [];

  /** From now on these belong together. */
  remember(masked, original) {
    this.#masked = [...masked];
    this.#original = [...original];
  }

  /** A fifth of the letters of a text, masked. Those that were masked before stay what they are. */
  mask(text) {
    const before = [...text];
    const original = before.map((c, at) => (c === "_" ? (this.#known(before, at) ?? c) : c));
    const masked = before.map((c) => (/\s/u.test(c) || Math.random() >= SHARE ? c : "_"));
    this.remember(masked, original);
    return masked.join("");
  }

  /** The letter behind a mask of this text, as far as the text is still what was masked. */
  truth(elements, at) {
    const truth = this.#known(elements, at);
    return truth === "_" ? undefined : truth;
  }

  #known(elements, at) {
    const near = (i) => i < 0 || i >= elements.length || elements[i] === this.#masked[i];
    for (let i = at - 3; i <= at; i++) if (!near(i)) return undefined;
    return this.#original[at];
  }
}
