#!/usr/bin/env python3
"""Checks `drnn run` on public checkpoints against PyTorch and ONNX Runtime.

    python tools/check_models.py target/release/drnn FOLDER [--list results/checkpoints.csv]
                                             needs torch, onnx, onnxruntime, safetensors

FOLDER holds the files that the list names, as owner+repository/path. Every recurrence in a file is
run on random sequences, of vectors of length 1 on average: by nn.LSTM, nn.GRU, nn.RNN or their cells
with the file's weights, read by PyTorch with `weights_only` (whole modules, which it refuses, with
stubs in place of their classes), or as a node of an ONNX graph by ONNX Runtime; and by `drnn run
--prefix`. Writes the largest absolute difference, or drnn's reason to refuse the file, to the list,
and one row for each recurrence to `checkpoints-recurrences.csv` next to it.

Some trained networks are chaotic: they amplify rounding errors from step to step, PyTorch's and
drnn's. So the row also has `rounding`, the largest difference between PyTorch in float32 and in
float64, and `step`, the difference after one more step, for which both start from PyTorch's last
states. The exit code is 1 if a step differs by more than 1e-5, if 20 steps differ by more than 1e-5
and more than ten times `rounding`, or if a recurrence is refused that PyTorch or ONNX Runtime runs.
"""

import argparse
import collections
import csv
import hashlib
import pickle
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
OPSETS = []  # versions of the operators in the graph that is being checked
COLUMNS = ["repository", "path", "commit", "licence", "bytes", "sha256"]
FOUND = ["format", "recurrences", "largest_difference", "largest_step", "refused", "read_by_peer"]


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


class Stub:
    """Any class of a pickled module: keeps its state, does nothing."""

    dump_patches = False  # PyTorch's reader of old files looks at it

    def __init__(self, *arguments):
        pass

    def __setstate__(self, state):
        self.state = state


class StubUnpickler(pickle.Unpickler):
    """Reads tensors and containers as they are, everything else as stubs: no foreign code is run."""

    def find_class(self, module, name):
        known = module in ("torch._utils", "torch", "torch.storage") and re.match(r"_rebuild|\w+Storage$", name)
        if known or (module, name) == ("torch.nn.parameter", "Parameter"):
            return super().find_class(module, name)
        return collections.OrderedDict if name == "OrderedDict" else Stub


class StubPickle:
    Unpickler, UnpicklingError, load, loads = StubUnpickler, pickle.UnpicklingError, pickle.load, pickle.loads


def module_tensors(module, prefix=""):
    """The state dict of a module that was read with stubs."""
    state = module.state if isinstance(getattr(module, "state", None), dict) else {}
    found = {}
    for name, tensor in {**state.get("_parameters", {}), **state.get("_buffers", {})}.items():
        if isinstance(tensor, torch.Tensor):
            found[prefix + name] = tensor.detach()
    modules = state.get("_modules") or {k: v for k, v in state.items() if isinstance(v, Stub)}
    for name, inner in modules.items():
        found.update(module_tensors(inner, f"{prefix}{name}."))
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
    except (RuntimeError, pickle.UnpicklingError) as error:
        if "TorchScript" in str(error):
            return torch.jit.load(path, map_location="cpu").state_dict(), "TorchScript"
        loaded = torch.load(path, map_location="cpu", weights_only=False, pickle_module=StubPickle)
        parts = loaded.items() if isinstance(loaded, dict) else [("", loaded)]
        tensors = {}
        for name, part in parts:
            tensors.update(module_tensors(part, f"{name}." if name else ""))
        if not tensors:
            raise
        return tensors, "torch.save of a module" + ("" if start[:2] == b"PK" else " before 1.6")


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

    def run(x, start=None):
        if layered:
            return net(x, start)
        h = c = torch.zeros(x.shape[1], units, dtype=x.dtype)
        if start is not None:
            h, c = (start[0][0], start[1][0]) if cell is nn.LSTMCell else (start[0], c)
        outputs = []
        for step in x:
            if cell is nn.LSTMCell:
                h, c = net(step, (h, c))
            else:
                h = net(step, h)
            outputs.append(h)
        return torch.stack(outputs), ((h[None], c[None]) if cell is nn.LSTMCell else h[None])

    with torch.no_grad():
        found, last = run(x)
        step = (x[:1], last if isinstance(last, tuple) else (last,), run(x[:1], last)[0])
        net.double()
        return found, kind, float((run(x.double())[0] - found).abs().max()), step


def computed(graph, seen):
    """Values of a graph that depend on constants alone: weights that are sliced and joined, say."""
    known, kept = set(seen), []
    for node in graph.node:
        inner = any(a.g.node or a.graphs for a in node.attribute)
        if not inner and node.op_type not in ("LSTM", "GRU", "RNN") and known.issuperset(filter(None, node.input)):
            known.update(node.output)
            kept.append(node)
    wanted = [name for node in kept for name in node.output if name]
    if not wanted:
        return {}
    used = {name for node in kept for name in node.input}
    constants = [onnx.numpy_helper.from_array(onnx.numpy_helper.to_array(seen[name]), name)
                 for name in sorted(used & set(seen)) if name]
    outputs = [onnx.ValueInfoProto(name=name) for name in wanted]
    model = onnx.helper.make_model(onnx.helper.make_graph(kept, "constants", [], outputs, constants))
    model.ir_version = 8
    del model.opset_import[:]
    model.opset_import.extend(OPSETS)
    found = onnxruntime.InferenceSession(model.SerializeToString()).run(None, {})
    return {name: onnx.numpy_helper.from_array(np.asarray(x), name) for name, x in zip(wanted, found)}


