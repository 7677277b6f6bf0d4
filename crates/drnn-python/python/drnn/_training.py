"""Training of series."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Union

import numpy as np

from drnn import _drnn
from drnn._tables import Table, as_field, is_missing
from drnn._tasks import TaskModel


_Names = Union[str, Sequence[str], None]
_Progress = Union[bool, Callable[[dict[str, Any], int], Any], None]


class Training:
    """What `train_series` returns: the trained model, and how the training went."""

    def __init__(
        self,
        model: _drnn.Model,
        history: list[dict[str, Any]],
        scores: dict[str, dict[str, Any]],
        epoch: int,
        notes: list[str],
    ):
        #: The trained network, with the scales of its data: `model.save(path)`.
        self.model = model
        #: One dict for each epoch: losses, and accuracy or RMSE on the validation set.
        self.history = history
        #: Scores on the sets "valid" and "test": accuracy, or RMSE and R^2 in the target's units.
        self.scores = scores
        #: The epoch that the model is of: the best on the validation set.
        self.epoch = epoch
        #: What should be known of how the data were read.
        self.notes = notes
        self._task: TaskModel | None = None

    @property
    def task(self) -> TaskModel:
        """The model with its task."""
        if self._task is None:
            self._task = TaskModel(_drnn.LiveModel.of("trained", self.model), self.model)
        return self._task

    def predict(self, table: Any, **options: Any) -> Any:
        """Predictions in the units of the data; see `TaskModel.predict`."""
        return self.task.predict(table, **options)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Writes the model file, which `drnn.load` and the program `drnn` read."""
        self.model.save(path)

    def __repr__(self) -> str:
        return f"<Training {self.model.spec}: {_scores(self.scores)}>"


def _scores(scores):
    def one(score):
        if "accuracy" in score:
            return f"accuracy {_number(score['accuracy'])}"
        return f"RMSE {_number(score['rmse'])}"

    return ", ".join(f"{name} {one(score)}" for name, score in scores.items())


def _number(value):
    return "none" if value is None else f"{value:.4g}"


class _Bar:
    """A line of text that shows how far a training has come, in terminals and notebooks."""

    WIDTH = 24

    def __init__(self, title):
        self.title = title

    def __call__(self, epoch, epochs):
        done = epoch["epoch"] / epochs
        bar = "#" * round(done * self.WIDTH)
        keys = [key for key in ("valid_rmse", "valid_accuracy") if key in epoch]
        score = [f"{key[6:]} {epoch[key]:.4g}" for key in keys]
        line = f"\r{self.title} [{bar:<{self.WIDTH}}] {epoch['epoch']}/{epochs} {' '.join(score)}  "
        sys.stderr.write(line)
        sys.stderr.flush()

    def end(self):
        sys.stderr.write("\n")
        sys.stderr.flush()


def _watched(progress, title):
    """The callback for `progress`: a bar, a caller's own, or none; and what ends it."""
    if progress is None:
        progress = sys.stderr.isatty() or "ipykernel" in sys.modules
    if progress is True:
        bar = _Bar(title)
        return bar, bar.end
    return progress or None, lambda: None


