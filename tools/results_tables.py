#!/usr/bin/env python3
"""Writes the tables of docs/PAPER.md from results/, between their markers. Needs Python only.

    python tools/results_tables.py
"""

import json
import pathlib
import re

ROOT = pathlib.Path(__file__).resolve().parent.parent

# Test BPC as the paper prints it.
PAPER_BPC = {
    "large-lstm": 2.075,
    "large-lstm-2": 2.087,
    "large-lstm-5": 2.155,
    "large-dlstm-1": 1.390,
    "large-dlstm-5": 0.755,
    "large-dlstm-8": 0.706,
    "large-dlstm-10": 0.709,
    "large-bilstm": 1.037,
    "large-bilstm-2": 0.677,
    "large-bilstm-5": 0.677,
    "small-lstm": 2.195,
    "small-lstm-2": 2.215,
    "small-lstm-5": 2.255,
    "small-dlstm-1": 1.518,
    "small-dlstm-2": 1.208,
    "small-dlstm-3": 1.039,
    "small-dlstm-5": 0.920,
    "small-dlstm-8": 0.905,
    "small-dlstm-10": 0.935,
    "small-dlstm-15": 1.014,
    "small-bilstm": 1.187,
    "small-bilstm-2": 0.846,
    "small-bilstm-5": 0.841,
}
WINDOW = 180


def pos():
    """results/pos-en: accuracy on words in per cent, next to the paper's."""
    paper = {}
    (table,) = (ROOT / "crates").rglob("paper-pos.csv")
    for line in table.read_text().splitlines()[1:]:
        lang, char, char_delay, word, word_delay, dev, _, test, _ = line.split(",")
        name = lambda net, delay: f"{net}-{delay}" if net == "dlstm" else net
        paper[lang, name(char, char_delay), name(word, word_delay)] = dev, test
    title = lambda net: {"lstm": "LSTM", "bilstm": "Bi-LSTM"}.get(net) or f"d-LSTM {net.split('-')[1]}"
    latency = {"lstm": "none", "bilstm": "the whole sentence"}
    rows = [
        "| networks over characters / words | latency | dev | test | paper, dev | paper, test |",
        "|---|---|--:|--:|--:|--:|",
    ]
    results = json.loads((ROOT / "results/pos-en/pos.json").read_text())
    for run in sorted(results["runs"], key=lambda run: run["dev"]["words"]):
        char, word = run["chars"], run["words"]
        waits = latency.get(word) or f"{word.split('-')[1]} word"
        ours = [f"{100 * run[part]['words']:.2f}" for part in ("dev", "test")]
        cells = [f"{title(char)} / {title(word)}", waits, *ours, *paper[results["lang"], char, word]]
        rows.append("| " + " | ".join(cells) + " |")
    return "\n".join(rows)


def mlm():
    """results/paper/mlm: test BPC per masked target, one training for each seed, next to the paper's."""
    files = [*sorted((ROOT / "results/paper/mlm").glob("*.json")), ROOT / "results/mlm-small-dlstm-8-f16/mlm.json"]
    found = {}
    for path in files:
        results = json.loads(path.read_text())
        for run in results["runs"]:
            found.setdefault(run["row"], []).append((results["provenance"]["seed"], run["test_bpc"]))
    rows = [
        "| network | size | drnn, BPC | paper, per target | paper, as printed |",
        "|---|---|--:|--:|--:|",
    ]
    for row, printed in PAPER_BPC.items():
        size, net, *number = row.split("-")
        number = int(number[0]) if number else 1
        delay = number if net == "dlstm" else 0
        title = {"lstm": "LSTM", "dlstm": f"d-LSTM, d = {delay}", "bilstm": "Bi-LSTM"}[net]
        if net != "dlstm" and number > 1:
            title += f", {number} layers"
        ours = ", ".join(f"{bpc:.3f}" for _, bpc in sorted(found.get(row, []))) or "not trained"
        per_target = printed * (WINDOW + delay) / WINDOW
        rows.append(f"| {title} | {size} | {ours} | {per_target:.3f} | {printed:.3f} |")
    return "\n".join(rows)


def main():
    path = ROOT / "docs/PAPER.md"
    text = path.read_text()
    for name, table in [("mlm", mlm()), ("pos", pos())]:
        mark = re.compile(rf"(<!-- {name}: .*? -->\n).*?(<!-- /{name} -->)", re.S)
        text, count = mark.subn(lambda found: found[1] + table + "\n" + found[2], text)
        assert count == 1, f"{path} has no markers for the table {name}"
    path.write_text(text)


if __name__ == "__main__":
    main()
