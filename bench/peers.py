#!/usr/bin/env python3
"""Compares the speed of drnn with its peers on the same machine, in the same run, and prints ratios.

Times on a shared machine drift by tens of per cent, ratios of neighbours hardly: so in every round each
contender of a case runs once, the order turns round from one round to the next, and what is reported is the
median over the rounds of (peer's time / our time). More than 1 means that drnn is faster. See README.md.
"""

import argparse
import datetime
import gc
import json
import os
import platform
import statistics
import subprocess
import sys
import tempfile
import time

import numpy
import onnx
import onnxruntime
import torch

import grid
from contenders import CASES, make_contenders
from provenance import command_line

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(HERE)
OURS = ("ours", "layer by layer")
PEERS = ["layer by layer", "torch", "torch padded", "torch 64x1", "ort", "tract", "candle"]
PAUSE_S = 0.1  # idle thread pools spin (ONNX Runtime's for 40 ms) and would take time from the next contender
TUNING = ("MALLOC_", "OMP_", "MKL_", "KMP_", "GOMP_", "ONEDNN_", "DNNL_", "LD_PRELOAD")  # variables that change speed


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--drnn", metavar="PATH", default=os.path.join(ROOT, "target", "release", "drnn"))
    parser.add_argument("--rust-peers", metavar="PATH", help="the program built in bench/rust-peers (tract, candle)")
    parser.add_argument("--peers-only", action="store_true", help="time the peers alone")
    parser.add_argument("--case", action="append", choices=[c.name for c in CASES], help="may repeat; default: all")
    parser.add_argument("--grid", action="store_true", help="shapes drawn by a seed instead of the cases")
    parser.add_argument("--seed", type=int, default=21, help="of the shapes of --grid (default 21)")
    parser.add_argument("--shapes", type=int, default=48, help="how many --grid draws (default 48)")
    parser.add_argument("--map", metavar="FILE", help="with --grid or --show: draw the ratios to an SVG (matplotlib)")
    parser.add_argument("--threads", type=int, default=2, help="for every contender (default 2)")
    parser.add_argument("--rounds", type=int, help="default 7, 5 for --grid")
    parser.add_argument("--quick", action="store_true", help="3 rounds")
    parser.add_argument("--seconds", type=float, help="minimum time of a contender per round (default 0.3, 0.05 for --grid)")
    parser.add_argument("--json", metavar="FILE", help="also write everything measured to FILE")
    parser.add_argument("--show", metavar="FILE", help="measure nothing, print the table of an earlier --json FILE")
    options = parser.parse_args()
    options.rounds = options.rounds or (3 if options.quick else 5 if options.grid else 7)
    options.seconds = options.seconds or (0.05 if options.grid else 0.3)
    if options.case and options.grid:
        parser.error("--case selects cases, --grid draws shapes: give one of them")
    if options.show:
        return options
    for program in ([] if options.peers_only else [options.drnn]) + [options.rust_peers or sys.executable]:
        if not os.access(program, os.X_OK):
            parser.error(f"{program} is not a program; build it first (see bench/README.md)")
    return options


def race(contenders, options):
    """All rounds of one case: the times of each contender."""
    for contender in contenders:
        time.sleep(PAUSE_S)
        contender.warm_up(options.seconds)
    times = {c.name: [] for c in contenders}
    gc.collect()
    gc.disable()
    for round_number in range(options.rounds):
        for contender in contenders if round_number % 2 == 0 else reversed(contenders):
            time.sleep(PAUSE_S)
            times[contender.name].append(contender.measure(options.seconds))
    gc.enable()
    return times


def summarise(case, contenders, times):
    result = {"case": case.name, "goals": case.goals, "contenders": {}}
    for contender in contenders:
        seconds = times[contender.name]
        entry = {"variant": contender.variant, "median_s": statistics.median(seconds), "seconds": seconds}
        if "ours" in times and contender.name != "ours":
            ratios = [peer / ours for peer, ours in zip(seconds, times["ours"])]
            entry.update(ratio=statistics.median(ratios), ratio_min=min(ratios), ratio_max=max(ratios))
        if contender.name == "ours":
            entry.update({k: contender.facts[k] for k in ("gflops", "share_of_peak") if k in contender.facts})
        result["contenders"][contender.name] = entry
    peers = {name: entry["median_s"] for name, entry in result["contenders"].items() if name not in OURS}
    result["fastest_peer"] = min(peers, key=peers.get)
    return result


def milliseconds(seconds):
    return f"{seconds * 1e3:.3g}" if seconds < 1 else f"{seconds * 1e3:.0f}"


def goal_text(result):
    parts = []
    for peer, goal in result["goals"].items():
        ratio = result["contenders"][peer].get("ratio")
        verdict = "" if ratio is None else " met" if ratio >= goal else " missed"
        parts.append(f"{goal:g}x {peer}{verdict}")
    return ", ".join(parts)


