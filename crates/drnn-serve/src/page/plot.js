// Delay against quality, from what `drnn sweep` has found: each network's mean over its repetitions, with their spread.

import { draw, make } from "./dom.js";

const WIDEST = 720, HEIGHT = 330, LEFT = 48, RIGHT = 96, TOP = 34, BOTTOM = 44;

/** Shows results, or how to get some. */
export function plot(place, sweep) {
  if (!sweep) {
    const code = (text) => make("code", {}, text);
    place.replaceChildren(make("p", {}, "No sweep is served. ", code("drnn sweep"), " trains a network for every delay and writes ", code("sweep.json"), "; ", code("drnn serve --sweep sweep.json"), " shows it here."));
    return;
  }
  const nets = networks(sweep);
  const best = recommended(sweep, nets);
  const frame = make("div", { class: "picture" });
  place.replaceChildren(
    make("p", {}, summary(sweep, nets, best)),
    frame,
    make("details", {}, make("summary", {}, "The numbers"), make("div", { class: "scroll" }, table(sweep, nets, best))),
  );
  // Drawn as wide as there is room, so that its letters keep their size on a phone.
  let width = 0;
  new ResizeObserver(() => {
    const room = Math.min(WIDEST, Math.floor(frame.clientWidth));
    if (room > 0 && room !== width) frame.replaceChildren(picture(sweep, nets, best, (width = room)));
  }).observe(frame);
}

/** Repetitions of a network together. */
function networks({ runs }) {
  const found = new Map();
  for (const run of runs) {
    if (!found.has(run.net)) found.set(run.net, { net: run.net, family: run.net.split("-")[0], delay: run.delay, compared: run.compared, values: [] });
    if (Number.isFinite(run.valid)) found.get(run.net).values.push(run.valid);
  }
  const all = [...found.values()].filter((net) => net.values.length);
  for (const net of all) {
    const n = net.values.length;
    net.mean = net.values.reduce((a, b) => a + b, 0) / n;
    net.sd = n > 1 ? Math.sqrt(net.values.reduce((sum, v) => sum + (v - net.mean) ** 2, 0) / (n - 1)) : 0;
  }
  return all.sort((a, b) => (a.delay ?? Infinity) - (b.delay ?? Infinity));
}

/** The network that waits least among those that are good enough, as the program has it. */
function recommended({ metric, tolerance }, nets) {
  const delayed = nets.filter((net) => !net.compared && net.delay !== null);
  const rises = metric === "accuracy";
  const best = delayed.reduce((a, net) => (rises ? Math.max(a, net.mean) : Math.min(a, net.mean)), rises ? -Infinity : Infinity);
  const close = (mean) => (rises ? mean >= best - tolerance : mean <= best * (1 + tolerance));
  const good = delayed.filter((net) => close(net.mean));
  const least = good.filter((net) => net.delay === good[0].delay);
  return least.reduce((a, b) => ((rises ? b.mean > a.mean : b.mean < a.mean) ? b : a), least[0]);
}

function summary({ what, metric, tolerance }, nets, best) {
  if (!best) return `${what}: no delayed network could be trained.`;
  const within = metric === "accuracy" ? tolerance : `${Math.round(100 * tolerance)} %`;
  return `On ${what}, a delay of ${best.delay} is enough: the shortest that comes within ${within} of the best in ${measure(metric)}.`;
}

const measure = (metric) => ({ accuracy: "accuracy", "squared-error": "squared error", bits: "bits per element" })[metric] ?? metric;
const shown = (value) => String(Number(value.toPrecision(4)));

