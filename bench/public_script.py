"""Runs a public training script as it is, and again with drnn.torch.replace.

The script is word_language_model of pytorch/examples. It is not part of this repository: get it
with `git clone https://github.com/pytorch/examples`. Its files are not changed. Each training is a
process of its own that runs main.py; for drnn, the constructor of the script's RNNModel is followed
by

    drnn.torch.replace(model)

which is what a user would add after the line that makes the model. The corpus is generated here.
Trainings alternate, each contender first in every other round; in a round both use the same seed.
`--perturbed` also trains torch.nn from parameters that differ by a factor of 1 + 1e-6, which shows
how far rounding alone drives two trainings apart. With `--threads 1`, CPU times can be compared
where other programs run, too; ratios of the fastest steps cannot.

    python bench/public_script.py EXAMPLES [--case NAME] [--rounds 3] [--epochs 4] [--json FILE]
"""

import argparse
import datetime
import io
import json
import math
import os
import platform
import random
import re
import runpy
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from provenance import commit

CASES = {
    "lstm": ("LSTM, the script's defaults (2 x 200 units)", ["--model", "LSTM"], 10_000),
    "lstm-2000-words": ("LSTM, defaults, fewer words", ["--model", "LSTM"], 2_000),
    "lstm-no-dropout": (
        "LSTM, fewer words, no dropout",
        ["--model", "LSTM", "--dropout", "0"],
        2_000,
    ),
    "lstm-steady": (
        "LSTM, fewer words, no dropout, learning rate 4 instead of 20",
        ["--model", "LSTM", "--dropout", "0", "--lr", "4"],
        2_000,
    ),
    "gru-2000-words": ("GRU, defaults, fewer words", ["--model", "GRU"], 2_000),
    "rnn-2000-words": (
        "RNN (tanh), lr 5, fewer words",
        ["--model", "RNN_TANH", "--lr", "5"],
        2_000,
    ),
}
TOKENS = {"train": 50_000, "valid": 5_000, "test": 5_000}
FIRST_SEED = 1111  # the script's default
NOISY = 0.25


def make_corpus(folder, vocabulary):
    """Sentences in which every word has a few likely successors, and words are Zipf-distributed."""
    source = random.Random(1)
    words = [f"w{number}" for number in range(vocabulary)]
    frequencies = [1 / (rank + 3) for rank in range(vocabulary)]
    successors = {word: source.choices(words, frequencies, k=8) for word in words}
    likely = [1 / (rank + 1) for rank in range(8)]
    for name, tokens in TOKENS.items():
        lines, count = [], 0
        while count < tokens:
            line = source.choices(words, frequencies)
            for _ in range(source.randint(5, 30)):
                follows = source.random() < 0.85
                line += (
                    source.choices(successors[line[-1]], likely)
                    if follows
                    else source.choices(words, frequencies)
                )
            lines.append(" ".join(line))
            count += len(line) + 1
        (folder / f"{name}.txt").write_text("\n".join(lines) + "\n", encoding="utf-8")


class EpochClock(io.TextIOBase):
    """Standard output that adds the CPU seconds of this process to the line that ends an epoch."""

    def __init__(self, out):
        self.out = out

    def write(self, text):
        if "end of epoch" in text:
            text = f"{text} | cpu: {time.process_time():.3f}s"
        return self.out.write(text)

    def flush(self):
        self.out.flush()


def replace(model):
    import torch

    import drnn.torch

    # The script saves the whole module and allows PyTorch's own classes when it loads it.
    torch.serialization.add_safe_globals([drnn.torch.LSTM, drnn.torch.GRU, drnn.torch.RNN])
    drnn.torch.replace(model)


def perturb(model):
    for parameter in model.parameters():
        parameter.data.mul_(1 + 1e-6)


CHANGES = {"drnn": replace, "perturbed": perturb}


