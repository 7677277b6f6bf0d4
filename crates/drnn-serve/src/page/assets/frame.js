// Redraws at most once per frame, however fast predictions arrive: first all writes, then all measurements.

const waiting = new Set();

/** Calls `drawn.draw()` in the next frame, and `drawn.settle()` after all others are drawn. */
export function soon(drawn) {
  if (!waiting.size) requestAnimationFrame(all);
  waiting.add(drawn);
}

export function never(drawn) {
  waiting.delete(drawn);
}

function all() {
  const now = [...waiting];
  waiting.clear();
  now.forEach((drawn) => drawn.draw());
  now.forEach((drawn) => drawn.settle());
}
