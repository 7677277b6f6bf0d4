#!/usr/bin/env python3
"""Makes every file call of a training's checkpoints fail, and kills the program at each of them:
with --resume it must end with the same model. Needs Linux and strace.

    cargo build --release
    python tools/check_checkpoints.py [target/release/drnn]
"""

import math
import os
import random
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

TRAIN = (
    "train series --csv a.csv --target y --delay 1 --units 4 --window 20 --batch 4 --epochs 2 "
    "--threads 1 --checkpoint-every 0"
).split()
CALLS = "openat,read,write,fsync,rename,renameat,renameat2,link,linkat,unlink,unlinkat"
FAULTS = ["error=ENOSPC", "error=EIO", "signal=SIGKILL"]
NAMES = [name + ending for name in ("last", "best") for ending in ("", ".previous", ".new")]
KILLS = 50


def table(path):
    noise = lambda i: (math.sin(i * 12.9898) * 43758.5453) % 1
    rows = [f"{noise(t):.5f},{noise(t) + noise(t + 1):.5f}\n" for t in range(200)]
    path.write_text("x,y\n" + "".join(rows))


def damage(path):
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)


# What a training finds when it starts: nothing, or the files of an earlier training.
STARTS = dict(
    nothing=None,
    whole=lambda folder: None,
    last_damaged=lambda folder: damage(folder / "last"),
    last_missing=lambda folder: (folder / "last").unlink(),
)


class Check:
    def __init__(self, drnn, folder):
        self.drnn, self.folder = Path(drnn).resolve(), folder
        table(folder / "a.csv")
        self.run(folder / "straight")
        self.model = (folder / "straight/model.safetensors").read_bytes()
        # A training that was stopped within its second epoch.
        self.run(folder / "early", self.strace(folder / "early", "fsync", "signal=SIGKILL", 14))

    def strace(self, out, calls, fault=None, when=None, log=os.devnull):
        at = out / "checkpoints"
        paths = [word for path in [at] + [at / name for name in NAMES] for word in ("-P", path)]
        inject = ["-e", f"inject={calls}:{fault}:when={when}"] if fault else []
        return ["strace", "-f", "-o", log, "-e", f"trace={calls}", *paths, *inject]

    def run(self, out, before=()):
        resume = ["--resume"] if (out / "checkpoints").exists() else []
        command = [*before, self.drnn, *TRAIN, "--out", out, *resume]
        return subprocess.run(command, cwd=self.folder, capture_output=True, text=True)

    def prepared(self, start):
        out = self.folder / "out"
        shutil.rmtree(out, ignore_errors=True)
        if STARTS[start]:
            shutil.copytree(self.folder / "early", out)
            STARTS[start](out / "checkpoints")
        return out

    def goes_on(self, out, what):
        """Resumes what is left of a training; it must end with the same model."""
        at = out / "checkpoints"
        links = [(at / name).stat().st_nlink for name in NAMES if (at / name).exists()]
        assert all(n == 1 for n in links), f"{what}: two names are one file"
        again = self.run(out)
        assert again.returncode == 0, f"{what}: {again.stderr}"
        assert (out / "model.safetensors").read_bytes() == self.model, f"{what}: another model"
        assert not list(at.glob("*.new")), f"{what}: an unfinished file is left"

    def faults(self, start):
        out, log = self.prepared(start), self.folder / "log"
        found = self.run(out, self.strace(out, CALLS, log=log))
        assert found.returncode == 0, found.stderr
        counts = Counter(re.findall(r"^\d+ +(\w+)\(", log.read_text(), re.M))
        outcomes = Counter()
        for call, fault in [(call, fault) for call in counts for fault in FAULTS]:
            for when in range(1, counts[call] + 1):
                out, what = self.prepared(start), f"{start}: {fault} at {call} {when}"
                found = self.run(out, self.strace(out, call, fault, when))
                code = found.returncode
                assert code in (0, 2, -9, 137), f"{what}: exit code {code}: {found.stderr}"
                assert code != 2 or "checkpoints" in found.stderr, f"{what}: {found.stderr}"
                self.goes_on(out, what)
                outcomes[code] += 1
        runs = outcomes.total()
        print(f"{start}: {dict(counts)}: {runs} runs, exit codes {dict(outcomes)}", flush=True)
        return runs

    def kills(self):
        """Kills the program repeatedly at random times, a little later each time."""
        out, kills = self.prepared("nothing"), 0
        for attempt in range(KILLS):
            resume = ["--resume"] if (out / "checkpoints").exists() else []
            command = [self.drnn, *TRAIN, "--out", out, *resume]
            child = subprocess.Popen(command, cwd=self.folder, stdout=-3, stderr=-3)
            time.sleep(random.random() * 0.002 * (1 + attempt))
            kills += child.poll() is None
            child.kill()
            child.wait()
        self.goes_on(out, "killed")
        print(f"{kills} kills at random moments", flush=True)
        return kills


def main():
    with tempfile.TemporaryDirectory() as folder:
        drnn = sys.argv[1] if len(sys.argv) > 1 else "target/release/drnn"
        check = Check(drnn, Path(folder).resolve())
        runs = sum(check.faults(start) for start in STARTS) + check.kills()
    print(f"{runs} runs: always resumed, to the same model")


if __name__ == "__main__":
    main()