def run_script(contender, script, options):
    """In a process of its own: the script, with drnn's modules or without."""
    folder = str(Path(script).parent)
    sys.path.insert(0, folder)
    sys.argv = [script, *options]
    sys.stdout = EpochClock(sys.stdout)
    if contender != "torch":
        import model as definitions

        original, change = definitions.RNNModel.__init__, CHANGES[contender]

        def changed(self, *args, **kwargs):
            original(self, *args, **kwargs)
            change(self)

        definitions.RNNModel.__init__ = changed
    runpy.run_path(script, run_name="__main__")


def train(contender, script, options, threads):
    """Losses and seconds of a training, from what the script prints."""
    command = [sys.executable, __file__, "--contender", contender, script, *options]
    environment = {**os.environ, "OMP_NUM_THREADS": str(threads), "PYTHONUNBUFFERED": "1"}
    load = os.getloadavg()[0]
    done = subprocess.run(command, check=False, env=environment, capture_output=True, text=True)
    if done.returncode:
        raise SystemExit(
            f"{' '.join(command)} failed:\n{done.stdout[-2000:]}\n{done.stderr[-4000:]}"
        )
    # Perplexities have more digits than the losses that are printed.
    epochs = re.findall(r"end of epoch.*time: *([\d.]+)s.*valid ppl *([\d.]+)", done.stdout)
    batches = re.findall(r"ms/batch *([\d.]+).*ppl *([\d.]+)", done.stdout)
    clock = [float(seconds) for seconds in re.findall(r"\| cpu: ([\d.]+)s", done.stdout)]
    (test,) = re.findall(r"test ppl *([\d.]+)", done.stdout)
    return {
        "seconds": [float(seconds) for seconds, _ in epochs],
        "cpu_seconds_after_first": [b - a for a, b in zip(clock, clock[1:])],
        "ms_per_batch": [float(ms) for ms, _ in batches],
        "train_losses": [math.log(float(ppl)) for _, ppl in batches],
        "valid_losses": [math.log(float(ppl)) for _, ppl in epochs],
        "test_loss": math.log(float(test)),
        "load_before": load,
    }


def race(script, options, vocabulary, arguments):
    runs = {"torch": [], "drnn": []}
    if arguments.perturbed:
        runs["perturbed"] = []
    with tempfile.TemporaryDirectory() as folder:
        make_corpus(Path(folder), vocabulary)
        options = [*options, "--data", folder, "--epochs", str(arguments.epochs)]
        options += ["--log-interval", "20", "--save", os.path.join(folder, "model.pt")]
        for number in range(arguments.rounds):
            order = list(runs) if number % 2 == 0 else list(reversed(runs))
            seed = FIRST_SEED + number
            for contender in order:
                run = train(contender, script, [*options, "--seed", str(seed)], arguments.threads)
                runs[contender].append({"seed": seed, **run})
                last = f"valid loss {run['valid_losses'][-1]:.3f}, seconds {run['seconds']}"
                print(f"  round {number + 1}, {contender}: {last}", flush=True)
    return {**summary(runs), "runs": runs}


def summary(runs):
    """Ratios of times; how far the losses of one seed differ, and how far those of two seeds."""
    ms = {name: [value for run in of for value in run["ms_per_batch"]] for name, of in runs.items()}
    rounds = {
        name: [statistics.median(run["ms_per_batch"]) for run in of] for name, of in runs.items()
    }
    epochs = {name: [value for run in of for value in run["seconds"]] for name, of in runs.items()}
    cpu = {
        name: [value for run in of for value in run["cpu_seconds_after_first"]]
        for name, of in runs.items()
    }

    def ratio(of, choose):
        return choose(of["torch"]) / choose(of["drnn"])

    def furthest(pairs):
        differences = [
            abs(a - b)
            for one, other in pairs
            for a, b in zip(one["valid_losses"], other["valid_losses"])
        ]
        return max(differences, default=None)

    theirs = runs["torch"]
    spread = max((max(of) - min(of)) / statistics.median(of) for of in rounds.values())
    curves = {
        name: [statistics.mean(losses) for losses in zip(*(run["valid_losses"] for run in of))]
        for name, of in runs.items()
    }
    return {
        "mean_valid_losses": curves,
        "ratio_of_epochs": ratio(epochs, statistics.median),
        "ratio_of_steps": ratio(ms, statistics.median),
        "ratio_by_round": [a / b for a, b in zip(rounds["torch"], rounds["drnn"])],
        "ratio_of_best_steps": ratio(ms, min),
        "ratio_of_cpu_seconds": ratio(cpu, statistics.median) if cpu["torch"] else None,
        "spread": spread,
        "noisy": spread > NOISY,
        "same_seed_losses_differ_by": furthest(zip(theirs, runs["drnn"])),
        "perturbed_losses_differ_by": furthest(zip(theirs, runs.get("perturbed", []))),
        "torch_losses_of_two_seeds_differ_by": furthest(
            (one, other) for i, one in enumerate(theirs) for other in theirs[:i]
        ),
    }


