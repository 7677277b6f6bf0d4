// A tooltip at a prediction: alternatives, probability, delay. Works with mouse, touch and arrow keys.

import { byId, make } from "./dom.js";

const MAX_ALTERNATIVES = 5;
const box = make("div", { id: "hint", "aria-hidden": "true", hidden: "" });
document.body.append(box);

let at = null; // the cell that it explains

/** Explains the cells of a tape. */
export function attach(tape, explain) {
  tape.addEventListener("pointerover", (event) => {
    const node = event.target.closest(".answered");
    if (node) show(node, explain);
    else if (event.pointerType === "touch") hide();
  });
  // Lifting a finger is a pointerleave too, but then the user wants to read.
  tape.addEventListener("pointerleave", (event) => event.pointerType !== "touch" && hide());
  tape.addEventListener("blur", hide);
  tape.addEventListener("keydown", (event) => {
    const step = { ArrowRight: 1, ArrowLeft: -1, Home: -Infinity, End: Infinity }[event.key];
    if (event.key === "Escape") hide();
    const all = step ? [...tape.querySelectorAll(".answered, .waiting")] : [];
    if (!all.length) return;
    event.preventDefault();
    const from = all.indexOf(at);
    const to = from < 0 ? (step > 0 ? 0 : all.length - 1) : from + step;
    const node = all[Math.min(all.length - 1, Math.max(0, to))];
    node.scrollIntoView({ block: "nearest" });
    show(node, explain);
    byId("said").textContent = box.innerText.replace(/\s+/g, " "); // for screen readers
  });
}

/** Hides the tooltip if it is at a cell of this tape. */
export function leave(tape) {
  if (tape.contains(at)) hide();
}

document.addEventListener("pointerdown", (event) => event.target.closest(".tape") || hide());

function show(node, explain) {
  hide();
  at = node;
  node.classList.add("looked");
  box.hidden = false;
  fill(explain(node));
  place(node);
}

function hide() {
  at?.classList.remove("looked");
  at = null;
  box.hidden = true;
}

function fill({ title, lines, note }) {
  const bars = lines.slice(0, MAX_ALTERNATIVES).map(([name, p]) => {
    const bar = make("i");
    bar.style.setProperty("--sure", p.toFixed(3));
    const percent = `${(100 * p).toFixed(p < 0.1 ? 1 : 0)} %`;
    return make("div", { class: "bar-line" }, make("b", {}, name), bar, make("span", {}, percent));
  });
  box.replaceChildren(...(bars.length ? bars : [make("b", {}, title)]), make("p", {}, note));
}

/** Above the cell, or below if there is no space; never beyond the page's edges. */
function place(node) {
  const cell = node.getBoundingClientRect();
  const { width, height } = box.getBoundingClientRect();
  const rightmost = document.documentElement.clientWidth - width - 8;
  const left = Math.max(8, Math.min(rightmost, cell.left + cell.width / 2 - width / 2));
  const above = cell.top - height - 8;
  box.style.left = `${left + scrollX}px`;
  box.style.top = `${(above > 4 ? above : cell.bottom + 8) + scrollY}px`;
}
