#!/usr/bin/env python3
"""Makes fuzz/corpus/TARGET/*, what the fuzzers begin with, from the golden files. Needs nothing but Python.

    python fuzz/seeds.py
"""

import gzip
import io
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


def tensors_of(spec):
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
    return tensors


def model(spec):
    return safetensors(tensors_of(spec), dict(drnn=json.dumps(dict(format=1, spec=spec))))


def tagger(char_way, word_way):
    """Two networks and a table of vectors: 4 special symbols and words, and one more of each."""
    both = char_way["direction"] == "bidirectional"
    char = dict(cell="lstm", input=dict(tokens=dict(symbols=5, embedding=2)), units=[2], outputs=None) | char_way
    word = dict(cell="lstm", input=dict(dense=(4 if both else 2) + 3), units=[2], outputs=2) | word_way
    tensors = [(f"{name}.{tensor}", dims) for name, spec in [("char", char), ("word", word)] for tensor, dims in tensors_of(spec)]
    task = dict(task="tagger", vocabulary=dict(symbols="a", words=["a"], tags=["X", "Y"]), counting="words")
    header = dict(format=1, networks=dict(char=char, word=word), task=task)
    return safetensors(tensors + [("vectors", [5, 3])], dict(drnn=json.dumps(header)))


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


CONLL_U = [
    ("1", "wir", "PRON"),
    ("2-3", "zum", "_"),
    ("2", "zu", "ADP"),
    ("3", "dem", "DET"),
    ("3.1", "x", "NOUN"),
    ("4", "Markt", "NOUN"),
]
TEXTS = dict(
    tagged=[
        "# text = a\n" + "".join(f"{i}\t{form}\t_\t{tag}" + 6 * "\t_" + "\n" for i, form, tag in CONLL_U) + "\n",
        "Les\tDET\r\ndu\t_\r\n\r\n# c\n#\tSYM\n",
    ],
    vectors=["the 0.5 -1e-3\n. . 1 2\nthe 3 4\n", "2 3\nNew York 1 2 3 \nb 4 5 6\n"],
    text=["\x05\ufeffabba\n\u20ac\u03c0 \U0001d11e", "\x00a", "\x03aabbccdd"],
    table=[
        "\x00t,x\n0,1.5\n1,2\n",
        "\x12x,class\n1,a\nNA,b\n2,a\n",
        '\x33id,x,class\n1,2,"a,""b"\n1,,c\n',
        "\x44x;y\n1;2\n;3\n",
    ],
)


def checkpoint(batches, values):
    """As the target `checkpoint` wants it: length of the header, header, parameters and Adam's m and v."""
    epoch = dict(epoch=1, train_loss=0.5, valid_loss=0.25, valid_accuracy=0.75, norm=1.5, rate=0.001)
    progress = dict(history=[epoch], batches=batches, loss=0.5, count=4, norms=1.5, ended=None, seconds=0.1)
    adam = dict(beta1=0.9, beta2=0.999, eps=1e-8)
    header = json.dumps(dict(training="t", adam=adam, adam_steps=3, progress=progress)).encode()
    return struct.pack("<H", len(header)) + header + struct.pack(f"<{len(values)}f", *values)


# Elements that models of each kind read: numbers, tokens, characters, columns by name, words.
ELEMENTS = ["[0.5, 1]", "3", '"a"', '{"a": 1, "b": null}', "null", '"ants"']


# Steps of a client (fuzz/targets/conversation.rs): messages whole and in parts, pings, bytes one by one, a broken frame.
CONVERSATIONS = [
    bytes([3, 0, 3, 7, 5, 30]),
    bytes([3, 1, 4, 7, 5, 2, 0x89, 3]) + b"abc" + bytes([3, 7]),
    bytes([6, 3, 2, 5, 20, 2, 0x88, 0]),
    bytes([3, 4, 3, 5, 3, 4, 3, 7]),
    bytes([2, 0x82, 1, 0, 3, 0]),
    bytes([0, 3, 0xFF, 0xFF, 0xFF]),
    bytes([3, 3, 3, 10]),
]


