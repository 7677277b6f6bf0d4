// Texts that the page plays. The masked letters are known, so that it can count correct predictions; they are chosen
// such that the built-in models are right about as often as in their tests (54, 81 and 76 %).

const LETTERS = [
  [
    "the _ld man lived a_one by the sea an_ fi_hed in a sm_ll b_at u_til _he winter came",
    "the old man lived alone by the sea and fished in a small boat until the winter came",
  ],
  [
    "she w_s born in a _mall town _ear the ri_er a_d st_die_ music at the university of v_enna",
    "she was born in a small town near the river and studied music at the university of vienna",
  ],
  [
    "the f_rst rai_way wa_ built to carry co_l from the mines t_ the harb_ur in _ighteen twenty fiv_",
    "the first railway was built to carry coal from the mines to the harbour in eighteen twenty five",
  ],
];
const WORDS = [
  "They record a record while we watch our watch.",
  "The judge will judge the match, and we will match his record.",
  "Time flies like an arrow; fruit flies like a banana.",
];

/** Example `number` for a group of models: the text and, if it has masks, the original. */
export function example(group, number) {
  if (group.kind === "characters") {
    const [text, original] = LETTERS[number % LETTERS.length];
    return { text, original };
  }
  if (group.kind === "words") return { text: WORDS[number % WORDS.length] };
  return { text: waves(group.reads, number) };
}

/** Example rows of numbers, fields or tokens. */
function waves({ kind, count, columns, scales }, number) {
  const row = (t) => {
    if (kind === "tokens") return String((t * t + number) % count);
    if (columns) return columns.map((column, i) => field(column.kind, t, i, number, scales?.[i])).join(", ");
    return Array.from({ length: count }, (_, i) => wave(t, i, number, scales?.[i])).join(", ");
  };
  return Array.from({ length: 24 }, (_, t) => `${row(t)}\n`).join("");
}

/** Number `i` of row `t`: within one standard deviation of its column's mean, or of 0 where they are not known. */
function wave(t, i, number, scale) {
  const { mean, sd } = scale ?? { mean: 0, sd: 1 };
  // Two digits of the standard deviation are enough.
  const digits = Math.min(Math.max(2 - Math.floor(Math.log10(sd) + 1e-9), 0), 20);
  return (mean + sd * Math.sin(t / (2 + i) + number)).toFixed(digits);
}

/** Field `i` of row `t`: a number, an hour of a day, or a category. */
function field(kind, t, i, number, scale) {
  if (kind.category) return kind.category.names[(t + number) % kind.category.names.length];
  if (!kind.time) return wave(t, i, number, scale);
  const hour = String(t % 24).padStart(2, "0");
  const { format } = kind.time;
  const date = { iso: "2024-07-01", "day-first": "01/07/2024", "month-first": "07/01/2024" }[format];
  return date ? `${date} ${hour}:00` : String((1719792000 + 3600 * t) * (format === "unix-ms" ? 1000 : 1));
}
