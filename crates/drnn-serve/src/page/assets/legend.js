// The legend.

import { make } from "./dom.js";
import { KINDS } from "./elements.js";

export function legend(group) {
  const kind = KINDS[group.kind];
  const letters = group.kind === "characters";
  const waits = "sent, waiting for its prediction: the delay";
  const entries = letters
    ? [
        [[mark("letter answered right", "e", "5")], "a masked letter, filled in; the number says how many letters later"],
        [[mark("letter answered wrong", "a", "5")], "filled in, but wrong"],
        [["a", "n", "d"].map((sign) => mark("letter waiting", sign)), waits],
      ]
    : [
        [[mark("token answered", kind.one, "+1")], `a ${kind.one} with its prediction; the number says how many ${kind.many} later`],
        [[mark("token waiting", kind.one)], waits],
      ];
  const swatch = (marks) => make("span", { class: "swatch", "aria-hidden": "true" }, ...marks);
  return entries.map(([marks, words]) => make("li", {}, swatch(marks), words));
}

/** A cell as on a tape. */
function mark(classes, sign, late = "") {
  const number = late ? [make("span", { class: "late" }, late)] : [];
  const letter = classes.startsWith("letter");
  const below = letter ? number : [make("span", { class: "tag" }, late ? "prediction" : "\u00a0", ...number)];
  return make("span", { class: `cell ${classes}` }, make("span", { class: "sign" }, sign), ...below);
}

export function legendWords(group) {
  const words = ["A prediction never changes once it is made. Editing text that was sent starts a new sequence."];
  if (group.models.some((model) => !model.streams)) {
    words.push("A bidirectional network also reads from the end, so it predicts nothing before the text has ended;");
    words.push("then it predicts everything at once.");
  }
  if (group.kind === "characters") {
    words.push("Point at a filled letter, or move there with the arrow keys, to see the alternatives.");
  }
  return words.join(" ");
}