# "ab " nine times, compressed by `zstd`, which not every Python has.
ZSTD = bytes.fromhex("28b52ffd241b4d0000186162200100826e0828a10cc1")


def compressed(text):
    """Uncompressed, and in each compression."""
    for name, pack in [("plain", bytes), ("gzip", gzip.compress), ("zip", zipped)]:
        yield name, pack(text)


def zipped(text):
    to = io.BytesIO()
    with zipfile.ZipFile(to, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("f", text)
    return to.getvalue()


def seeds():
    for i, spec in enumerate(SPECS):
        yield "spec", f"spec{i}", json.dumps(spec).encode()
        yield "model_file", f"model{i}", model(spec)
        yield "import", f"model{i}", model(spec)
    for path in GOLDEN.glob("*.safetensors"):
        yield "import", path.name, path.read_bytes()
    for path in GOLDEN.glob("onnx_*.onnx"):
        yield "import", path.name, path.read_bytes()
    for path in GOLDEN.glob("pt_*.pt"):
        yield "import", path.name, path.read_bytes()
        if zipfile.is_zipfile(path):
            yield "pt", path.name, pickle(path)
    for i, (descr, size) in enumerate([("<f4", 4), (">f8", 8), ("<i8", 8), ("|u1", 1)]):
        for order in [False, True]:
            yield "npy", f"{i}{order}", npy(descr, (2, 3), bytes(6 * size), order)
            if not order:
                yield "table", f"npy{i}", b"\x01" + npy(descr, (2, 3), bytes(6 * size))
    for target, texts in TEXTS.items():
        front = 1 if target in ("text", "table") else 0
        for i, text in enumerate(texts):
            text = text.encode()
            for compression, data in compressed(text[front:]):
                yield target, f"{compression}{i}", text[:front] + data
        yield target, "zstd", b"\x05"[:front] + ZSTD
    for i, element in enumerate(ELEMENTS):
        choices = [0, 1, 2, 3, 2, 6]
        messages = [f'{{"element": {element}}}', f'{{"elements": [{element}, {element}], "position": 1, "flush": true}}']
        messages += ['{"text": "a_b c."}', '{"flush": true}']
        yield "message", f"{i}", bytes([choices[i]]) + "\n".join(messages).encode()
        body = f'{{"model": "m", "sequences": [[{element}, {element}], []]}}'
        yield "run_body", f"{i}", bytes([choices[i]]) + body.encode()
        yield "run_body", f"text{i}", bytes([choices[i]]) + b'{"texts": ["a_b", "ants run."]}'
    late = dict(direction="forward", delay=1)
    both = dict(direction="bidirectional", delay=0, padding="null")
    yield "tagger", "late", tagger(late | dict(padding=dict(symbol=3)), late | dict(padding="look-ahead"))
    yield "tagger", "both", tagger(both, both)
    for number, script in enumerate(CONVERSATIONS):
        yield "conversation", str(number), bytes([number]) + script
    yield "checkpoint", "two", checkpoint(1, [0.5, -1.0, 0.1, 0.2, 1e-3, 2e-3])
    yield "checkpoint", "infinite", checkpoint(0, [0.5, 0.1, float("inf")])
    yield "checkpoint", "not_finite", checkpoint(0, [float("nan"), 0.1, 1e-3])
    yield "snapshot", "zeros", bytes(48)
    yield "snapshot", "end", b"\xff" * 8 + bytes(40)


def main():
    for target, name, data in seeds():
        # The C interface reads model files of every kind.
        targets = [target, "c_model"] if target in ("model_file", "import", "tagger") else [target]
        for target in targets:
            folder = HERE / "corpus" / target
            folder.mkdir(parents=True, exist_ok=True)
            (folder / name).write_bytes(data)


if __name__ == "__main__":
    main()
