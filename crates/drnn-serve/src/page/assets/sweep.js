// Results of `drnn sweep`: each network's mean and standard deviation over its repetitions, and which delay is enough.

/** Networks, by delay. */
export function networks({ runs }) {
  const found = new Map();
  for (const { net, delay, compared, valid } of runs) {
    if (!found.has(net)) found.set(net, { net, family: net.split("-")[0], delay, compared, values: [] });
    if (Number.isFinite(valid)) found.get(net).values.push(valid);
  }
  const all = [...found.values()].filter((net) => net.values.length);
  for (const net of all) Object.assign(net, moments(net.values));
  return all.sort((a, b) => (a.delay ?? Infinity) - (b.delay ?? Infinity));
}

function moments(values) {
  const n = values.length;
  const mean = values.reduce((a, b) => a + b, 0) / n;
  const squares = values.reduce((sum, value) => sum + (value - mean) ** 2, 0);
  return { mean, sd: n > 1 ? Math.sqrt(squares / (n - 1)) : 0 };
}

/** Those whose delay could be chosen; with others they are compared. */
export const candidates = (nets) => nets.filter((net) => !net.compared && net.delay !== null);

/** The network that waits least among those that are good enough, as the program has it. */
export function recommended({ metric, tolerance }, nets) {
  const better = (a, b) => (rises(metric) ? a > b : a < b);
  const best = (found) => found.reduce((a, b) => (a && !better(b.mean, a.mean) ? a : b), undefined);
  const top = best(candidates(nets))?.mean;
  const close = (mean) => (rises(metric) ? mean >= top - tolerance : mean <= top * (1 + tolerance));
  const good = candidates(nets).filter((net) => close(net.mean));
  return best(good.filter((net) => net.delay === good[0].delay));
}

export function summary({ what, metric, tolerance }, chosen) {
  if (!chosen) return `${what}: no delayed network could be trained.`;
  const within = rises(metric) ? tolerance : `${Math.round(100 * tolerance)} %`;
  const shortest = `the shortest that comes within ${within} of the best in ${measure(metric)}`;
  return `On ${what}, a delay of ${chosen.delay} is enough: ${shortest}.`;
}

export const rises = (metric) => metric === "accuracy";

const MEASURES = { accuracy: "accuracy", "squared-error": "squared error", bits: "bits per element" };
export const measure = (metric) => MEASURES[metric] ?? metric;
