// What the marks mean, in plain words.

import { make } from "./dom.js";
import { KINDS } from "./elements.js";

export function legend(group) {
  const kind = KINDS[group.kind];
  const letters = group.kind === "characters";
  const entries = letters
    ? [
        [[swatch("letter answered right", "e", "5")], "a masked letter, filled in; the number says how many letters later"],
        [[swatch("letter answered wrong", "a", "5")], "filled in, but it was another"],
        [["a", "n", "d"].map((sign) => swatch("letter waiting", sign)), "sent, and waiting: the delay"],
      ]
    : [
        [[swatch("token answered", kind.one, "+1")], `a ${kind.one} with its answer; the number says how many ${kind.many} later`],
        [[swatch("token waiting", kind.one)], "sent, and waiting: the delay"],
      ];
  return entries.map(([marks, words]) => make("li", {}, make("span", { class: "swatch", "aria-hidden": "true" }, ...marks), words));
}

function swatch(classes, sign, late = "") {
  const mark = late ? [make("span", { class: "late" }, late)] : [];
  const below = classes.startsWith("letter") ? mark : [make("span", { class: "tag" }, late ? "answer" : "\u00a0", ...mark)];
  return make("span", { class: `cell ${classes}` }, make("span", { class: "sign" }, sign), ...below);
}

export function legendWords(group) {
  const waits = group.models.some((model) => !model.streams);
  const words = ["An answer never changes once it is there. Whoever edits what was sent begins anew."];
  if (waits) words.push("A bidirectional network also reads from the end, so it has nothing to say before the text has one; then it says everything at once.");
  if (group.kind === "characters") words.push("Point at a filled letter, or move there with the arrow keys, to see what else it may have been.");
  return words.join(" ");
}