def graph_nodes(graph, seen):
    """Recurrent nodes of a graph and of the graphs inside it, with the constants they can see."""
    constants = seen | {t.name: t for t in graph.initializer}
    constants |= computed(graph, constants)
    for node in graph.node:
        if node.op_type in ("LSTM", "GRU", "RNN"):
            yield node, constants
        for attribute in node.attribute:
            for inner in [attribute.g, *attribute.graphs]:
                if inner.node:
                    yield from graph_nodes(inner, constants)


def by_onnxruntime(node, constants, x):
    """Outputs (T, B, directions * n) of one node from zero states, and what it is."""
    weights = [constants[name] if name else None for name in [*node.input[1:4], "", ""][:3]]
    kept = onnx.NodeProto()
    kept.CopyFrom(node)
    layout = [a.i for a in node.attribute if a.name == "layout"] == [1]
    assert not layout, "layout 1"
    del kept.input[:], kept.output[:]
    weights = [t and onnx.numpy_helper.from_array(onnx.numpy_helper.to_array(t), f"w{i}")
               for i, t in enumerate(weights)]
    inputs = ["x"] + [t.name if t else "" for t in weights]
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
    return torch.from_numpy(y.transpose(0, 2, 1, 3).reshape(T, B, -1)), kind, None, None


def drnn(program, path, prefix, x, start=()):
    """Outputs of `drnn run`, or its message."""
    with tempfile.TemporaryDirectory() as folder:
        at = Path(folder)
        np.save(at / "x.npy", np.asarray(x))
        command = [program, "-q", "run", path, at / "x.npy", "-o", at / "y.npy", "--prefix", prefix]
        command += ["--embedding-layer", "none", "--output-layer", "none"]
        for name, state in zip(("h0", "c0"), start):
            np.save(at / f"{name}.npy", state.contiguous().numpy())
            command += [f"--{name}", at / f"{name}.npy"]
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
    draw = lambda width: torch.randn(T, B, width, generator=generator) / width**0.5
    rows, facts = [], {"refused": "", "read_by_peer": "yes"}
    cases = []
    try:
        if path.suffix == ".onnx":
            facts["format"] = "ONNX"
            model = onnx.load(path)
            OPSETS[:] = model.opset_import
            for node, constants in graph_nodes(model.graph, {}):
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
    for prefix, x, expected, kind, rounding, step in cases:
        found, why = drnn(program, path, prefix, x)
        row = {"prefix": prefix, "kind": kind, "refused": why or ""}
        if found is not None and found.shape == expected.shape:
            row["difference"] = float((found - expected).abs().max())
            row["rounding"] = rounding
            if step:
                after, why = drnn(program, path, prefix, step[0], step[1])
                row["step"] = float((after - step[2]).abs().max()) if after is not None else None
                row["refused"] = why or ""
        elif found is not None:
            row["refused"] = f"shape {tuple(found.shape)}, expected {tuple(expected.shape)}"
        rows.append(row)
    if not cases:
        facts["refused"] = refusal(program, path)
    return rows, facts


def is_bad(row):
    if row["refused"] or row.get("difference") is None:
        return True
    allowed = max(TOLERANCE, 10 * (row["rounding"] or 0))
    return row["difference"] > allowed or (row.get("step") or 0) > TOLERANCE


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("program")
    parser.add_argument("folder", type=Path)
    parser.add_argument("--list", type=Path, default=Path("results/checkpoints.csv"))
    arguments = parser.parse_args()
    warnings.filterwarnings("ignore")
    onnxruntime.set_default_logger_severity(3)
    with open(arguments.list, newline="") as file:
        files = list(csv.DictReader(file))
    failed, all_steps, each = 0, [], []
    for entry in files:
        path = arguments.folder / entry["repository"].replace("/", "+") / entry["path"]
        if not path.exists():
            print(f"missing  {entry['repository']} {entry['path']}")
            continue
        data = path.read_bytes()
        assert hashlib.sha256(data).hexdigest() == entry["sha256"], f"{path}: another file"
        rows, facts = check(arguments.program, path)
        of = lambda name: [row[name] for row in rows if row.get(name) is not None]
        differences, steps = of("difference"), of("step")
        bad = [row for row in rows if is_bad(row)]
        failed += len(bad)
        all_steps += steps
        entry.update(facts, recurrences=len(rows))
        entry["largest_difference"] = f"{max(differences):.1e}" if differences else ""
        entry["largest_step"] = f"{max(steps):.1e}" if steps else ""
        if bad and not entry["refused"]:
            entry["refused"] = bad[0]["refused"].replace(str(path), "").lstrip(": ")
        for row in rows:
            for name in ("difference", "rounding", "step"):
                row[name] = "" if row.get(name) is None else f"{row[name]:.1e}"
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
        columns = ["repository", "path", "prefix", "kind", "difference", "rounding", "step", "refused"]
        writer = csv.DictWriter(file, columns, lineterminator="\n")
        writer.writeheader()
        writer.writerows(each)
    largest = f"{max(all_steps):.1e} in {len(all_steps)} steps" if all_steps else "none: no steps were compared"
    print(f"{len(files)} files, {len(each)} recurrences, largest difference of a step {largest}, failed {failed}")
    sys.exit(1 if failed else 0)


main()
