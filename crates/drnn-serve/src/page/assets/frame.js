// What changes is drawn once per frame, however fast answers come: first everything is written, then measured.

const waiting = new Set();

/** `drawn.draw()` with the next frame, and `drawn.settle()` when all others are drawn too. */
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
