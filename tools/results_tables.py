#!/usr/bin/env python3
"""Writes the tables of README.md that come from results/ anew, between their marks: `python tools/results_tables.py`."""

import json
import pathlib
import re

ROOT = pathlib.Path(__file__).resolve().parent.parent


def pos():
    """results/pos-en: accuracy on words in percent, the paper's beside it."""
    paper = {}
    for line in (ROOT / "crates/drnn-cli/src/reproduce/paper-pos.csv").read_text().splitlines()[1:]:
        lang, char, char_delay, word, word_delay, dev, _, test, _ = line.split(",")
        name = lambda net, delay: f"{net}-{delay}" if net == "dlstm" else net
        paper[lang, name(char, char_delay), name(word, word_delay)] = dev, test
    title = lambda net: {"lstm": "LSTM", "bilstm": "Bi-LSTM"}.get(net) or f"d-LSTM {net.split('-')[1]}"
    late = {"lstm": "nothing", "bilstm": "the end of the sentence"}
    rows = ["| networks over characters / words | waits for | dev | test | paper, dev | paper, test |", "|---|---|--:|--:|--:|--:|"]
    results = json.loads((ROOT / "results/pos-en/pos.json").read_text())
    for run in sorted(results["runs"], key=lambda run: run["dev"]["words"]):
        char, word = run["chars"], run["words"]
        waits = late.get(word) or f"{word.split('-')[1]} word"
        ours = [f"{100 * run[part]['words']:.2f}" for part in ("dev", "test")]
        cells = [f"{title(char)} / {title(word)}", waits, *ours, *paper[results["lang"], char, word]]
        rows.append("| " + " | ".join(cells) + " |")
    return "\n".join(rows)


def main():
    path = ROOT / "README.md"
    text = path.read_text()
    for name, table in [("pos", pos())]:
        mark = re.compile(rf"(<!-- {name}: .*? -->\n).*?(<!-- /{name} -->)", re.S)
        text, count = mark.subn(lambda found: found[1] + table + "\n" + found[2], text)
        assert count == 1, f"README.md has no place for {name}"
    path.write_text(text)


if __name__ == "__main__":
    main()
