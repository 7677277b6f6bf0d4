// The values that a model has predicted, as curves over the position: one for each target, on its own scale.

import { draw, make } from "./dom.js";

const SHOWN = 300; // positions; earlier ones leave on the left
const TARGETS = 4; // curves; further targets are only in the cells
const [WIDTH, HEIGHT, EDGE] = [600, 90, 6];

export class Curve {
  #names; #values = []; #svg;

  constructor(names) {
    this.#names = names.slice(0, TARGETS);
    this.#svg = draw("svg", { viewBox: `0 0 ${WIDTH} ${HEIGHT}`, preserveAspectRatio: "none", "aria-hidden": "true" });
    this.caption = make("figcaption", {});
    this.node = make("figure", { class: "curve", hidden: "" }, this.#svg, this.caption);
  }

  clear() {
    this.#values = [];
    this.draw();
  }

  /** The values predicted for a position, by target. */
  add(position, values) {
    this.#values[position] = this.#names.map((name) => values[name]);
  }

  draw() {
    const count = this.#values.length, first = Math.max(0, count - SHOWN);
    this.node.hidden = count < 2;
    if (count < 2) return;
    const ranges = [];
    const lines = this.#names.map((name, target) => {
      const values = this.#values.slice(first).map((all) => all[target]);
      const [low, high] = [Math.min(...values), Math.max(...values)];
      ranges.push(`${name} ${number(low)} to ${number(high)}`);
      const x = (at) => EDGE + (at / (values.length - 1)) * (WIDTH - 2 * EDGE);
      const y = (value) => HEIGHT - EDGE - ((value - low) / (high - low || 1)) * (HEIGHT - 2 * EDGE);
      const points = values.map((value, at) => `${x(at).toFixed(1)},${y(value).toFixed(1)}`).join(" ");
      return draw("polyline", { class: `line line-${target}`, points, "vector-effect": "non-scaling-stroke" });
    });
    this.#svg.replaceChildren(...lines);
    this.caption.textContent = `predictions ${first + 1} to ${count}: ${ranges.join("; ")}`;
  }
}

const number = (value) => String(Number(value.toPrecision(4)));