def provenance(examples, arguments):
    import torch

    import drnn

    processor = "unknown"
    if os.path.exists("/proc/cpuinfo"):
        names = re.findall(r"model name\s*: (.*)", Path("/proc/cpuinfo").read_text())
        processor = names[0] if names else processor
    return {
        "command": " ".join(["python bench/public_script.py EXAMPLES", *sys.argv[2:]]),
        "script": "word_language_model of pytorch/examples",
        "script_commit": arguments.examples_commit or commit(examples),
        "commit": commit(),
        "versions": {
            "drnn": drnn.__version__,
            "torch": torch.__version__,
            "python": platform.python_version(),
        },
        "machine": {"processor": processor, "cores": os.cpu_count()},
        "threads": arguments.threads,
        "date": datetime.date.today().isoformat(),
        "tokens": TOKENS,
    }


def main():
    if sys.argv[1:2] == ["--contender"]:
        return run_script(sys.argv[2], sys.argv[3], sys.argv[4:])
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("examples", help="folder of a clone of pytorch/examples")
    parser.add_argument("--examples-commit", help="its commit, if the folder is not a clone")
    parser.add_argument("--case", action="append", choices=list(CASES), help="all if not given")
    parser.add_argument(
        "--perturbed", action="store_true", help="a control: how far rounding leads"
    )
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--epochs", type=int, default=4)
    parser.add_argument("--json", help="also write the results to this file")
    arguments = parser.parse_args()
    script = Path(arguments.examples).resolve() / "word_language_model" / "main.py"
    found = {**provenance(arguments.examples, arguments), "results": {}}
    for name in arguments.case or CASES:
        text, options, vocabulary = CASES[name]
        print(f"{name}: {text}, {vocabulary} words", flush=True)
        result = race(str(script), options, vocabulary, arguments)
        head = {"case": text, "options": options, "vocabulary": vocabulary}
        found["results"][name] = {**head, **result}
        noisy = f" (noisy: {result['spread']:.0%})" if result["noisy"] else ""
        speed = f"{result['ratio_of_steps']:.2f} times as fast per step"
        best = f"{result['ratio_of_best_steps']:.2f} between the fastest"
        if result["ratio_of_cpu_seconds"]:
            best += f", {result['ratio_of_cpu_seconds']:.2f} in CPU time"
        loss = f"same seed {result['same_seed_losses_differ_by']:.4f}"
        other = result["torch_losses_of_two_seeds_differ_by"]
        if arguments.perturbed:
            loss += f", perturbed torch.nn {result['perturbed_losses_differ_by']:.4f}"
        seeds = "" if other is None else f", two seeds of torch.nn {other:.4f}"
        for contender, losses in result["mean_valid_losses"].items():
            print(f"  {contender}: mean valid losses {[round(loss, 4) for loss in losses]}")
        print(f"  {speed}, {best}{noisy}; losses differ: {loss}{seeds}", flush=True)
        if arguments.json:
            Path(arguments.json).write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
    return None


if __name__ == "__main__":
    main()