def _data(
    table, x, y, target, inputs, ahead, sequence, time, categories, classify, missing, window,
    valid, test, seed,
):  # fmt: skip
    """The data, read as the program reads them: tables as CSV, arrays as .npy."""
    import tempfile

    def names(value):
        return [value] if isinstance(value, str) else list(value or [])

    ahead = [ahead] if isinstance(ahead, int) else list(ahead or [])
    options = (ahead, sequence, time, names(categories), classify, missing)
    options += (window, valid, test, seed)
    inputs = None if inputs is None else names(inputs)
    if (table is None) == (x is None and y is None):
        raise TypeError("give a table with target=, or x= and y=")
    if isinstance(table, (str, os.PathLike)):
        return _drnn.SeriesData([table], names(target), inputs, *options)
    with tempfile.TemporaryDirectory() as folder:
        try:
            if table is not None:
                path = os.path.join(folder, "table")
                _write(Table(table), path)
                return _drnn.SeriesData([path], names(target), inputs, *options)
            if target is not None or inputs is not None:
                raise TypeError("target= and inputs= name columns of a table; x and y have none")
            paths = [os.path.join(folder, name) for name in ("x.npy", "y.npy")]
            x, y = np.asarray(x, dtype=np.float32), np.asarray(y)
            if x.ndim == 2 and y.ndim in (1, 2):  # one sequence
                x, y = x[:, None], y[:, None]
            if y.dtype.kind in "iub":
                np.save(paths[1], y.astype(np.int64))
            else:
                np.save(paths[1], y.astype(np.float32))
            np.save(paths[0], x)
            return _drnn.SeriesData(paths, ["y"], None, *options)
        except ValueError as error:
            raise ValueError(str(error).replace(folder + os.sep, "")) from None


