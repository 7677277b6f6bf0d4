"""One epoch of the tagger's training: drnn against the same network in PyTorch, in the same run, alternating.

    python bench/tagger.py target/release/drnn TRAIN.conllu.gz [--sentences 2000] [--rounds 5] [--threads 2] [--json F]

The network is the paper's: an LSTM of 200 units over characters that is read one step late, below one of 300 over
words that is read one word late; learned vectors of 64; batches of 32 sentences; Adam; clipping at 1. PyTorch gets its
sequences packed (`pack_padded_sequence`), which is its fastest way. drnn reads a spelling that occurs several times in a
batch once; `--distinct` lets PyTorch do so too. Times are those of the epoch alone, without reading files or evaluating.
"""

import argparse
import gzip
import json
import pathlib
import random
import statistics
import subprocess
import tempfile
import time

import torch
from torch import nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

UNKNOWN, BEGIN, END, PAD = 0, 1, 2, 3


def read(path, most):
    sentences, words = [], []
    with gzip.open(path, "rt", encoding="utf-8") as lines:
        for line in lines:
            if line.startswith("#"):
                continue
            columns = line.rstrip("\n").split("\t")
            if len(columns) == 10 and columns[0].isdigit():
                words.append((columns[1], columns[3]))
            elif words and len(columns) == 1:
                sentences.append(words)
                words = []
                if len(sentences) == most:
                    break
    return sentences


def numbers(counts, most, least=1):
    """The most frequent first, from number 4 on."""
    order = sorted(counts, key=lambda item: (-counts[item], item))
    return {item: i + 4 for i, item in enumerate([o for o in order if counts[o] >= least][:most])}


class Data:
    def __init__(self, sentences):
        chars, words, tags = {}, {}, {}
        for form, tag in (token for sentence in sentences for token in sentence):
            for c in form:
                chars[c] = chars.get(c, 0) + 1
            words[form] = words.get(form, 0) + 1
            tags.setdefault(tag, len(tags))
        chars, words = numbers(chars, 96), numbers(words, 10**6, 2)
        self.words, self.tags = len(words) + 4, len(tags)
        spell = lambda form: [BEGIN] + [chars.get(c, UNKNOWN) for c in form[:73]] + [END]
        self.sentences = []
        for sentence in sentences:
            ids = [BEGIN] + [words.get(form, UNKNOWN) for form, _ in sentence] + [END]
            spelt = [[BEGIN]] + [spell(form) for form, _ in sentence] + [[END]]
            self.sentences.append((ids, spelt, [tags[tag] for _, tag in sentence]))


class Tagger(nn.Module):
    def __init__(self, words, tags, distinct):
        super().__init__()
        self.distinct = distinct
        self.symbols, self.vectors = nn.Embedding(100, 100), nn.Embedding(words, 64)
        self.chars, self.sentence = nn.LSTM(100, 200), nn.LSTM(264, 300)
        self.out = nn.Linear(300, tags)

    def forward(self, batch):
        # Both networks read one more element: PAD.
        spelt = [spelling for _, spellings, _ in batch for spelling in spellings + [[PAD]]]
        place = range(len(spelt))
        if self.distinct:
            rows = {}
            place = [rows.setdefault(tuple(s), len(rows)) for s in spelt]
            spelt = [list(s) for s in rows]
        lengths = torch.tensor([len(s) + 1 for s in spelt])
        symbols = torch.full((int(lengths.max()), len(spelt)), PAD)
        for i, s in enumerate(spelt):
            symbols[: len(s), i] = torch.tensor(s)
        packed = pack_padded_sequence(self.symbols(symbols), lengths, enforce_sorted=False)
        encodings = self.chars(packed)[1][0][0][torch.tensor(place)]
        words = torch.tensor([word for ids, _, _ in batch for word in ids + [PAD]])
        x = torch.cat([encodings, self.vectors(words)], 1)
        counts = [len(ids) + 1 for ids, _, _ in batch]
        x = nn.utils.rnn.pad_sequence(x.split(counts))
        packed = pack_padded_sequence(x, torch.tensor(counts), enforce_sorted=False)
        h, _ = pad_packed_sequence(self.sentence(packed)[0])
        # The output for word t is read one step later: words are 1..n, after BEGIN.
        return [self.out(h[2 : 2 + len(tags), i]) for i, (_, _, tags) in enumerate(batch)]


def torch_epoch(data, threads, distinct):
    torch.set_num_threads(threads)
    torch.manual_seed(1)
    model = Tagger(data.words, data.tags, distinct)
    adam = torch.optim.Adam(model.parameters(), 1e-3)
    order = data.sentences[:]
    random.Random(1).shuffle(order)
    start = time.perf_counter()
    for i in range(0, len(order), 32):
        batch = order[i : i + 32]
        logits = model(batch)
        loss = sum(nn.functional.cross_entropy(y, torch.tensor(t)) for y, (_, _, t) in zip(logits, batch))
        adam.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        adam.step()
    return time.perf_counter() - start


def drnn_epoch(program, folder, threads):
    out = folder / "out"
    subprocess.run(["rm", "-rf", out], check=True)
    # A validation part of one word, so that only the epoch is timed.
    subprocess.run(
        [program, "train", "tagger", "--train", folder / "train.tsv", "--dev", folder / "dev.tsv", "--epochs", "1",
         "--threads", str(threads), "--keep", "last", "--out", out],
        check=True, capture_output=True,
    )
    return json.loads((out / "log.jsonl").read_text().splitlines()[-1])["seconds"]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("program")
    parser.add_argument("train")
    parser.add_argument("--sentences", type=int, default=2000)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--distinct", action="store_true", help="PyTorch too reads a spelling once per batch")
    parser.add_argument("--json")
    arguments = parser.parse_args()
    sentences = read(arguments.train, arguments.sentences)
    data = Data(sentences)
    found = {"drnn": [], "torch": []}
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        text = lambda some: "".join("".join(f"{form}\t{tag}\n" for form, tag in s) + "\n" for s in some)
        (folder / "train.tsv").write_text(text(sentences), encoding="utf-8")
        (folder / "dev.tsv").write_text(text([sentences[0][:1]]), encoding="utf-8")
        for _ in range(arguments.rounds):
            found["drnn"].append(drnn_epoch(arguments.program, folder, arguments.threads))
            found["torch"].append(torch_epoch(data, arguments.threads, arguments.distinct))
    ours, theirs = (statistics.median(found[name]) for name in ("drnn", "torch"))
    ratios = [theirs / ours for ours, theirs in zip(found["drnn"], found["torch"])]
    print(f"{len(sentences)} sentences, {arguments.threads} threads: drnn {ours:.2f} s, torch {theirs:.2f} s, "
          f"{statistics.median(ratios):.2f}x ({min(ratios):.2f} to {max(ratios):.2f})")
    if arguments.json:
        result = {"sentences": len(sentences), "threads": arguments.threads, "distinct": arguments.distinct,
                  "torch": torch.__version__, "seconds": found, "ratio": statistics.median(ratios)}
        pathlib.Path(arguments.json).write_text(json.dumps(result, indent=1) + "\n")


if __name__ == "__main__":
    main()
