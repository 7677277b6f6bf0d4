#!/usr/bin/env python3
"""Writes the table of README.md's section "Speed" from results/, between its markers. Needs Python only."""

import json
import os

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
BEGIN, END = "<!-- speed: made by bench/readme_table.py -->\n", "<!-- /speed -->"
WORK = {
    "train-n100": "training step, n=100, B=100, T=50",
    "train-n100-lanes8": "the same, 8 models at once (lanes)",
    "fit-n100-lanes8": "the same with data, loss, clipping, Adam",
    "train-n512-tokens": "training step, n=512, B=128, T=188, tokens",
    "fit-n128-masked": "training step on masked characters, n=128, B=128, T=188, with all of it",
    "train-n300-ragged": "training step, n=300, q=264, B=32, lengths 3 to 60",
    "infer-n100": "whole sequences, n=100, B=100, T=50",
    "infer-n512": "whole sequences, n=512, B=128, T=188, tokens",
    "infer-5x128": "one sequence through 5 layers, n=128, T=200",
    "train-5x128": "training step of the same",
    "stream-n256": "one step of one stream, n=256, q=10",
    "streams64-n256": "one step of 64 streams together, n=256, q=10",
}


def ratios(file):
    """case -> peer -> (median of the rounds' ratios, smallest, largest)"""
    with open(os.path.join(ROOT, "results", file)) as text:
        results = json.load(text)["results"]
    pick = ("ratio", "ratio_min", "ratio_max")
    return {r["case"]: {p: [c[k] for k in pick] for p, c in r["contenders"].items() if "ratio" in c} for r in results}


def main():
    plain = ratios("peers-cpu.json") | ratios("peers-cpu-stacks.json") | ratios("peers-cpu-fit.json")
    retained = ratios("peers-cpu-kept-heap.json")
    columns = [
        ("PyTorch", plain, "torch"),
        ("PyTorch, heap retained", retained, "torch"),
        ("ONNX Runtime", plain, "ort"),
        ("tract", plain, "tract"),
        ("candle", plain, "candle"),
    ]
    lines = ["| LSTM, 2 threads | " + " | ".join(name for name, _, _ in columns) + " |", "|---" * (len(columns) + 1) + "|"]
    for case, work in WORK.items():
        cells = []
        for _, source, peer in columns:
            ratio = source.get(case, {}).get(peer)
            cells.append("{:.2f} ({:.2f} to {:.2f})".format(*ratio) if ratio else "")
        if any(cells):
            lines.append(f"| {work} | " + " | ".join(cells) + " |")
    path = os.path.join(ROOT, "README.md")
    with open(path) as file:
        text = file.read()
    head, rest = text.split(BEGIN)
    _, tail = rest.split(END)
    with open(path, "w") as file:
        file.write(head + BEGIN + "\n".join(lines) + "\n" + END + tail)


if __name__ == "__main__":
    main()
