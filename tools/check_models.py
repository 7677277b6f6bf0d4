#!/usr/bin/env python3
"""Checks `drnn run` on public checkpoints against PyTorch and ONNX Runtime.

    python tools/check_models.py target/release/drnn FOLDER [--list results/checkpoints.csv]
                                             needs torch, onnx, onnxruntime, safetensors

FOLDER holds the files that the list names, as owner+repository/path. Every recurrence in a file is
run on random sequences: by nn.LSTM, nn.GRU, nn.RNN or their cells with the file's weights, read by
PyTorch with `weights_only`, or as a node of an ONNX graph by ONNX Runtime; and by `drnn run
--prefix`. Writes the largest absolute difference, or drnn's reason to refuse the file, to the list's
columns `recurrences`, `largest_difference` and `refused`, and one row for each recurrence to
`checkpoints-recurrences.csv` next to it. The exit code is 1 if a difference is above 1e-5, or if a
file is refused that PyTorch or ONNX Runtime reads.
"""

import argparse
import csv
import hashlib
import re
import subprocess
import sys
import tempfile
import warnings
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import torch
from safetensors.torch import load_file
from torch import nn

TOLERANCE = 1e-5
T, B = 20, 3
NAME = re.compile(r"^(|.*[._/:])(weight|bias|w|b)_(ih|hh|hr)(?:_l(\d+))?(_reverse)?$", re.I)
CELLS = {4: (nn.LSTM, nn.LSTMCell), 3: (nn.GRU, nn.GRUCell), 1: (nn.RNN, nn.RNNCell)}
COLUMNS = ["repository", "path", "commit", "licence", "bytes", "sha256"]
FOUND = ["format", "recurrences", "largest_difference", "refused", "read_by_peer"]


def flat(value, name=""):
    """Tensors of nested dictionaries and lists, by names with dots."""
    if isinstance(value, torch.Tensor):
        return {name: value}
    items = value.items() if isinstance(value, dict) else []
    items = enumerate(value) if isinstance(value, (list, tuple)) else items
    found = {}
    for key, inner in items:
        found.update(flat(inner, f"{name}.{key}" if name else str(key)))
    return found


def read_tensors(path):
    """All tensors of a file, as PyTorch or NumPy reads it without running code, and its format."""
    start = path.read_bytes()[:4096]
    if path.suffix == ".safetensors":
        return load_file(path), "safetensors"
    if path.suffix == ".npz":
        return {k: torch.from_numpy(v) for k, v in np.load(path).items()}, "npz"
    try:
        loaded = torch.load(path, map_location="cpu", weights_only=True)
        return flat(loaded), "torch.save" if start[:2] == b"PK" else "torch.save before 1.6"
    except RuntimeError as error:
        if "TorchScript" not in str(error):
            raise
        return torch.jit.load(path, map_location="cpu").state_dict(), "TorchScript"


def recurrences(tensors):
    """Prefix -> {(kind, layer, reverse): tensor}, of layers and of cells."""
    groups = {}
    for name, tensor in tensors.items():
        found = NAME.match(name)
        if found:
            prefix, what, which, layer, reverse = found.groups()
            kind = f"{'weight' if what.lower() in ('weight', 'w') else 'bias'}_{which.lower()}"
            key = (prefix, layer is not None)
            groups.setdefault(key, {})[kind, int(layer or 0), bool(reverse)] = tensor.float()
    return {key: group for key, group in groups.items() if ("weight_ih", 0, False) in group}


