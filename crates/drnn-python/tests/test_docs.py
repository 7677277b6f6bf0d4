"""The examples of all docstrings run."""

import doctest
import inspect
import pathlib
import re

import numpy as np
import pytest

import drnn

OPTIONS = doctest.NORMALIZE_WHITESPACE


try:
    import drnn.torch

    PACKAGES = [drnn, drnn.torch]
except ImportError:  # without PyTorch
    PACKAGES = [drnn]
PUBLIC = [(name, getattr(package, name)) for package in PACKAGES for name in package.__all__]


def documented():
    yield "drnn", drnn.__doc__
    for name, value in PUBLIC:
        yield name, value.__doc__
        if inspect.isclass(value):
            for member in vars(value):
                yield f"{name}.{member}", getattr(getattr(value, member), "__doc__", None)


EXAMPLES = [(name, text) for name, text in documented() if text and ">>>" in text]


def test_there_are_examples():
    assert len(EXAMPLES) >= 9


@pytest.mark.parametrize("name, text", EXAMPLES, ids=[name for name, _ in EXAMPLES])
def test_example(name, text):
    test = doctest.DocTestParser().get_doctest(inspect.cleandoc(text), {}, name, None, 0)
    result = doctest.DocTestRunner(optionflags=OPTIONS).run(test)
    assert result.attempted and not result.failed


def test_everything_public_is_documented():
    for name, value in PUBLIC:
        assert value.__doc__, name
        if inspect.isclass(value) and name != "StreamId":
            for member in vars(value):
                # What torch prints of a module is torch's interface.
                if not member.startswith("_") and member != "extra_repr":
                    assert getattr(value, member).__doc__, f"{name}.{member}"


def test_modules_of_torch_are_tested(torch):
    """Counts a skip where the tests in tests/torch cannot be collected."""
    assert torch.__version__


def test_the_page(torch, pandas, matplotlib, tmp_path, monkeypatch):
    """The code of docs/PYTHON.md runs, block after block."""
    monkeypatch.chdir(tmp_path)
    matplotlib.use("Agg")
    noise = np.random.default_rng(1).normal(size=(300, 2))
    frame = pandas.DataFrame({"wind": noise[:, 0], "temperature": noise[:, 1]})

    class MyModel(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.lstm = torch.nn.LSTM(3, 4)

        def forward(self, x):
            return self.lstm(x)[0]

    names = {"frame": frame, "MyModel": MyModel, "torch": torch}
    page = pathlib.Path(__file__).parents[3] / "docs" / "PYTHON.md"
    blocks = re.findall("```python\n(.*?)```", page.read_text(encoding="utf-8"), re.DOTALL)
    assert len(blocks) == 6
    for block in blocks:
        if "Ensemble" in block:
            names.update(x=torch.randn(5, 2, 3), target=torch.randn(5, 2, 4))
        exec(block.replace("target=", "epochs=1, target="), names)  # noqa: S102
    assert names["y"].shape[-1] == 1
    assert (tmp_path / "weather.safetensors").exists()
    assert isinstance(names["best"], MyModel)
