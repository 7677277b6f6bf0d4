#!/usr/bin/env python3
"""Writes the table of docs/PYTHON.md's section "Speed" from results/, between its markers."""

import json
import pathlib

ROOT = pathlib.Path(__file__).resolve().parents[1]
BEGIN, END = "<!-- torch-modules: made by bench/torch_table.py -->\n", "<!-- /torch-modules -->"
KINDS = {
    "train": "training step",
    "packed": "training step",
    "ensemble": "training step, `Ensemble` against a loop",
    "infer": "inference",
    "stream": "one step",
}


def main():
    results = json.loads((ROOT / "results/torch-modules.json").read_text())["results"]
    lines = ["| network | what | times as fast |", "|---|---|--:|"]
    for name, result in results.items():
        kind = KINDS[name.split("-")[0]]
        noisy = " (noisy)" if result["spread"] > 0.25 else ""
        lines.append(f"| {result['case']} | {kind} | {result['ratio']:.2f}{noisy} |")
    page = ROOT / "docs/PYTHON.md"
    head, rest = page.read_text().split(BEGIN)
    _, tail = rest.split(END)
    page.write_text(head + BEGIN + "\n".join(lines) + "\n" + END + tail)


if __name__ == "__main__":
    main()
