// Retries with exponential backoff.

const FIRST = 500, MAX = 15_000; // milliseconds

export class Backoff {
  #failures = 0;
  #timer;

  /** Calls `retry` after a delay, and returns the delay in milliseconds. */
  wait(retry) {
    this.stop();
    const max = Math.min(MAX, FIRST * 2 ** this.#failures++);
    const wait = max * (0.75 + Math.random() / 4); // jitter, so that pages do not retry together
    this.#timer = setTimeout(retry, wait);
    return wait;
  }

  /** After a success: starts over. */
  reset() {
    this.stop();
    this.#failures = 0;
  }

  stop() {
    clearTimeout(this.#timer);
  }
}
