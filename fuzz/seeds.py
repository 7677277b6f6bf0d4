#!/usr/bin/env python3
"""Makes fuzz/corpus/TARGET/*, what the fuzzers begin with, from the golden files. Needs nothing but Python.

    python fuzz/seeds.py
"""

import json
import struct
import zipfile
from pathlib import Path

HERE = Path(__file__).resolve().parent
GOLDEN = HERE.parent / "crates/drnn/tests/golden"

SPECS = [
    dict(cell="lstm", input=dict(dense=2), units=[3], direction="forward", delay=2, padding="null", outputs=None),
    dict(cell="gru", input=dict(dense=1), units=[2, 1], direction="bidirectional", delay=0, padding="null", outputs=2),
    dict(
        cell="rnn-tanh",
        input=dict(tokens=dict(symbols=4, embedding=2)),
        units=[2],
        direction="forward",
        delay=1,
        padding=dict(symbol=3),
        outputs=4,
    ),
    dict(
        cell="gru",
        input=dict(dense=1),
        units=[3],
        direction="forward",
        delay=1,
        padding="look-ahead",
        outputs=None,
        blocks=dict(widths=[1, 2], connections="stacked", start="held"),
    ),
    dict(
        cell="lstm",
        input=dict(dense=1),
        units=[4],
        direction="forward",
        delay=0,
        padding="null",
        outputs=2,
        blocks=dict(widths=[1, 2, 1], connections=dict(list=[[0, 0], [2, 1]]), start="free"),
    ),
]


def safetensors(tensors, metadata):
    """Zeros under names and shapes."""
    header, at = {"__metadata__": metadata}, 0
    for name, shape in tensors:
        size = 4
        for n in shape:
            size *= n
        header[name] = dict(dtype="F32", shape=shape, data_offsets=[at, at + size])
        at += size
    header = json.dumps(header).encode()
    return struct.pack("<Q", len(header)) + header + bytes(at)


def model(spec):
    gates = dict(lstm=4, gru=3)[spec["cell"]] if spec["cell"] in ("lstm", "gru") else 1
    ways = ["", "_reverse"] if spec["direction"] == "bidirectional" else [""]
    tensors = []
    if "tokens" in spec["input"]:
        tokens = spec["input"]["tokens"]
        tensors.append(("embedding.weight", [tokens["symbols"], tokens["embedding"]]))
    q = spec["input"].get("dense") or spec["input"]["tokens"]["embedding"]
    for layer, n in enumerate(spec["units"]):
        for way in ways:
            tensors.append((f"weight_ih_l{layer}{way}", [gates * n, q]))
            tensors.append((f"weight_hh_l{layer}{way}", [gates * n, n]))
            tensors.append((f"bias_ih_l{layer}{way}", [gates * n]))
            tensors.append((f"bias_hh_l{layer}{way}", [gates * n]))
        if "blocks" in spec and spec["cell"] == "gru":
            tensors.append(("weight_hu_l0", [n, n]))
        q = n * len(ways)
    if spec["outputs"]:
        tensors += [("output.weight", [spec["outputs"], q]), ("output.bias", [spec["outputs"]])]
    return safetensors(tensors, dict(drnn=json.dumps(dict(format=1, spec=spec))))


def pickle(path):
    """As the target `pt` wants it: number of storages, elements of each, data.pkl."""
    archive = zipfile.ZipFile(path)
    sizes = {}
    for name in archive.namelist():
        folder, _, key = name.partition("/data/")
        if key:
            sizes[int(key)] = archive.getinfo(name).file_size // 4
    data = archive.open(next(n for n in archive.namelist() if n.endswith("/data.pkl")))
    data._expected_crc = None  # some have no checksums
    return bytes([len(sizes)] + [min(255, sizes[i]) for i in sorted(sizes)]) + data.read()


def npy(descr, shape, data, order=False):
    header = f"{{'descr': '{descr}', 'fortran_order': {order}, 'shape': {shape}, }}".ljust(117) + "\n"
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header.encode() + data


def seeds():
    for i, spec in enumerate(SPECS):
        yield "spec", f"spec{i}", json.dumps(spec).encode()
        yield "model_file", f"model{i}", model(spec)
        yield "import", f"model{i}", model(spec)
    for path in GOLDEN.glob("*.safetensors"):
        yield "import", path.name, path.read_bytes()
    for path in GOLDEN.glob("pt_*.pt"):
        yield "import", path.name, path.read_bytes()
        if zipfile.is_zipfile(path):
            yield "pt", path.name, pickle(path)
    for i, (descr, size) in enumerate([("<f4", 4), (">f8", 8), ("<i8", 8), ("|u1", 1)]):
        for order in [False, True]:
            yield "npy", f"{i}{order}", npy(descr, (2, 3), bytes(6 * size), order)
    yield "snapshot", "zeros", bytes(48)
    yield "snapshot", "end", b"\xff" * 8 + bytes(40)


def main():
    for target, name, data in seeds():
        folder = HERE / "corpus" / target
        folder.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(data)


if __name__ == "__main__":
    main()
