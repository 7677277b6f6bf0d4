"""Shapes of `peers_gpu.py --grid`: whole training steps and forward passes on a GPU, over n and B.

A cell is one network and batch. Cells come in an order that gives a coarse map first, so that a
run that is cut short has covered the whole range. The ratio is the fastest peer's time divided by
drnn's.
"""

import datetime
import json
import math
import os
import platform
import statistics
import time

import gpu_contenders
from gpu_contenders import KINDS, PEERS, Drnn, Failed, race
from provenance import command_line

UNITS = (64, 128, 256, 512, 768, 1024, 1536, 2048)
BATCHES = (1, 16, 64, 128, 256, 512)
LONG_BATCHES = (1, 16)  # with 1024 steps
STEPS, LONG_STEPS = 200, 1024
MODULES = ("lstm", "gru", "rnn")
TITLES = {"forward": "forward", "step": "training step"}


def shape(net, n, B, T, q, layers=1, m=1):
    return {"net": net, "layers": layers, "units": n, "batch": B, "steps": T, "inputs": q} | {
        "outputs": m,
        "loss": "squared-error",
    }


def halving(count):
    """How early each of `count` places is visited if both ends come first, then middles."""
    rank, level, spans = {0: 0, count - 1: 0}, 1, [(0, count - 1)]
    while spans:
        split = [(low, (low + high) // 2, high) for low, high in spans if high - low > 1]
        rank |= {middle: level for _, middle, _ in split}
        spans = [span for low, middle, high in split for span in ((low, middle), (middle, high))]
        level += 1
    return rank


def all_cells(arguments):
    """The shapes to race, coarse map first."""
    both = "bi" if arguments.bidirectional else ""
    net, layers, q = both + arguments.cell_type, arguments.layers, arguments.inputs

    def cell(n, B, T):
        return shape(net, n, B, T, q, layers)

    if arguments.cells:
        return [cell(*map(int, text.split(":"))) for text in arguments.cells.split(",")]
    first = {UNITS[i]: rank for i, rank in halving(len(UNITS)).items()}
    second = {BATCHES[i]: rank for i, rank in halving(len(BATCHES)).items()}
    cells = [cell(n, B, STEPS) for n in UNITS for B in BATCHES]
    cells += [cell(n, B, LONG_STEPS) for n in UNITS for B in LONG_BATCHES]
    cells.sort(key=lambda s: (max(first[s["units"]], second[s["batch"]]), s["steps"]))
    if (net, layers) != ("lstm", 1):
        return cells
    others = [shape(net, 512, 64, 200, 256) for net in ("gru", "rnn", "bilstm")]
    others.append(shape("lstm", 512, 64, 200, 256, 2))
    return cells[:16] + others + cells[16:]


def name(s):
    layers = f" k={s['layers']}" if s["layers"] > 1 else ""
    return f"{s['net']}{layers} n={s['units']} B={s['batch']} T={s['steps']} q={s['inputs']}"


def peer_ms(cell, kind):
    """The fastest peer and its milliseconds; None if there is none."""
    key = f"{kind}_ms"
    times = [(found[key], peer) for peer, found in cell["peers"].items() if key in found]
    return min(times, default=None)


def own_ms(cell, kind):
    seconds = (cell["drnn"] or {}).get(f"{kind}_device_s")
    return None if seconds is None else 1e3 * seconds


def ratio(cell, kind):
    """The fastest peer's time divided by drnn's; None where either is missing."""
    peer, own = peer_ms(cell, kind), own_ms(cell, kind)
    return None if peer is None or own is None else peer[0] / own


def line(cell):
    parts = []
    for kind in KINDS:
        peer, own = peer_ms(cell, kind), own_ms(cell, kind)
        times = " ".join(
            f"{who} {found[f'{kind}_ms']:.3f}"
            for who, found in cell["peers"].items()
            if f"{kind}_ms" in found
        )
        own = "-" if own is None else f"{own:.3f}"
        found = ratio(cell, kind)
        times = f"drnn {own} {times} ms" if peer else f"drnn {own} ms"
        parts.append(f"{kind} {'-' if found is None else f'{found:.2f}x'} ({times})")
    clock = (cell["drnn"] or {}).get("step_s")
    parts.append("" if clock is None else f"by the clock {1e3 * clock:.3f} ms")
    return f"{name(cell['shape'])}: " + "; ".join(part for part in parts if part)


def geometric_mean(ratios):
    return math.exp(statistics.fmean(map(math.log, ratios)))


def summary(cells):
    """Geometric means, by kernels too, cells below 1, and what failed."""
    lines = []
    for kind in KINDS:
        known = [(ratio(c, kind), c) for c in cells if ratio(c, kind) is not None]
        for kernels in [None, *sorted({c["drnn"].get("kernels", "") for _, c in known})]:
            some = [r for r, c in known if kernels in (None, c["drnn"].get("kernels", ""))]
            if not some:
                continue
            what = f"{TITLES[kind]}{f', {kernels} kernels' if kernels else ''}"
            span = f"{min(some):.2f}x to {max(some):.2f}x"
            mean = f"{geometric_mean(some):.2f}x"
            lines.append(f"{what}: geometric mean {mean}, {span}, {len(some)} cells")
        lost = sorted((found for found in known if found[0] < 1), key=lambda found: found[0])
        lines.append(f"{TITLES[kind]}: {len(lost)} of {len(known)} cells below 1")
        lines += [f"  {line(c)}" for _, c in lost]
    for c in cells:
        failed = [("drnn", c["failed"])] if c.get("failed") else []
        if "step_s" in (c["drnn"] or {}) and c["drnn"].get("final_loss") is None:
            failed.append(("drnn", "its loss is not finite"))
        failed += [(who, found["error"]) for who, found in c["peers"].items() if "error" in found]
        lines += [f"failed: {who}, {name(c['shape'])}: {why}" for who, why in failed]
        for who, found in c["peers"].items():
            for kind in KINDS:
                if found.get(f"{kind}_how", "graph") != "graph":
                    lines.append(f"{who}, {kind}, {name(c['shape'])}: {found[f'{kind}_how']}")
    return "\n".join(lines)


def split(cells):
    """The cells of the most frequent network, which make the map, and the others."""
    networks = [tuple(c["shape"][key] for key in ("net", "layers", "inputs")) for c in cells]
    common = statistics.mode(networks) if networks else None
    grid = [c for c, network in zip(cells, networks) if network == common]
    return grid, [c for c, network in zip(cells, networks) if network != common]


def tables(cells):
    """Markdown: for each pass and T, the ratio over n and B with drnn's milliseconds."""
    lines, (grid, others) = [], split(cells)
    for steps in sorted({c["shape"]["steps"] for c in grid}):
        some = [c for c in grid if c["shape"]["steps"] == steps]
        batches = sorted({c["shape"]["batch"] for c in some})
        for kind in KINDS:
            lines += ["", f"{TITLES[kind].capitalize()}, T={steps}: ratio (drnn, ms)", ""]
            lines += ["| n | " + " | ".join(f"B={B}" for B in batches) + " |"]
            lines += ["|--:|" + "--:|" * len(batches)]
            for n in sorted({c["shape"]["units"] for c in some}):
                at = {c["shape"]["batch"]: c for c in some if c["shape"]["units"] == n}
                texts = (entry(at[B], kind) if B in at else "" for B in batches)
                lines.append(f"| {n} | " + " | ".join(texts) + " |")
    if others:
        lines += ["", "| network | forward | training step |", "|---|--:|--:|"]
        lines += [
            f"| {name(c['shape'])} | " + " | ".join(entry(c, kind) for kind in KINDS) + " |"
            for c in others
        ]
    return "\n".join(lines).lstrip("\n")


def entry(cell, kind):
    found, own = ratio(cell, kind), own_ms(cell, kind)
    if found is None:
        return "failed" if own is None else f"- ({own:.2f})"
    return f"{found:.2f}x ({own:.2f})"


def draw_map(report, path):
    """The ratios over n and B, a panel per pass and T. Needs matplotlib."""
    from matplotlib import colors, pyplot

    pyplot.rcParams.update({"svg.fonttype": "none", "svg.hashsalt": "drnn", "font.size": 9})
    grid = [c for c in split(report["cells"])[0] if ratio(c, "step") is not None]
    if not grid:
        return print(f"no cell has a ratio; {path} is not drawn")
    all_steps = sorted({c["shape"]["steps"] for c in grid})
    heights = [
        len({c["shape"]["batch"] for c in grid if c["shape"]["steps"] == T}) for T in all_steps
    ]
    figure, panels = pyplot.subplots(
        len(all_steps),
        2,
        figsize=(13, 1.5 + 0.75 * sum(heights)),
        squeeze=False,
        layout="constrained",
        height_ratios=heights,
    )
    scale = colors.TwoSlopeNorm(vmin=math.log2(0.5), vcenter=0, vmax=math.log2(16))
    for row, T in zip(panels, all_steps):
        for panel, kind in zip(row, KINDS):
            some = [c for c in grid if c["shape"]["steps"] == T and ratio(c, kind)]
            n, B = ([c["shape"][key] for c in some] for key in ("units", "batch"))
            ratios = [math.log2(ratio(c, kind)) for c in some]
            dots = panel.scatter(
                n, B, c=ratios, s=420, cmap="RdYlGn", norm=scale, edgecolors="grey"
            )
            for x, y, found in zip(n, B, ratios):
                panel.annotate(f"{2**found:.2g}", (x, y), ha="center", va="center", fontsize=7)
            title = f"{TITLES[kind]}, T={T}"
            panel.set(
                xscale="log", yscale="log", xlabel="units n", ylabel="sequences B", title=title
            )
            for axis, ticks in ((panel.xaxis, n), (panel.yaxis, B)):
                axis.set_major_locator(pyplot.FixedLocator(sorted(set(ticks))))
                axis.set_major_formatter("{x:.0f}")
                axis.set_minor_locator(pyplot.NullLocator())
            panel.margins(0.08, 0.15)
    label, ticks = "fastest peer's time / drnn's", [-1, 0, 1, 2, 3, 4]
    bar = figure.colorbar(dots, ax=panels, label=label, ticks=ticks)
    bar.ax.set_yticklabels(["0.5", "1", "2", "4", "8", "16"])
    figure.savefig(path, metadata={"Date": None})


def joined(reports):
    """One report of several runs of the same program and machine, each of other cells."""
    facts = [[r["drnn"], r["torch"], r["precision"]] for r in reports]
    if any(one != facts[0] for one in facts):
        raise SystemExit(f"the files are of different programs or machines: {facts}")
    cells = [cell for r in reports for cell in r["cells"]]
    known = {name(cell["shape"]) for cell in cells}
    left_out = {text: None for r in reports for text in r["left_out"] if text not in known}
    return {**reports[0], "cells": cells, "left_out": list(left_out)}


def show(report, path=None):
    """Prints what a report says, and draws its map."""
    print(tables(report["cells"]))
    print("\n" + summary(report["cells"]))
    if report["left_out"]:
        print(f"{len(report['left_out'])} cells left out: " + "; ".join(report["left_out"]))
    if path:
        draw_map(report, path)


def facts(precision):
    torch = gpu_contenders.torch
    on_gpu = torch.cuda.is_available()
    return {
        "command": command_line(),
        "date": datetime.date.today().isoformat(),
        "device": torch.cuda.get_device_name() if on_gpu else "none",
        "torch": torch.__version__,
        "cuda": torch.version.cuda,
        "cudnn": torch.backends.cudnn.version(),
        "python": platform.python_version(),
        "precision": precision,
    }


def write(path, report):
    """Whole at any time: a run that is killed leaves the cells that it had."""
    if path:
        with open(f"{path}.part", "w") as file:
            json.dump(report, file, indent=1)
        os.replace(f"{path}.part", path)


def run(arguments, device="cuda"):
    """Races all cells, or those for which there is time."""
    start, cells = time.monotonic(), all_cells(arguments)
    seconds = arguments.seconds
    ours = Drnn(
        arguments.drnn, cells, arguments.precision, arguments.rounds, seconds, arguments.patience
    )
    peers = list(PEERS)
    why = gpu_contenders.flash_unavailable()
    print(f"FlashRNN is left out: {why}" if why else "FlashRNN is raced too", flush=True)
    if why is None:
        peers.append("flashrnn")
    torch = gpu_contenders.torch
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = True
    report = {**facts(arguments.precision), "flashrnn": why or "raced", "drnn": None}
    report |= {"seconds": None, "left_out": [], "cells": []}
    longest = 0.0
    try:
        for i, one in enumerate(cells):
            begin = time.monotonic()
            if arguments.minutes and begin - start + longest > 60 * arguments.minutes:
                report["left_out"] = [name(left) for left in cells[i:]]
                break
            cell = {"shape": one, "drnn": None, "peers": {}}
            try:
                cell["drnn"] = ours.next()
                common = ("version", "commit", "modified", "device")
                report["drnn"] = {key: cell["drnn"].pop(key, None) for key in common}
            except Failed as failed:
                cell["failed"] = str(failed)
            cell["peers"] = race(one, peers, seconds, device)
            report["cells"].append(cell)
            report["seconds"] = time.monotonic() - start
            write(arguments.out, report)
            print(f"{report['seconds']:5.0f} s  {line(cell)}", flush=True)
            if i > 0:  # the first one waits until drnn has compiled
                longest = max(longest, time.monotonic() - begin)
    finally:
        ours.stop()
    write(arguments.out, report)
    print()
    show(report, arguments.map)
    return 1 if any(cell.get("failed") for cell in report["cells"]) else 0
