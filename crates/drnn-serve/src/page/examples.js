// What the page types by itself. Of letters the masked ones are known, so that it can count who is right.

const LETTERS = [
  [
    "th_ old man li_ed alone b_ the s_a and _ished in a s_all bo_t until the wi_ter came",
    "the old man lived alone by the sea and fished in a small boat until the winter came",
  ],
  [
    "she _as born in a _mall town near the r_ver and st_died music at the uni_ersity of vie_na",
    "she was born in a small town near the river and studied music at the university of vienna",
  ],
  [
    "the f_rst railway was _uilt to carry co_l from the m_nes to the harb_ur in eight_en twenty five",
    "the first railway was built to carry coal from the mines to the harbour in eighteen twenty five",
  ],
];
const WORDS = [
  "They record a record while we watch our watch.",
  "The judge will judge the match, and we will match his record.",
  "Time flies like an arrow; fruit flies like a banana.",
];

/** The example of this number for a group of models: the text, and with masks the letters behind them. */
export function example(group, number) {
  if (group.kind === "characters") {
    const [text, original] = LETTERS[number % LETTERS.length];
    return { text, original };
  }
  if (group.kind === "words") return { text: WORDS[number % WORDS.length] };
  return { text: waves(group.reads, number) };
}

/** Rows for whoever has none at hand. */
function waves({ kind, count }, number) {
  const row = (t) =>
    kind === "tokens"
      ? String((t * t + number) % count)
      : Array.from({ length: count }, (_, i) => Math.sin(t / (2 + i) + number).toFixed(2)).join(", ");
  return Array.from({ length: 24 }, (_, t) => `${row(t)}\n`).join("");
}
