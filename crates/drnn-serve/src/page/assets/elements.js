// Splits a text into the elements of a sequence.
//
// | reads | an element | is complete when |
// |---|---|---|
// | characters | a character, `_` masked | it is there |
// | words | a word or punctuation mark | a space follows, or the text ends |
// | numbers, fields, tokens | a row | the line ends, or the text does |

import { tokenize } from "./words.js";

/** For each kind of element: its name, singular and plural, and how to split and convert a text. */
export const KINDS = {
  characters: { one: "letter", many: "letters", split: characters, value: (raw) => (raw === "_" ? null : raw) },
  words: { one: "word", many: "words", split: words, value: (raw) => raw },
  numbers: { one: "row", many: "rows", split: rows, value: numbers },
  fields: { one: "row", many: "rows", split: rows, value: fields },
  tokens: { one: "row", many: "rows", split: rows, value: Number },
};

/** `5 letters`. */
export function counted(count, kind) {
  return `${count.toLocaleString("en")} ${count === 1 ? kind.one : kind.many}`;
}

function characters(text) {
  // A lone surrogate is not valid text.
  return { whole: [...text.replace(/[\ud800-\udfff]/gu, "\ufffd")], rest: "" };
}

function words(text, ended) {
  const at = ended ? text.length : text.search(/\P{White_Space}*$/u);
  return { whole: tokenize(text.slice(0, at)), rest: text.slice(at) };
}

function rows(text, ended) {
  const lines = text.split(/\r?\n/);
  const rest = ended ? "" : lines.pop();
  return { whole: lines.map((line) => line.trim()).filter(Boolean), rest: rest.trim() };
}

/** A row's numbers; a missing one is null. Fields that are not numbers stay text, which the server refuses. */
function numbers(row) {
  return row.split(row.includes(",") ? "," : /\s+/).map(number);
}

/** A row's numbers, times and categories; a time may have a space, so only commas separate them. */
function fields(row) {
  return row.split(",").map(number);
}

function number(field) {
  const text = field.trim();
  if (text === "" || /^(na|nan|null)$/i.test(text)) return null;
  const value = Number(text);
  return Number.isFinite(value) ? value : text;
}
