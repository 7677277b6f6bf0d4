"""Training and sweeps of series."""

import json
import os
import signal
import subprocess
import sys
import threading

import numpy as np
import pytest

import drnn


def noise(rows=500, seed=1):
    return np.random.default_rng(seed).normal(size=rows).astype("f")


def look_ahead(rows=500, steps=1):
    x = noise(rows)
    return {"x": x, "y": np.roll(x, -steps)}


def test_history_scores_and_the_best_epoch():
    seen = []
    trained = drnn.train_series(
        look_ahead(), target="y", net="dgru", units=8, delay=1, epochs=12,
        progress=lambda epoch, epochs: seen.append((epoch["epoch"], epochs)),
    )  # fmt: skip
    assert seen == [(i, 12) for i in range(1, 13)]
    rmse = [epoch["valid_rmse"] for epoch in trained.history]
    assert trained.epoch == 1 + int(np.argmin(rmse))
    assert trained.scores["valid"]["rmse"] == pytest.approx(min(rmse), rel=1e-6)
    assert set(trained.scores["test"]["targets"]["y"]) == {"rmse", "r2"}
    assert trained.model.spec.delay == 1
    assert "RMSE" in repr(trained)


def test_classes_arrays_sequences_and_times(pandas):
    x = noise(600)
    label = np.where(np.roll(x, -1) > 0, "up", "down")
    table = {"x": x, "label": label, "who": np.repeat(["a", "b", "c", "d", "e", "f"], 100)}
    trained = drnn.train_series(
        table, target="label", sequence="who", net="dgru", units=8, delay=1, epochs=20, valid=0.2,
        test=0.2,
    )  # fmt: skip
    assert trained.scores["test"]["accuracy"] > 0.8
    found = trained.predict(table, probabilities=True)
    assert set(found) == {"label", "probability", "p(up)", "p(down)"}
    np.testing.assert_allclose(found["p(up)"] + found["p(down)"], 1, atol=1e-6)
    # The columns of 2 sequences alone are predicted as among all.
    part = {name: column[:200] for name, column in table.items()}
    np.testing.assert_array_equal(trained.predict(part)["probability"], found["probability"][:200])

    arrays = x.reshape(100, 6, 1)
    trained = drnn.train_series(x=arrays, y=(arrays[..., 0] > 0).astype(int), units=4, delay=0,
                                epochs=10)  # fmt: skip
    assert trained.scores["test"]["accuracy"] > 0.8
    one = drnn.train_series(x=x[:, None], y=x[:, None] * 2, units=8, delay=0, epochs=60)
    assert one.scores["test"]["rmse"] < 0.5

    hours = pandas.date_range("2024-01-01", periods=600, freq="h")
    load = np.sin(np.arange(600) * 2 * np.pi / 24) + x * 0.1
    frame = pandas.DataFrame({"when": hours, "load": load})
    trained = drnn.train_series(frame, target="load", ahead=3, time="when", units=8, epochs=10)
    assert list(trained.predict(frame).columns) == ["load+3"]


def test_a_sweep_recommends_the_shortest_delay_that_is_enough():
    found = drnn.sweep(
        look_ahead(600, steps=2), target="y", net="dgru", units=8, delays=[0, 2, 4], epochs=30,
        repeats=2,
    )  # fmt: skip
    assert found.recommended == 2
    assert [row["delay"] for row in found.rows] == [0, 2, 4]
    assert all(len(row["valid"]) == 2 for row in found.rows)
    assert found.model.spec.delay == 2
    assert "recommended 2" in repr(found)


def test_plot(matplotlib):
    matplotlib.use("Agg")
    found = drnn.sweep(look_ahead(200), target="y", units=4, delays=[0, 1], epochs=2)
    assert found.plot().get_xlabel() == "delay (steps)"