function picture(sweep, nets, best, width) {
  const delays = nets.filter((net) => net.delay !== null).map((net) => net.delay);
  const most = Math.max(1, ...delays);
  const values = nets.flatMap((net) => [net.mean - net.sd, net.mean + net.sd]);
  const [low, high, marks, scale] = axis(sweep, nets.map((net) => net.mean), values);
  const x = (delay) => LEFT + (delay / most) * (width - LEFT - RIGHT);
  const y = (value) => TOP + ((scale(high) - scale(value)) / (scale(high) - scale(low))) * (HEIGHT - TOP - BOTTOM);
  const right = x(most);
  const svg = draw("svg", { width, height: HEIGHT, viewBox: `0 0 ${width} ${HEIGHT}`, role: "img", "aria-label": summary(sweep, nets, best) });
  for (const mark of marks) {
    svg.append(draw("line", { class: "grid", x1: LEFT, x2: right, y1: y(mark), y2: y(mark) }),
      draw("text", { x: LEFT - 10, y: y(mark) + 4, "text-anchor": "end" }, shown(mark)));
  }
  for (const delay of sparse([...new Set(delays)], x)) {
    const name = best?.delay === delay ? "name" : "";
    svg.append(draw("text", { class: name, x: x(delay), y: HEIGHT - BOTTOM + 20, "text-anchor": "middle" }, String(delay)));
  }
  svg.append(draw("text", { class: "title", x: (LEFT + right) / 2, y: HEIGHT - 4, "text-anchor": "middle" }, "delay d"),
    draw("text", { class: "title", x: 0, y: 14 }, measure(sweep.metric)));
  const labels = [];
  if (best) {
    svg.append(draw("line", { class: "chosen", x1: x(best.delay), x2: x(best.delay), y1: TOP, y2: HEIGHT - BOTTOM }),
      draw("circle", { class: "chosen-ring", cx: x(best.delay), cy: y(best.mean), r: 9 }));
  }
  for (const net of nets.filter((net) => net.compared || net.delay === null)) {
    svg.append(draw("line", { class: "baseline", x1: LEFT, x2: right, y1: y(net.mean), y2: y(net.mean) }));
    labels.push([net.net, y(net.mean)]);
  }
  const delayed = nets.filter((net) => !net.compared && net.delay !== null);
  for (const family of new Set(delayed.map((net) => net.family))) {
    const own = delayed.filter((net) => net.family === family);
    const plain = own.find((net) => net.delay === 0);
    if (plain) svg.append(draw("line", { class: "baseline", x1: LEFT, x2: right, y1: y(plain.mean), y2: y(plain.mean) }));
    if (plain) labels.push(["no delay", y(plain.mean)]);
    svg.append(draw("polyline", { class: "curve", points: own.map((net) => `${x(net.delay)},${y(net.mean)}`).join(" ") }));
    for (const net of own) {
      if (net.sd) svg.append(whisker(x(net.delay), y(net.mean - net.sd), y(net.mean + net.sd)));
      svg.append(draw("circle", { class: "point", cx: x(net.delay), cy: y(net.mean), r: 4 }, draw("title", {}, `${net.net}: ${shown(net.mean)}`)));
    }
    labels.push([family, y(own.at(-1).mean), "strong"]);
  }
  // Names beside their lines, apart from each other.
  labels.sort((a, b) => a[1] - b[1]);
  labels.reduce((before, [name, at, strong]) => {
    const place = Math.max(at + 4, before + 16);
    svg.append(draw("text", { class: strong ? "name" : "", x: right + 12, y: place }, name));
    return place;
  }, -Infinity);
  return svg;
}

/** A standard deviation to either side. */
const whisker = (x, low, high) => draw("path", { class: "spread", d: `M${x} ${low}V${high}M${x - 4} ${low}h8M${x - 4} ${high}h8` });

/** From where to where, round marks between, and how values lie among them: errors that differ tenfold by their logarithm. */
function axis({ metric }, means, values) {
  const least = Math.min(...means), most = Math.max(...means);
  if (metric !== "accuracy" && least > 0 && most >= 10 * least) {
    const from = Math.floor(Math.log10(least)), to = Math.ceil(Math.log10(most));
    const marks = Array.from({ length: to - from + 1 }, (_, i) => 10 ** (from + i));
    return [marks[0], marks.at(-1), marks, (value) => Math.log10(Math.min(marks.at(-1), Math.max(marks[0], value)))];
  }
  const low = Math.min(...values), high = Math.max(...values);
  const raw = (high - low || Math.abs(high) || 1) / 4;
  const size = 10 ** Math.floor(Math.log10(raw));
  const step = size * [1, 2, 5, 10].find((n) => n * size >= raw);
  const from = Math.floor(low / step), to = Math.max(from + 1, Math.ceil(high / step));
  const marks = Array.from({ length: to - from + 1 }, (_, i) => Number(((from + i) * step).toPrecision(12)));
  return [marks[0], marks.at(-1), marks, (value) => value];
}

/** As many as have room. */
function sparse(delays, x) {
  let last = -Infinity;
  return delays.filter((delay) => x(delay) - last > 22 && ((last = x(delay)), true));
}

function table({ metric }, nets, best) {
  const rows = nets.map((net) =>
    make("tr", {}, make("th", { scope: "row" }, net.net + (net === best ? " *" : "")), make("td", {}, net.delay === null ? "the end" : String(net.delay)),
      make("td", {}, shown(net.mean) + (net.sd ? ` \u00b1 ${shown(net.sd)}` : ""))));
  return make("table", {}, make("thead", {}, make("tr", {}, make("th", { scope: "col" }, "network"), make("th", { scope: "col" }, "waits for"), make("th", { scope: "col" }, `${measure(metric)}, validation`))), make("tbody", {}, ...rows));
}