def _write(table, path):
    """A table as CSV, numbers with all their digits."""
    import csv

    def written(column):
        field = as_field(column)
        if column.dtype.kind in "iub":
            return [str(value) for value in column.astype(np.int64).tolist()]
        if column.dtype.kind == "f":
            return ["" if is_missing(value) else repr(value) for value in field.tolist()]
        return ["" if value is None else value for value in field]

    if not table.rows:
        raise ValueError("the table has no rows")
    with open(path, "w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(table.columns)
        writer.writerows(zip(*map(written, table.columns.values())))


def train_series(
    table: Any = None,
    *,
    x: Any = None,
    y: Any = None,
    target: _Names = None,
    inputs: _Names = None,
    ahead: int | Sequence[int] | None = None,
    sequence: str | None = None,
    time: str | None = None,
    categories: _Names = None,
    classify: bool | None = None,
    missing: str = "refuse",
    net: str = "dlstm",
    units: int | Sequence[int] = 100,
    layers: int = 1,
    delay: int | None = None,
    epochs: int | None = None,
    batch: int | None = None,
    rate: float = 1e-2,
    schedule: str | None = None,
    clip: float | None = 1.0,
    dropout: float = 0.0,
    weight_decay: float = 0.0,
    class_weights: str | Mapping[Any, float] | None = None,
    patience: int | None = None,
    window: int = 100,
    valid: float = 0.1,
    test: float = 0.1,
    seed: int = 1,
    progress: _Progress = None,
) -> Training:
    """Trains a network that predicts values or a class at every step of a series.

    It is the training of `drnn train series`, with the same defaults.

    Parameters
    ----------
    table : dict of columns, NumPy structured array, pandas DataFrame, pyarrow Table, or the path of
        a CSV file; or `x` [T, B, q] with `y` [T, B, m] (integers [T, B] are classes), or [T, q]
        with [T, m] for one sequence
    target : name of the column to predict, or several; all others are inputs unless `inputs` names
        them
    ahead : forecast so many steps ahead, one number or several
    sequence : column that says which sequence a row belongs to
    time, categories : columns with times, or with categories that look like numbers
    classify : whether the target is a class; None lets the data say so
    missing : what replaces missing numbers: "refuse", "zero", "mean", "previous" or "drop"
    net : "dlstm", "dgru", "drnn" (with a delay), "lstm", "gru", "rnn", "bilstm", "bigru", "birnn"
    delay : steps by which outputs come late; 5 by default for a network with a delay, 0 for a
        forecast
    epochs, batch : by default as many as give 1,600 updates
    rate, schedule : the learning rate, and "constant", "cosine" or "plateau"
    clip : maximum norm of a gradient; None for no clipping
    dropout, weight_decay : between layers and on the last one's outputs; decoupled (AdamW)
    class_weights : how much each class counts: "balanced", or a dict; 1 for those not named
    patience : stop after so many epochs without improvement on the validation set
    valid, test : shares of the data
    progress : True for a bar, None for one in terminals and notebooks, False for none; or a
        function that is called after every epoch with a dict and the number of epochs

    Ctrl-C ends it with KeyboardInterrupt.

    >>> import drnn, numpy as np
    >>> x = np.random.default_rng(1).normal(size=600).astype("f")
    >>> table = {"x": x, "y": np.roll(x, -2)}                 # y_t = x_{t+2}
    >>> trained = drnn.train_series(table, target="y", net="dgru", units=8, delay=2, epochs=40)
    >>> trained.scores["test"]["rmse"] < 0.5
    True
    >>> trained.predict({"x": x})["y"].shape
    (600,)
    """
    data = _data(
        table, x, y, target, inputs, ahead, sequence, time, categories, classify, missing, window,
        valid, test, seed,
    )  # fmt: skip
    if delay is None:
        delay = min(5, data.longest_delay) if net.startswith("d") and not ahead else 0
    if delay and not net.startswith("d"):
        raise ValueError(f"net '{net}' has no delay; 'd{net.removeprefix('bi')}' has one")
    callback, end = _watched(progress, f"{net}, delay {delay}")
    options = _options(
        epochs, batch, rate, schedule, clip, dropout, weight_decay, class_weights, patience
    )
    return _train(data, net, units, layers, delay, options, seed, callback, end)


def _options(
    epochs, batch, rate, schedule, clip, dropout, weight_decay, class_weights, patience
):  # fmt: skip
    """How a training goes."""
    if class_weights is not None and not isinstance(class_weights, str):
        class_weights = [(str(name), weight) for name, weight in dict(class_weights).items()]
    return {
        "epochs": epochs,
        "batch": batch,
        "rate": rate,
        "schedule": schedule,
        "clip": clip,
        "dropout": dropout,
        "weight_decay": weight_decay,
        "class_weights": class_weights,
        "patience": patience,
    }


def _train(data, net, units, layers, delay, options, seed, callback, end):
    units = [units] * layers if isinstance(units, int) else list(units)
    try:
        model, history, scores, epoch = data.train(net, units, delay, options, seed, callback)
    finally:
        end()
    notes = data.notes
    if delay > data.longest_delay:
        notes.append(
            f"a delay of {delay} is longer than {data.longest_delay}, the longest that makes sense "
            "for these data: sequences end before, or what is to be forecast is known already."
        )
    return Training(model, history, scores, epoch, notes)


class Sweep:
    """What `sweep` returns: the quality of every delay, and the shortest delay that is enough."""

    def __init__(
        self,
        measure: str,
        rows: list[dict[str, Any]],
        trainings: list[list[Training]],
        recommended: int | None,
    ):
        #: "accuracy" or "rmse"
        self.measure = measure
        #: One dict for each delay: its scores on the validation set, their mean, the test score.
        self.rows = rows
        self._trainings = trainings
        self._recommended = recommended

    @property
    def recommended(self) -> int | None:
        """The shortest delay that is not worse than the best; None if every training failed."""
        return None if self._recommended is None else self.rows[self._recommended]["delay"]

    @property
    def best(self) -> Training | None:
        """The first training with the recommended delay."""
        return None if self._recommended is None else self._trainings[self._recommended][0]

    @property
    def model(self) -> _drnn.Model | None:
        """The network of that training."""
        return None if self.best is None else self.best.model

    def plot(self, ax: Any = None) -> Any:
        """Plots quality against delay with matplotlib, and returns the axes."""
        try:
            from matplotlib import pyplot
        except ImportError:
            raise ImportError("plot() needs matplotlib: pip install matplotlib") from None
        ax = ax if ax is not None else pyplot.subplots()[1]
        delays = [row["delay"] for row in self.rows]
        ax.plot(delays, [row["mean"] for row in self.rows], marker="o")
        for row in self.rows:
            ax.plot([row["delay"]] * len(row["valid"]), row["valid"], ".", color="gray")
        if self._recommended is not None:
            ax.axvline(self.recommended, linestyle=":", color="gray", label="recommended")
            ax.legend()
        ax.set_xlabel("delay (steps)")
        ax.set_ylabel(f"{self.measure}, validation set")
        return ax

    def __repr__(self) -> str:
        rows = ", ".join(f"{row['delay']}: {_number(row['mean'])}" for row in self.rows)
        return f"<Sweep {self.measure} by delay {{{rows}}}, recommended {self.recommended}>"


def sweep(
    table: Any = None,
    *,
    delays: Sequence[int] | None = None,
    repeats: int = 1,
    tolerance: float | None = None,
    x: Any = None,
    y: Any = None,
    target: _Names = None,
    inputs: _Names = None,
    ahead: int | Sequence[int] | None = None,
    sequence: str | None = None,
    time: str | None = None,
    categories: _Names = None,
    classify: bool | None = None,
    missing: str = "refuse",
    net: str = "dlstm",
    units: int | Sequence[int] = 100,
    layers: int = 1,
    epochs: int | None = None,
    batch: int | None = None,
    rate: float = 1e-2,
    schedule: str | None = None,
    clip: float | None = 1.0,
    dropout: float = 0.0,
    weight_decay: float = 0.0,
    class_weights: str | Mapping[Any, float] | None = None,
    patience: int | None = None,
    window: int = 100,
    valid: float = 0.1,
    test: float = 0.1,
    seed: int = 1,
    progress: _Progress = None,
) -> Sweep:
    """Trains one network for each delay, and finds the shortest delay that is good enough.

    `delays` are 0, 1, 2, 5 and 10 by default, as far as the data allow. `repeats` trains each
    so many times with other seeds. `tolerance` is the difference in accuracy, or the share of the
    lowest squared error, that does not matter. All other arguments are those of `train_series`.

    >>> import drnn, numpy as np
    >>> x = np.random.default_rng(1).normal(size=600).astype("f")
    >>> table = {"x": x, "y": np.roll(x, -1)}                 # y_t = x_{t+1}
    >>> found = drnn.sweep(table, target="y", net="dgru", units=8, delays=[0, 1, 3], epochs=30)
    >>> found.recommended
    1
    """
    data = _data(
        table, x, y, target, inputs, ahead, sequence, time, categories, classify, missing, window,
        valid, test, seed,
    )  # fmt: skip
    if not net.startswith("d"):
        raise ValueError(f"net '{net}' has no delay, expected 'dlstm', 'dgru' or 'drnn'")
    if repeats < 1:
        raise ValueError(f"repeats={repeats}, expected 1 or more")
    if delays is None:
        delays = [delay for delay in (0, 1, 2, 5, 10) if delay <= data.longest_delay]
    options = _options(
        epochs, batch, rate, schedule, clip, dropout, weight_decay, class_weights, patience
    )
    rows, trainings = [], []
    for delay in delays:
        runs = []
        for repeat in range(repeats):
            callback, end = _watched(progress, f"{net}, delay {delay}")
            own = _drnn.training_seed(seed, repeat)
            runs.append(_train(data, net, units, layers, delay, options, own, callback, end))
        scores = [_nan(run.scores["valid"][data.measure]) for run in runs]
        row = {"delay": delay, "valid": scores, "mean": float(np.mean(scores))}
        if "test" in runs[0].scores:
            row["test"] = [_nan(run.scores["test"][data.measure]) for run in runs]
        rows.append(row)
        trainings.append(runs)
    scores = [row["valid"] for row in rows]
    negligible = 0.0 if data.measure == "accuracy" else data.negligible()
    chosen = _drnn.recommended(data.measure, list(delays), scores, negligible, tolerance)
    return Sweep(data.measure, rows, trainings, chosen)


def _nan(score):
    return float("nan") if score is None else score
