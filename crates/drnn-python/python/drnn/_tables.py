"""Tables of NumPy, pandas and Arrow as columns, and columns as the same kind of table."""

import sys

import numpy as np


def _is(value, module, name):
    """Whether a value is of a class of a module, without importing the module."""
    found = sys.modules.get(module)
    return found is not None and isinstance(value, getattr(found, name))


class Table:
    """A table as a dict of columns, with what is needed to answer in kind."""

    def __init__(self, source, names=None):
        self.source = source
        if _is(source, "pandas", "DataFrame"):
            self.kind = "pandas"
            self.columns = {str(name): source[name].to_numpy() for name in source.columns}
        elif _is(source, "pyarrow", "Table"):
            self.kind = "arrow"
            self.columns = {
                name: np.asarray(column.to_pylist(), dtype=object)
                if not _is_number(column.type)
                else column.to_numpy()
                for name, column in zip(source.column_names, source.columns)
            }
        elif isinstance(source, np.ndarray) and source.dtype.names:
            self.kind = "structured"
            self.columns = {name: source[name] for name in source.dtype.names}
        elif hasattr(source, "items"):
            self.kind = "dict"
            self.columns = {str(name): np.asarray(column) for name, column in source.items()}
        else:
            self.kind = "array"
            array = np.asarray(source)
            if array.ndim == 1:
                array = array[:, None]
            if array.ndim != 2 or array.dtype.kind not in "fiub":
                raise TypeError(
                    "expected a dict of columns, a structured array, a pandas DataFrame, a pyarrow "
                    f"Table or numbers [T, q], found {type(source).__name__} of shape "
                    f"{list(array.shape)} and dtype {array.dtype}"
                )
            if names is None:
                names = [f"x{i}" for i in range(array.shape[1])]
            if len(names) != array.shape[1]:
                raise ValueError(
                    f"{array.shape[1]} columns, expected {len(names)}: {', '.join(names)}"
                )
            self.columns = {name: array[:, i] for i, name in enumerate(names)}
        lengths = {name: len(column) for name, column in self.columns.items()}
        if len(set(lengths.values())) > 1:
            raise ValueError(f"columns differ in their lengths: {lengths}")
        for name, column in self.columns.items():
            if column.ndim != 1:
                shape = list(column.shape)
                raise ValueError(f"column '{name}' has shape {shape}, expected one axis")
        self.rows = next(iter(lengths.values()), 0)

    def column(self, name):
        """One column."""
        if name not in self.columns:
            raise ValueError(f"no column '{name}' among {', '.join(self.columns) or 'none'}")
        return self.columns[name]

    def alike(self, columns):
        """Columns as a table of the same kind; of numbers alone, an array where that came in."""
        if self.kind == "pandas":
            pandas = sys.modules["pandas"]
            return pandas.DataFrame(columns, index=self.source.index)
        if self.kind == "arrow":
            pyarrow = sys.modules["pyarrow"]
            return pyarrow.table(
                {
                    name: pyarrow.array(column, from_pandas=True)
                    for name, column in columns.items()
                }
            )
        if self.kind == "structured":
            types = [(name, column.dtype) for name, column in columns.items()]
            table = np.empty(self.rows, dtype=types)
            for name, column in columns.items():
                table[name] = column
            return table
        if self.kind == "array" and all(column.dtype.kind == "f" for column in columns.values()):
            return np.stack(list(columns.values()), axis=1)
        return columns


def _is_number(arrow_type):
    types = sys.modules["pyarrow"].types
    return types.is_integer(arrow_type) or types.is_floating(arrow_type)


def is_missing(value):
    """None, NaN or NaT."""
    return value is None or value != value  # noqa: PLR0124


def as_field(column):
    """A column as the models read it: floats, or texts with None where one is missing."""
    if column.dtype.kind in "fiub":
        return column.astype(np.float64)
    if column.dtype.kind == "M":
        texts = np.datetime_as_string(column.astype("datetime64[s]"))
        return [None if text == "NaT" else str(text) for text in texts]
    return [None if is_missing(value) else str(value) for value in column.tolist()]
