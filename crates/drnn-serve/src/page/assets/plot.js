// Quality by delay, as a plot and as a table.

import { draw, make } from "./dom.js";
import { candidates, measure, networks, recommended, rises, summary } from "./sweep.js";

const WIDEST = 720, HEIGHT = 330, LEFT = 48, RIGHT = 96, TOP = 34, BOTTOM = 44;
const LINE = 16; // between names
const APART = 22; // marks of the delays

/** Shows results of a sweep, or how to get some. */
export function plot(place, sweep) {
  if (!sweep) return place.replaceChildren(advice());
  const nets = networks(sweep);
  const chosen = recommended(sweep, nets);
  const frame = make("div", { class: "picture" });
  const numbers = make("div", { class: "scroll" }, table(sweep, nets, chosen));
  place.replaceChildren(
    make("p", {}, summary(sweep, chosen)),
    frame,
    make("details", {}, make("summary", {}, "The numbers"), numbers),
  );
  // Drawn at the available width, so that its letters keep their size on a phone.
  let width = 0;
  new ResizeObserver(() => {
    const available = Math.min(WIDEST, Math.floor(frame.clientWidth));
    if (available > 0 && available !== width) frame.replaceChildren(picture(sweep, nets, chosen, (width = available)));
  }).observe(frame);
}

function advice() {
  const code = (text) => make("code", {}, text);
  const [makes, shows] = [code("drnn sweep"), code("drnn serve --sweep sweep.json")];
  return make("p", {}, "No sweep is served. ", makes, " trains a network for every delay; ", shows, " shows here what it found.");
}

function picture(sweep, nets, chosen, width) {
  const delays = nets.filter((net) => net.delay !== null).map((net) => net.delay);
  const { marks, scale } = axis(sweep.metric, nets);
  const [low, high] = [scale(marks[0]), scale(marks.at(-1))];
  const right = width - RIGHT, floor = HEIGHT - BOTTOM;
  const x = (delay) => LEFT + (delay / Math.max(1, ...delays)) * (right - LEFT);
  const y = (value) => TOP + ((high - scale(value)) / (high - low)) * (floor - TOP);
  const level = (name, value) => draw("line", { class: name, x1: LEFT, x2: right, y1: y(value), y2: y(value) });
  const words = (name, at, text, anchor) => draw("text", { class: name, x: at[0], y: at[1], "text-anchor": anchor }, text);
  const names = []; // of lines, with where they end

  const svg = draw("svg", { width, height: HEIGHT, viewBox: `0 0 ${width} ${HEIGHT}`, role: "img" });
  svg.setAttribute("aria-label", summary(sweep, chosen));
  for (const mark of marks) svg.append(level("grid", mark), words("", [LEFT - 10, y(mark) + 4], shown(mark), "end"));
  for (const delay of sparse([...new Set(delays)], x)) {
    svg.append(words(delay === chosen?.delay ? "name" : "", [x(delay), floor + 20], String(delay), "middle"));
  }
  svg.append(words("", [(LEFT + right) / 2, HEIGHT - 4], "delay d", "middle"), words("", [0, 14], measure(sweep.metric)));
  if (chosen) {
    const at = x(chosen.delay);
    svg.append(draw("line", { class: "chosen", x1: at, x2: at, y1: TOP, y2: floor }));
    svg.append(draw("circle", { class: "chosen-ring", cx: at, cy: y(chosen.mean), r: 9 }));
  }
  for (const net of nets.filter((net) => net.compared || net.delay === null)) {
    svg.append(level("baseline", net.mean));
    names.push({ text: net.net, at: y(net.mean) });
  }
  const own = candidates(nets);
  for (const family of new Set(own.map((net) => net.family))) {
    const curve = own.filter((net) => net.family === family);
    const plain = curve.find((net) => net.delay === 0);
    if (plain) {
      svg.append(level("baseline", plain.mean));
      names.push({ text: "no delay", at: y(plain.mean) });
    }
    const points = curve.map((net) => `${x(net.delay)},${y(net.mean)}`).join(" ");
    svg.append(draw("polyline", { class: "curve", points }));
    for (const net of curve) {
      if (net.sd) svg.append(whisker(x(net.delay), y(net.mean - net.sd), y(net.mean + net.sd)));
      const title = draw("title", {}, `${net.net}: ${shown(net.mean)}`);
      svg.append(draw("circle", { class: "point", cx: x(net.delay), cy: y(net.mean), r: 4 }, title));
    }
    names.push({ text: family, at: y(curve.at(-1).mean), strong: true });
  }
  // Next to their lines, without overlap.
  names.sort((a, b) => a.at - b.at);
  names.reduce((previous, { text, at, strong }) => {
    const place = Math.max(at + 4, previous + LINE);
    svg.append(words(strong ? "name" : "", [right + 12, place], text));
    return place;
  }, -Infinity);
  return svg;
}

/** A standard deviation to either side. */
function whisker(x, low, high) {
  return draw("path", { class: "spread", d: `M${x} ${low}V${high}M${x - 4} ${low}h8M${x - 4} ${high}h8` });
}

/** Round tick marks, and a scale: logarithmic for errors that span a factor of ten or more. */
function axis(metric, nets) {
  const means = nets.map((net) => net.mean);
  const min = Math.min(...means), max = Math.max(...means);
  if (!rises(metric) && min > 0 && max >= 10 * min) {
    const from = Math.floor(Math.log10(min)), to = Math.ceil(Math.log10(max));
    const within = (value) => Math.min(10 ** to, Math.max(10 ** from, value));
    return { marks: steps(from, to, (power) => 10 ** power), scale: (value) => Math.log10(within(value)) };
  }
  const low = Math.min(...nets.map((net) => net.mean - net.sd)), high = Math.max(...nets.map((net) => net.mean + net.sd));
  const rough = (high - low || Math.abs(high) || 1) / 4;
  const size = 10 ** Math.floor(Math.log10(rough));
  const step = size * [1, 2, 5, 10].find((n) => n * size >= rough);
  const from = Math.floor(low / step), to = Math.max(from + 1, Math.ceil(high / step));
  return { marks: steps(from, to, (n) => Number((n * step).toPrecision(12))), scale: (value) => value };
}

const steps = (from, to, value) => Array.from({ length: to - from + 1 }, (_, i) => value(from + i));

/** The delays whose labels do not overlap. */
function sparse(delays, x) {
  let last = -Infinity;
  return delays.filter((delay) => x(delay) - last > APART && ((last = x(delay)), true));
}

function table({ metric }, nets, chosen) {
  const row = (name, cells) => make("tr", {}, ...cells.map((text) => make(name, {}, text)));
  const rows = nets.map((net) => {
    const worth = shown(net.mean) + (net.sd ? ` \u00b1 ${shown(net.sd)}` : "");
    return row("td", [net === chosen ? `${net.net} *` : net.net, net.delay === null ? "the end" : String(net.delay), worth]);
  });
  const head = row("th", ["network", "waits for", `${measure(metric)}, validation`]);
  return make("table", {}, make("thead", {}, head), make("tbody", {}, ...rows));
}

const shown = (value) => String(Number(value.toPrecision(4)));
