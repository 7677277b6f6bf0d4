// Trying again, less and less often.

const FIRST = 500, LONGEST = 15_000;

export class Backoff {
  #failures = 0;
  #timer;

  /** Calls `again` after a while: how many milliseconds. */
  wait(again) {
    this.stop();
    const longest = Math.min(LONGEST, FIRST * 2 ** this.#failures++);
    const wait = longest * (0.75 + Math.random() / 4); // not all pages at once
    this.#timer = setTimeout(again, wait);
    return wait;
  }

  /** It went well. */
  reset() {
    this.stop();
    this.#failures = 0;
  }

  stop() {
    clearTimeout(this.#timer);
  }
}
