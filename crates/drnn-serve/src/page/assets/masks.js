// Letters that the page itself has masked, so that it knows them.

const SHARE = 0.2;

export class Masks {
  #masked = [];
  #original = [];

  /** Records a masked text and its original. */
  remember(masked, original) {
    this.#masked = [...masked];
    this.#original = [...original];
  }

  /** Masks a fifth of the letters of a text. Known letters of earlier masks stay known. */
  mask(text) {
    const before = [...text];
    const original = before.map((c, at) => (c === "_" ? (this.#known(before, at) ?? c) : c));
    const masked = before.map((c) => (/\s/u.test(c) || Math.random() >= SHARE ? c : "_"));
    this.remember(masked, original);
    return masked.join("");
  }

  /** The original letter of a mask, if the text before it was not edited. */
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
