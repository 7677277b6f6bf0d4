#!/usr/bin/env python3
"""Writes the tables of docs/PYTHON.md's section "Speed" from results/, between their markers."""

import json
import pathlib

ROOT = pathlib.Path(__file__).resolve().parents[1]
KINDS = {
    "train": "training step",
    "packed": "training step",
    "ensemble": "training step, `Ensemble` against a loop",
    "infer": "inference",
    "stream": "one step",
}


def read(name):
    return json.loads((ROOT / f"results/{name}.json").read_text())


def cases(results):
    lines = ["| network | what | times as fast |", "|---|---|--:|"]
    for name, result in results.items():
        kind = KINDS[name.split("-")[0]]
        noisy = " (noisy)" if result["spread"] > 0.25 else ""
        lines.append(f"| {result['case']} | {kind} | {result['ratio']:.2f}{noisy} |")
    return lines


def grid(found):
    what = {"train": "training step", "infer": "inference"}
    lines = ["| shapes | what | geometric mean | smallest to largest | below 1 |", "|---|---|--:|--:|--:|"]
    for name, cells in found.items():
        kind, cell = name.split()
        mean, shapes = f"{cells['geometric_mean']:.2f}", f"{cells['shapes']} {cell}s"
        ends = f"{cells['smallest']:.2f} to {cells['largest']:.2f}"
        lines.append(f"| {shapes} | {what[kind]} | {mean} | {ends} | {cells['below_1']} |")
    return lines


def on_gpu(found):
    lines = ["| network | eager | from a CUDA graph |", "|---|--:|--:|"]
    for result in found["results"].values():
        how = [result[key]["ratio"] if key in result else None for key in ("eager", "graph")]
        if any(how):
            ratios = (f"{ratio:.2f}" if ratio else "" for ratio in how)
            lines.append(f"| {result['case']} | {' | '.join(ratios)} |")
    return lines


def write(page, name, lines):
    begin, end = f"<!-- {name}: made by bench/torch_table.py -->\n", f"<!-- /{name} -->"
    head, rest = page.split(begin)
    _, tail = rest.split(end)
    return head + begin + "\n".join(lines) + "\n" + end + tail


def main():
    path = ROOT / "docs/PYTHON.md"
    page = write(path.read_text(), "torch-modules", cases(read("torch-modules")["results"]))
    page = write(page, "torch-modules-grid", grid(read("torch-modules-grid")["grid"]))
    path.write_text(write(page, "torch-cuda", on_gpu(read("torch-cuda"))))


if __name__ == "__main__":
    main()
