// Tokenises running text by the rules of tokenize.rs, so that page and model agree on what a word is. A test compares
// the two.

const OPENING = `([{"'\u201c\u2018\u00ab<$#\u00a3\u20ac\u00bf\u00a1*-\u2013\u2014`;
const CLOSING = `)]}"'\u201d\u2019\u00bb>.,;:!?%\u2026*-\u2013\u2014`;
const ABBREVIATIONS = new Set([
  "mr", "mrs", "ms", "dr", "st", "prof", "sr", "jr", "inc", "ltd", "co", "corp", "vs", "etc",
  "no", "jan", "feb", "aug", "sept", "oct", "nov", "dec", "gen", "sen",
]);
const ENDINGS = ["n't", "'s", "'re", "'ve", "'ll", "'d", "'m"];
const LETTER = /^\p{Alphabetic}$/u;

/** The tokens of a line. */
export function tokenize(line) {
  // \p{White_Space}, because \s also matches the byte order mark.
  return line.split(/\p{White_Space}+/u).filter(Boolean).flatMap(split);
}

function split(chunk) {
  const tokens = [], closing = [];
  let rest = [...chunk];
  for (let n; (n = run(rest, OPENING)) && n < rest.length; rest = rest.slice(n)) {
    if (n === 1 && rest[0] === "-" && /[0-9]/.test(rest[1])) break; // -5 is a word
    tokens.push(rest.slice(0, n).join(""));
  }
  for (let n; (n = run([...rest].reverse(), CLOSING)) && n < rest.length; rest = rest.slice(0, -n)) {
    const sign = rest.slice(-n).join("");
    if (sign === "." && keepsStop(rest.slice(0, -n))) break;
    closing.unshift(sign);
  }
  return [...tokens, ...inside(rest), ...closing];
}

/** Length of the run of equal signs at the start. */
function run(chars, signs) {
  if (!chars.length || !signs.includes(chars[0])) return 0;
  const other = chars.findIndex((c) => c !== chars[0]);
  return other < 0 ? chars.length : other;
}

function keepsStop(chars) {
  const single = chars.length === 1 && LETTER.test(chars[0]);
  const letters = chars.includes(".") && chars.every((c) => c === "." || LETTER.test(c));
  return single || letters || ABBREVIATIONS.has(chars.join("").toLowerCase());
}

/** Splits a word without punctuation around it: contractions, hyphens, slashes. */
function inside(chars) {
  const word = chars.join("");
  if (word.includes("://") || word.includes("@") || word.startsWith("www.")) return [word];
  const lower = word.toLowerCase().replaceAll("\u2019", "'");
  if (lower === "cannot") return [word.slice(0, 3), word.slice(3)];
  const ending = ENDINGS.find((ending) => lower.endsWith(ending));
  const at = ending ? chars.length - ending.length : chars.length;
  if (at <= 0) return hyphens(chars);
  return [...hyphens(chars.slice(0, at)), chars.slice(at).join("")].filter(Boolean);
}

function hyphens(chars) {
  const tokens = [];
  let from = 0;
  chars.forEach((c, at) => {
    const between = at > from && LETTER.test(chars[at - 1]) && LETTER.test(chars[at + 1] ?? "");
    if ((c === "-" || c === "/") && between) {
      tokens.push(chars.slice(from, at).join(""), c);
      from = at + 1;
    }
  });
  tokens.push(chars.slice(from).join(""));
  return tokens.filter(Boolean);
}