@pytest.mark.parametrize(
    "options, error",
    [
        ({"table": None}, "give a table"),
        ({"target": "z"}, "z"),
        ({"target": None}, "no target"),
        ({"table": {"x": [], "y": []}}, "no rows"),
        ({"net": "lstn"}, "net 'lstn'"),
        ({"net": "lstm", "delay": 3}, "'dlstm' has one"),
        ({"units": 0}, "no units"),
        ({"epochs": 0}, "no epochs"),
        ({"batch": 0}, "batches of 0"),
        ({"valid": 0}, "valid=0"),
        ({"window": 0}, "windows of 0"),
        ({"missing": "?"}, "missing '\\?'"),
        ({"dropout": 1.0}, "dropout of 1"),
        ({"schedule": "linear"}, "schedule 'linear'"),
        ({"clip": -1.0}, "clip=-1"),
        ({"weight_decay": np.nan}, "weight_decay=NaN"),
        ({"rate": -0.1}, "rate=-0.1"),
        ({"class_weights": "balanced"}, "holds numbers, not classes"),
        ({"class_weights": "some", "target": "c"}, "expected 'balanced' or a dict"),
        ({"class_weights": {"c": 2}, "target": "c"}, "no class `c` .* has `a`, `b`"),
        ({"class_weights": {"a": -2}, "target": "c"}, "not from 0 to 1,000,000"),
        ({"class_weights": {"a": 0, "b": 0}, "target": "c"}, "all weights are 0"),
        ({"table": {"x": [1.0, np.nan] * 50, "y": np.arange(100.0)}}, "missing"),
        ({"x": noise(9)[:, None]}, "give a table"),
        ({"net": "bilstm", "ahead": 2, "delay": 0}, "a bidirectional network reads the whole"),
    ],
)
def test_bad_options(options, error):
    table = {**look_ahead(100), "c": ["a", "b"] * 50}
    options = {"table": table, "target": "y", "units": 4, "epochs": 1, **options}
    with pytest.raises((ValueError, TypeError), match=error):
        drnn.train_series(options.pop("table"), **options)


def test_ctrl_c():
    # Programs that are started in the background may ignore it.
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    timer = threading.Timer(0.5, os.kill, (os.getpid(), signal.SIGINT))
    try:
        timer.start()
        with pytest.raises(KeyboardInterrupt):
            drnn.train_series(look_ahead(5000), target="y", units=200, epochs=200)
    finally:
        timer.join()
        signal.signal(signal.SIGINT, before)


def test_an_error_of_the_callback_ends_the_training():
    def progress(epoch, epochs):
        raise RuntimeError("enough")

    with pytest.raises(RuntimeError, match="enough"):
        drnn.train_series(look_ahead(100), target="y", units=4, progress=progress)


@pytest.mark.parametrize(
    "given, options",
    [
        ("--target y", {"target": "y"}),
        (
            "--target y --schedule cosine --clip 0.1 --weight-decay 0.05 --patience 3",
            {"target": "y", "schedule": "cosine", "clip": 0.1, "weight_decay": 0.05, "patience": 3},
        ),
        (
            "--target y --schedule plateau --clip 0",
            {"target": "y", "schedule": "plateau", "clip": None},
        ),
        ("--target c --class-weights balanced", {"target": "c", "class_weights": "balanced"}),
        ("--target c --class-weights up=4", {"target": "c", "class_weights": {"up": 4}}),
    ],
)
def test_the_numbers_of_the_program(program, tmp_path, given, options):
    """`drnn train series` on the same table."""
    table = look_ahead(300)
    if options["target"] == "c":
        table = {"x": table["x"], "c": np.where(table["y"] > 0.5, "up", "down")}
    with open(tmp_path / "table.csv", "w") as file:
        print(",".join(table), file=file)
        for x, y in zip(table["x"].tolist(), table[options["target"]].tolist()):
            print(f"{x!r},{y}", file=file)
    command = f"train series --csv table.csv {given} --net dgru --units 6 --delay 1 --epochs 7"
    done = subprocess.run([program, *command.split(), "--out", "out"], cwd=tmp_path, check=False,
                          capture_output=True, text=True)  # fmt: skip
    assert done.returncode == 0, done.stderr
    trained = drnn.train_series(table, net="dgru", units=6, delay=1, epochs=7, **options)
    [path] = (tmp_path / "out").glob("**/model.safetensors")
    theirs = drnn.Model.load(path)
    for name, value in trained.model.state_dict().items():
        np.testing.assert_array_equal(theirs.state_dict()[name], value)
    target = options["target"]
    found = drnn.load(path).predict(table)[target]
    np.testing.assert_array_equal(found, trained.predict(table)[target])


def test_import_is_light():
    code = "import sys, drnn; print([m for m in ('torch', 'pandas', 'csv') if m in sys.modules])"
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert json.loads(found.stdout.replace("'", '"')) == []


def test_categories_that_only_come_after_the_training_set():
    table = {"k": [""] * 80 + ["a", "b"] * 10, "y": np.arange(100.0)}
    with pytest.raises(ValueError, match="no row of the training set has a category of k"):
        drnn.train_series(table, target="y", missing="mean", units=3, epochs=1)
