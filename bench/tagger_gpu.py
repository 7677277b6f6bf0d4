"""Taggers of the paper on a GPU: seconds of an epoch, of one and of all 31 pairs side by side, and words tagged
per second.

    python bench/tagger_gpu.py TREEBANK_FOLDER [--drnn PATH] [--pairs] [--json FILE]

The tagger is the paper's d-LSTM 1 over characters and over words. Seconds of an epoch are those of its training
alone, the median of all epochs but the first, which loads kernels; for all pairs, the wall-clock time between the ends
of their first and second epochs, validation included. Words per second come from the time that the program takes for
a long file less that for a short one, from reading to writing.
"""

import argparse
import datetime
import gzip
import json
import pathlib
import statistics
import subprocess
import tempfile
import time

from provenance import command_line

ROOT = pathlib.Path(__file__).resolve().parent.parent
EPOCHS, SHORT, LONG, ROUNDS = 5, 2, 12, 3


def one(folder, part):
    found = sorted(folder.rglob(f"*{part}.conllu.gz"))
    if len(found) != 1:
        raise SystemExit(f"{folder} has {len(found)} files *{part}.conllu.gz, expected one")
    return found[0]


def log(folder):
    return [json.loads(line) for file in folder.rglob("log.jsonl") for line in file.read_text().splitlines()]


def train(options, out):
    command = [options.drnn, "train", "tagger", "--char", "dlstm-1", "--word", "dlstm-1", "--device", "cuda"]
    for part in ("train", "dev"):
        command += [f"--{part}", str(one(options.folder, part))]
    subprocess.run([*command, "--epochs", str(EPOCHS), "--out", str(out), "--quiet"], check=True, capture_output=True)
    return statistics.median(line["seconds"] for line in log(out) if line["epoch"] > 1)


def tag(options, model, folder):
    """Words per second, and the words in the long file."""
    text = gzip.open(one(options.folder, "train"), "rb").read()
    words = sum(line.split(b"\t", 1)[0].isdigit() for line in text.splitlines())
    seconds = {}
    for copies in (SHORT, LONG):
        path = folder / f"{copies}.conllu"
        path.write_bytes(text * copies)
        command = [options.drnn, "tag", str(model), str(path), "--from", "conllu", "--device", "cuda"]
        times = []
        for _ in range(ROUNDS):
            begin = time.perf_counter()
            subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
            times.append(time.perf_counter() - begin)
        seconds[copies] = statistics.median(times)
    return (LONG - SHORT) * words / (seconds[LONG] - seconds[SHORT]), seconds, LONG * words


def pairs(options, out):
    command = [options.drnn, "reproduce", "pos", "--data", str(options.folder), "--full", "--repeats", "1"]
    command += ["--epochs", "2", "--device", "cuda", "--out", str(out), "--quiet"]
    begin = time.perf_counter()
    subprocess.run(command, check=True, capture_output=True)
    whole = time.perf_counter() - begin
    ends = [max(line["wall_seconds"] for line in log(out) if line["epoch"] == epoch) for epoch in (1, 2)]
    return ends[1] - ends[0], whole


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("folder", type=pathlib.Path, help="with train, dev and test as *.conllu.gz")
    parser.add_argument("--drnn", default=str(ROOT / "target" / "release" / "drnn"))
    parser.add_argument("--pairs", action="store_true", help="also all 31 pairs, for two epochs")
    parser.add_argument("--json", help="also write the results to this file")
    options = parser.parse_args()
    version = subprocess.run([options.drnn, "--version"], check=True, capture_output=True, text=True).stdout.strip()
    found = {
        "command": command_line(),
        "date": datetime.date.today().isoformat(),
        "drnn": version,
        "treebank": one(options.folder, "train").name,
    }

    def keep(**values):
        found.update(values)
        print(values, flush=True)
        if options.json:
            pathlib.Path(options.json).write_text(json.dumps(found, indent=1) + "\n")

    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        keep(epoch_s=train(options, folder / "one"))
        rate, seconds, count = tag(options, folder / "one" / "model.safetensors", folder)
        keep(tagged_words_per_s=rate, tag_s=seconds, words=count)
        if options.pairs:
            between, whole = pairs(options, folder / "all")
            keep(pairs=31, pairs_epoch_s=between, pairs_whole_s=whole)


if __name__ == "__main__":
    main()
