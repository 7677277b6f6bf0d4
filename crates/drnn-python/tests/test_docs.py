"""The examples of all docstrings run."""

import doctest
import inspect

import pytest

import drnn

OPTIONS = doctest.NORMALIZE_WHITESPACE


def documented():
    yield "drnn", drnn.__doc__
    for name in drnn.__all__:
        value = getattr(drnn, name)
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
    for name in drnn.__all__:
        value = getattr(drnn, name)
        assert value.__doc__, name
        if inspect.isclass(value) and name != "StreamId":
            for member in vars(value):
                if not member.startswith("_"):
                    assert getattr(value, member).__doc__, f"{name}.{member}"