def by_torch(group, layered, x):
    """Hidden states of the recurrence, and what it is."""
    rows, width = group["weight_hh", 0, False].shape
    projection = group.get(("weight_hr", 0, False))
    units = width if projection is None else projection.shape[1]
    inputs, (module, cell) = group["weight_ih", 0, False].shape[1], CELLS[rows // units]
    options = {"bias": ("bias_ih", 0, False) in group}
    if layered:
        layers = 1 + max(layer for _, layer, _ in group)
        options["num_layers"] = layers
        options["bidirectional"] = ("weight_ih", 0, True) in group
        if projection is not None:
            options["proj_size"] = projection.shape[0]
        net = module(inputs, units, **options)
        end = lambda layer, reverse: f"_l{layer}{'_reverse' if reverse else ''}"
    else:
        net, end = cell(inputs, units, **options), lambda layer, reverse: ""
    state = {f"{kind}{end(layer, reverse)}": tensor for (kind, layer, reverse), tensor in group.items()}
    net.load_state_dict(state)  # strict: exactly these tensors
    kind = f"{type(net).__name__} {inputs} -> {units}" + (f" x {layers}" if layered else "")
    kind += ", both ways" if options.get("bidirectional") else ""
    with torch.no_grad():
        if layered:
            return net(x)[0], kind
        h = c = torch.zeros(x.shape[1], units)
        outputs = []
        for step in x:
            if cell is nn.LSTMCell:
                h, c = net(step, (h, c))
            else:
                h = net(step, h)
            outputs.append(h)
        return torch.stack(outputs), kind


def graph_nodes(graph):
    """Recurrent nodes of a graph and of the graphs inside it, with the constants they can see."""
    constants = {t.name: t for t in graph.initializer}
    for node in graph.node:
        if node.op_type == "Constant":
            constants[node.output[0]] = node.attribute[0].t
    for node in graph.node:
        if node.op_type in ("LSTM", "GRU", "RNN"):
            yield node, constants
        for attribute in node.attribute:
            for inner in [attribute.g, *attribute.graphs]:
                if inner.node:
                    for found, own in graph_nodes(inner):
                        yield found, constants | own


def by_onnxruntime(node, constants, x):
    """Outputs (T, B, directions * n) of one node from zero states, and what it is."""
    weights = [constants[name] if name else None for name in node.input[1:4]]
    kept = onnx.NodeProto()
    kept.CopyFrom(node)
    layout = [a.i for a in node.attribute if a.name == "layout"] == [1]
    assert not layout, "layout 1"
    inputs = ["x"] + [t.name if t else "" for t in weights]
    del kept.input[:], kept.output[:]
    kept.input.extend(inputs)
    kept.output.append("y")
    w = onnx.numpy_helper.to_array(weights[0])
    value = lambda name, shape: onnx.helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, shape)
    graph = onnx.helper.make_graph(
        [kept], "one", [value("x", [T, B, w.shape[2]])], [value("y", None)], [t for t in weights if t]
    )
    model = onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 14)])
    model.ir_version = 8
    session = onnxruntime.InferenceSession(model.SerializeToString())
    (y,) = session.run(None, {"x": x})  # T, directions, B, n
    kind = f"ONNX {node.op_type} {w.shape[2]} -> {y.shape[3]}" + (", both ways" if y.shape[1] == 2 else "")
    return torch.from_numpy(y.transpose(0, 2, 1, 3).reshape(T, B, -1)), kind


def drnn(program, path, prefix, x):
    """Outputs of `drnn run`, or its message."""
    with tempfile.TemporaryDirectory() as folder:
        at = Path(folder)
        np.save(at / "x.npy", np.asarray(x))
        command = [program, "-q", "run", path, at / "x.npy", "-o", at / "y.npy", "--prefix", prefix]
        command += ["--embedding-layer", "none", "--output-layer", "none"]
        found = subprocess.run([str(part) for part in command], capture_output=True, text=True)
        if found.returncode:
            return None, found.stderr.strip()
        return torch.from_numpy(np.load(at / "y.npy")), None


def refusal(program, path):
    found = subprocess.run([str(program), "inspect", str(path)], capture_output=True, text=True)
    return found.stderr.strip().removeprefix(f"error: {path}: ") if found.returncode else ""


