// What the marks mean, in plain words.

import { make } from "./dom.js";
import { KINDS } from "./elements.js";

export function legend(group) {
  const kind = KINDS[group.kind];
  const letters = group.kind === "characters";
  const waits = "sent, and waiting: the delay";
  const entries = letters
    ? [
        [[mark("letter answered right", "e", "5")], "a masked letter, filled in; the number says how many letters later"],
        [[mark("letter answered wrong", "a", "5")], "filled in, but it was another"],
        [["a", "n", "d"].map((sign) => mark("letter waiting", sign)), waits],
      ]
    : [
        [[mark("token answered", kind.one, "+1")], `a ${kind.one} with its answer; the number says how many ${kind.many} later`],
        [[mark("token waiting", kind.one)], waits],
      ];
  const swatch = (marks) => make("span", { class: "swatch", "aria-hidden": "true" }, ...marks);
  return entries.map(([marks, words]) => make("li", {}, swatch(marks), words));
}

/** A cell as it is on a tape. */
function mark(classes, sign, late = "") {
  const number = late ? [make("span", { class: "late" }, late)] : [];
  const letter = classes.startsWith("letter");
  const below = letter ? number : [make("span", { class: "tag" }, late ? "answer" : "\u00a0", ...number)];
  return make("span", { class: `cell ${classes}` }, make("span", { class: "sign" }, sign), ...below);
}

export function legendWords(group) {
  const words = ["An answer never changes once it is there. Whoever edits what was sent begins anew."];
  if (group.models.some((model) => !model.streams)) {
    words.push("A bidirectional network also reads from the end, so it has nothing to say before the text has one;");
    words.push("then it says everything at once.");
  }
  if (group.kind === "characters") {
    words.push("Point at a filled letter, or move there with the arrow keys, to see what else it may have been.");
  }
  return words.join(" ");
}
