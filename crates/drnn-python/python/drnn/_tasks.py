"""Models that know their task: taggers, masked characters, series."""

from __future__ import annotations

import json
import os
from typing import Any, Literal

import numpy as np

from drnn import _drnn
from drnn._tables import Table, as_field


def load(
    path: str | os.PathLike[str],
    *,
    prefix: str | None = None,
    nonlinearity: str = "tanh",
    embedding: str | Literal[False] | None = None,
    output: str | Literal[False] | None = None,
) -> TaskModel:
    """Loads a model with its task, from a file or by the name of one that comes with the package.

    Names: "tagger-en", "chars-en", "chars-en-lstm", "chars-en-bilstm". Files: drnn's own, or
    PyTorch state dicts and ONNX graphs, for which the options are those of `Model.load`.

    >>> import drnn
    >>> tagger = drnn.load("tagger-en")
    >>> tagger.tag("The cat sat on the mat.")[:3]
    [('The', 'DET'), ('cat', 'NOUN'), ('sat', 'VERB')]
    """
    live = _drnn.LiveModel.load(os.fspath(path), prefix, nonlinearity, embedding, output)
    return TaskModel(live, os.fspath(path))


class TaskModel:
    """A model with its task; made by `load` and `train_series`.

    `tag` is for taggers, `fill` for masked characters, `predict` for series and for networks
    without a task. `info` describes what the model reads and predicts.
    """

    def __init__(self, live: Any, source: Any):
        self._live = live
        self._source = source
        #: What the model reads and predicts, as a dict.
        self.info: dict[str, Any] = json.loads(live.info())

    @property
    def task(self) -> str:
        """ "tagger", "chars", "series" or "plain"."""
        return self.info["task"]

    @property
    def model(self) -> _drnn.Model:
        """The network, as a `Model`. Taggers consist of two networks and have none."""
        if self.task == "tagger":
            raise TypeError("a tagger consists of two networks; there is no single Model")
        if isinstance(self._source, _drnn.Model):
            return self._source
        return _drnn.load_network(self._source)

    def _needs(self, method, *tasks):
        if self.task not in tasks:
            raise TypeError(
                f"{method}() needs a model of the task {' or '.join(tasks)}; "
                f"{self.info['name']} is {self.info['description']}"
            )

    def tag(self, text: Any, *, probabilities: bool = False) -> Any:
        """Tags words: a list of (word, tag), with `probabilities` (word, tag, probability).

        `text` is one sentence: a string, which is split into words, or a list of words. Several
        sentences, a list of lists of words, are tagged together and returned as a list of lists.

        >>> import drnn
        >>> drnn.load("tagger-en").tag(["Time", "flies"])
        [('Time', 'NOUN'), ('flies', 'VERB')]
        """
        self._needs("tag", "tagger")
        if isinstance(text, str):
            return self._tag([_drnn.tokenize(text)], probabilities)[0]
        sentences = list(text)
        if any(isinstance(word, str) for word in sentences):
            return self._tag([sentences], probabilities)[0]
        return self._tag([list(words) for words in sentences], probabilities)

    def _tag(self, sentences, probabilities):
        tagged = self._live.tag(sentences)
        if probabilities:
            return tagged
        return [[(word, tag) for word, tag, _ in words] for words in tagged]

    def fill(self, text: str, *, mask: str = "_", alternatives: bool = False) -> Any:
        """Fills in the masked characters of a text.

        With `alternatives`, returns the text and, for each mask, the most probable characters with
        their probabilities.

        >>> import drnn
        >>> drnn.load("chars-en").fill("the capit_l of fr_nce")
        'the capital of france'
        """
        self._needs("fill", "chars")
        if len(mask) != 1:
            raise ValueError(f"mask {mask!r}, expected one character")
        found = self._live.fill([None if letter == mask else letter for letter in text])
        filled = "".join(letter for letter, _ in found)
        if alternatives:
            return filled, [list(others) for _, others in found if others]
        return filled

    def predict(self, table: Any, *, probabilities: bool = False) -> Any:
        """Predictions for every row of a table, in the units of its data.

        `table` is a dict of columns, a NumPy structured array, a pandas DataFrame or a pyarrow
        Table with the columns that the model was trained on, or numbers [T, q] in their order. The
        predictions come as a table of the same kind; numbers come as [T, m]. A row without a
        prediction has NaN. For classes, there is a column of the class and one of its probability;
        `probabilities` adds one for each class.
        """
        self._needs("predict", "series", "plain")
        inputs, targets, classes, sequence = self._live.columns() or (None, None, None, None)
        table = Table(table, inputs)
        if inputs is None:
            inputs = list(table.columns)
        fields = [as_field(table.column(name)) for name in inputs]
        bounds = [(0, table.rows)]
        if sequence is not None and sequence in table.columns:
            bounds = _runs(table.column(sequence))
        numbers, values = self._live.predict(fields, bounds)
        if classes is None:
            if targets is None:
                targets = [f"y{i}" for i in range(values.shape[1])]
            return table.alike({name: values[:, i] for i, name in enumerate(targets)})
        names = np.array([*classes, None], dtype=object)[numbers]
        if table.kind == "structured":
            names = np.array([name or "" for name in names])
        columns = {targets[0]: names, "probability": values.max(axis=1, initial=0.0)}
        columns["probability"][numbers < 0] = np.nan
        if probabilities:
            columns.update((f"p({name})", values[:, i]) for i, name in enumerate(classes))
        return table.alike(columns)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Writes the model file, with the task inside."""
        self.model.save(path)

    def __repr__(self) -> str:
        return f"<TaskModel {self.info['name']}: {self.info['description']}>"


def _runs(column):
    """Where each sequence begins and ends: rows with the same entry that follow each other."""
    values = column.tolist()
    cuts = [i for i in range(1, len(values)) if values[i] != values[i - 1]]
    return list(zip([0, *cuts], [*cuts, len(values)]))