def check(program, path):
    """Rows of the recurrences, and the facts about the file."""
    generator = torch.Generator().manual_seed(1)
    draw = lambda width: torch.randn(T, B, width, generator=generator)
    rows, facts = [], {"refused": "", "read_by_peer": "yes"}
    cases = []
    try:
        if path.suffix == ".onnx":
            facts["format"] = "ONNX"
            graph = onnx.load(path).graph
            for node, constants in graph_nodes(graph):
                width = onnx.numpy_helper.to_array(constants[node.input[1]]).shape[2]
                x = draw(width)
                cases.append((node.name or node.output[0], x, *by_onnxruntime(node, constants, x.numpy())))
        else:
            tensors, facts["format"] = read_tensors(path)
            for (prefix, layered), group in recurrences(tensors).items():
                x = draw(group["weight_ih", 0, False].shape[1])
                cases.append((prefix, x, *by_torch(group, layered, x)))
    except Exception as error:  # whatever the peer says, its first sentence is what is recorded
        facts["read_by_peer"] = "no: " + re.sub(r"\s+", " ", str(error))[:120]
        facts.setdefault("format", "?")
    for prefix, x, expected, kind in cases:
        found, why = drnn(program, path, prefix, x)
        same = found is not None and found.shape == expected.shape
        difference = float((found - expected).abs().max()) if same else None
        why = why or ("" if same else f"shape {tuple(found.shape)}, expected {tuple(expected.shape)}")
        rows.append({"prefix": prefix, "kind": kind, "difference": difference, "refused": why})
    if not cases:
        facts["refused"] = refusal(program, path)
    return rows, facts


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("program")
    parser.add_argument("folder", type=Path)
    parser.add_argument("--list", type=Path, default=Path("results/checkpoints.csv"))
    arguments = parser.parse_args()
    warnings.filterwarnings("ignore")
    with open(arguments.list, newline="") as file:
        files = list(csv.DictReader(file))
    failed, largest, each = 0, 0.0, []
    for entry in files:
        path = arguments.folder / entry["repository"].replace("/", "+") / entry["path"]
        if not path.exists():
            print(f"missing  {entry['repository']} {entry['path']}")
            continue
        data = path.read_bytes()
        assert hashlib.sha256(data).hexdigest() == entry["sha256"], f"{path}: another file"
        rows, facts = check(arguments.program, path)
        differences = [row["difference"] for row in rows if row["difference"] is not None]
        bad = [row for row in rows if row["difference"] is None or row["difference"] > TOLERANCE]
        failed += len(bad)
        largest = max([largest, *differences])
        entry.update(facts, recurrences=len(rows))
        entry["largest_difference"] = f"{max(differences):.1e}" if differences else ""
        if bad and not entry["refused"]:
            entry["refused"] = bad[0]["refused"].replace(str(path), "").lstrip(": ")
        for row in rows:
            row = dict(row, difference="" if row["difference"] is None else f"{row['difference']:.1e}")
            row["refused"] = row["refused"].replace(str(arguments.folder) + "/", "")
            each.append({"repository": entry["repository"], "path": entry["path"], **row})
        entry["refused"] = entry["refused"].replace(str(arguments.folder) + "/", "")
        state = "FAILED" if bad else "equal" if rows else "refused"
        print(f"{state:8} {entry['repository']} {entry['path']}: {len(rows)} recurrences, "
              f"{entry['largest_difference']} {entry['refused'][:150]}")
    with open(arguments.list, "w", newline="") as file:
        writer = csv.DictWriter(file, COLUMNS + FOUND, lineterminator="\n")
        writer.writeheader()
        writer.writerows({key: entry.get(key, "") for key in COLUMNS + FOUND} for entry in files)
    target = arguments.list.with_name(arguments.list.stem + "-recurrences.csv")
    with open(target, "w", newline="") as file:
        columns = ["repository", "path", "prefix", "kind", "difference", "refused"]
        writer = csv.DictWriter(file, columns, lineterminator="\n")
        writer.writeheader()
        writer.writerows(each)
    print(f"{len(files)} files, {len(each)} recurrences, largest difference {largest:.1e}, failed {failed}")
    sys.exit(1 if failed else 0)


main()