def table(results):
    """Milliseconds for one unit of work and, in brackets, peer/ours; a dash where a peer does not take part."""
    peers = [p for p in PEERS if any(p in r["contenders"] for r in results)]
    rows = [["case", "ours", *peers, "fastest peer", "goal"]]
    for result in results:
        entries = result["contenders"]
        row = [result["case"], milliseconds(entries["ours"]["median_s"]) if "ours" in entries else "-"]
        for peer in peers:
            cell = milliseconds(entries[peer]["median_s"]) if peer in entries else "-"
            if "ratio" in entries.get(peer, {}):
                cell += f" ({entries[peer]['ratio']:.2f}x)"
            row.append(cell)
        rows.append(row + [result["fastest_peer"], goal_text(result)])
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
    lines = ["| " + " | ".join(cell.ljust(width) for cell, width in zip(row, widths)) + " |" for row in rows]
    lines.insert(1, "|" + "|".join("-" * (width + 2) for width in widths) + "|")
    return "\n".join(lines)


def git(*arguments):
    done = subprocess.run(["git", "--no-optional-locks", "-C", ROOT, *arguments], capture_output=True, text=True)
    return done.stdout.strip() if done.returncode == 0 else None


def cpu_model():
    try:
        with open("/proc/cpuinfo") as lines:
            return next(line.split(":", 1)[1].strip() for line in lines if line.startswith("model name"))
    except (OSError, StopIteration):
        return platform.processor() or platform.machine()


def facts(options):
    """Where and with what it was measured. Paths are cut to file names."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    return {
        "command": command_line(),
        "date": datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds"),
        "git_commit": git("rev-parse", "HEAD"),
        "git_dirty": bool(git("status", "--porcelain", "--untracked-files=no")),
        "machine": {"cpu": cpu_model(), "cores": cores, "system": f"{platform.system()} {platform.machine()}"},
        "environment": {k: os.path.basename(v) for k, v in os.environ.items() if k.startswith(TUNING)},
        "threads": options.threads,
        "rounds": options.rounds,
        "seconds_per_measurement": options.seconds,
        "versions": {
            "python": platform.python_version(),
            "numpy": numpy.__version__,
            "torch": torch.__version__,
            "onnx": onnx.__version__,
            "onnxruntime": onnxruntime.__version__,
        },
    }


def save(report, options):
    """After every case, so that an interrupted run leaves its results."""
    if options.json:
        with open(options.json, "w") as file:
            json.dump(report, file, indent=1)


def race_grid(report, options):
    """Every shape of the grid, forward and in training."""
    report["grid"] = {"seed": options.seed, "shapes": options.shapes, "named": len(grid.NAMED)}
    shapes = grid.NAMED + grid.draw(options.seed, options.shapes)
    with tempfile.TemporaryDirectory() as folder:
        for number, shape in enumerate(shapes, 1):
            for kind in grid.PASSES:
                contenders = grid.make_contenders(shape, kind, options, folder)
                result = grid.summarise(shape, kind, race(contenders, options))
                report["results"].append(result)
                if contenders[0].name == "ours":
                    report["drnn"] = {"isa": contenders[0].facts["isa"]}
                    report["versions"]["drnn"] = contenders[0].facts["version"]
                print(f"{number}/{len(shapes)} {grid.line(result)}", file=sys.stderr, flush=True)
                save(report, options)


def show(report):
    if "grid" in report:
        for result in report["results"]:
            print(grid.line(result))
        return print(grid.summary(report["results"]))
    versions = ", ".join(f"{name} {version}" for name, version in report["versions"].items())
    print(f"{versions}\n\nmedian ms for one unit of work (peer / ours; above 1: drnn is faster)\n")
    print(table(report["results"]))


def draw_map(report, options):
    if options.map and "grid" in report:
        grid.draw_map(report, options.map)


def main():
    options = parse_arguments()
    if options.show:
        with open(options.show) as file:
            report = json.load(file)
        show(report)
        return draw_map(report, options)
    torch.set_flush_denormal(True)
    torch.set_num_interop_threads(1)
    report = facts(options)
    machine = report["machine"]
    print(f"{machine['cpu']}, {machine['cores']} cores; {options.threads} threads; {options.rounds} rounds")
    report["results"] = []
    if options.grid:
        race_grid(report, options)
        show(report)
        return draw_map(report, options)
    if not options.rust_peers:
        print("tract and candle are left out: build bench/rust-peers and pass --rust-peers PATH to race them too")
    with tempfile.TemporaryDirectory() as folder:
        for case in CASES:
            if options.case and case.name not in options.case:
                continue
            contenders = make_contenders(case, options, folder)
            result = summarise(case, contenders, race(contenders, options))
            report["results"].append(result)
            for contender in contenders:
                if contender.name == "ours":
                    keep = ("isa", "peak_gflops")
                    report["drnn"] = {k: contender.facts[k] for k in keep if k in contender.facts}
                    report["versions"]["drnn"] = contender.facts.get("version")
                elif hasattr(contender, "version"):
                    report["versions"][contender.name] = contender.version
            shown = {n: f"{milliseconds(e['median_s'])} ms" for n, e in result["contenders"].items()}
            print(f"{case.name}: " + ", ".join(f"{n} {ms}" for n, ms in shown.items()), file=sys.stderr, flush=True)
            save(report, options)
    show(report)


if __name__ == "__main__":
    main()
