// A small note at an answer: alternatives, how sure, how late. With the mouse, and with arrow keys from the tape.

import { byId, make } from "./dom.js";

const box = make("div", { id: "hint", "aria-hidden": "true", hidden: "" });
document.body.append(box);

/** Explains the cells of a tape. Whoever moves with keys may not see it, so it is said too. */
export function attach(tape, explain) {
  let at = null;
  const cells = () => [...tape.querySelectorAll(".answered, .waiting")];
  const show = (node, speak) => {
    at?.classList.remove("looked");
    at = node;
    if (!node) return void (box.hidden = true);
    node.classList.add("looked");
    fill(explain(node));
    place(node);
    if (speak) byId("said").textContent = box.innerText.replace(/\s+/g, " ");
  };
  tape.addEventListener("pointerover", (event) => {
    const node = event.target.closest?.(".answered");
    if (node) show(node);
  });
  tape.addEventListener("pointerleave", () => show(null));
  tape.addEventListener("blur", () => show(null));
  tape.addEventListener("keydown", (event) => {
    const step = { ArrowRight: 1, ArrowLeft: -1, Home: -Infinity, End: Infinity }[event.key];
    if (event.key === "Escape") show(null);
    if (!step) return;
    event.preventDefault();
    const all = cells();
    if (!all.length) return;
    const from = all.indexOf(at);
    const to = from < 0 ? (step > 0 ? 0 : all.length - 1) : from + step;
    const node = all[Math.min(all.length - 1, Math.max(0, to))];
    node.scrollIntoView({ block: "nearest" });
    show(node, true);
  });
}

function fill({ title, lines, note }) {
  const bars = lines.slice(0, 5).map(([name, p]) => {
    const bar = make("i");
    bar.style.setProperty("--sure", p.toFixed(3));
    return make("div", { class: "bar-line" }, make("b", {}, name), bar, make("span", {}, `${(100 * p).toFixed(p < 0.1 ? 1 : 0)} %`));
  });
  box.replaceChildren(...(bars.length ? bars : [make("b", {}, title)]), make("p", {}, note));
}

/** Above the cell, or below where there is no room; never beyond the page's edges. */
function place(node) {
  box.hidden = false;
  const cell = node.getBoundingClientRect();
  const { width, height } = box.getBoundingClientRect();
  const left = Math.min(document.documentElement.clientWidth - width - 8, Math.max(8, cell.left + cell.width / 2 - width / 2));
  const above = cell.top - height - 8;
  box.style.left = `${left + scrollX}px`;
  box.style.top = `${(above > 4 ? above : cell.bottom + 8) + scrollY}px`;
}
