"""The program `drnn` that the package installs."""

import json
import signal
import subprocess
import sys
import time

import drnn


def run(*arguments, **options):
    command = [sys.executable, "-m", "drnn", *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, timeout=120, **options)


def test_version_help_and_exit_codes():
    assert run("-V").stdout == f"drnn {drnn.__version__}\n"
    assert run("--version").stdout.startswith(f"drnn {drnn.__version__}")  # and the commit
    found = run("fill", input="the capit_l of fr_nce")
    assert (found.returncode, found.stdout) == (0, "the capital of france")
    wrong = run("inspect", "no-such-file")
    assert wrong.returncode == 2 and "no-such-file" in wrong.stderr
    wrong = run("nonsense")
    assert wrong.returncode == 2 and "nonsense" in wrong.stderr


def test_output_that_nobody_reads_is_no_error():
    command = f"{sys.executable} -m drnn man | head -c 10"
    found = subprocess.run(["bash", "-o", "pipefail", "-c", command], capture_output=True)
    assert found.returncode == 0 and not found.stderr


def write_series(path):
    rows = "".join(f"{i % 7},{(i * 3) % 5}\n" for i in range(400))
    path.write_text("x,y\n" + rows)


def test_results_name_the_command(tmp_path):
    write_series(tmp_path / "t.csv")
    options = "--csv t.csv --target y --net lstm --units 4 --epochs 1 --out out".split()
    found = run("train", "series", *options, cwd=tmp_path)
    assert found.returncode == 0, found.stderr
    results = [json.loads(path.read_text()) for path in (tmp_path / "out").glob("*.json")]
    commands = [text for text in map(json.dumps, results) if "drnn train series" in text]
    assert commands, results


def test_ctrl_c_stops_a_training_after_a_checkpoint(tmp_path):
    write_series(tmp_path / "t.csv")
    options = "--csv t.csv --target y --net lstm --units 64 --epochs 100000 --out out".split()
    command = [sys.executable, "-m", "drnn", "train", "series", *options]
    # As in a terminal: a shell that starts programs in the background lets them ignore Ctrl-C.
    child = subprocess.Popen(
        command,
        cwd=tmp_path,
        stderr=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )
    deadline = time.monotonic() + 60
    while not (tmp_path / "out/log.jsonl").exists() and time.monotonic() < deadline:
        time.sleep(0.1)
    child.send_signal(signal.SIGINT)
    _, errors = child.communicate(timeout=60)
    assert child.returncode == 130, errors
    assert (tmp_path / "out/checkpoints/last").exists(), "a checkpoint to resume from"
    assert "--resume" in errors
