"""What tests share: tests that need what this machine lacks are skipped and counted."""

import os

import pytest


def lacking(need, test, reason):
    """Skips a test, or fails it where DRNN_REQUIRE names what it needs (see CONTRIBUTING.md)."""
    if need in os.environ.get("DRNN_REQUIRE", "").split(","):
        pytest.fail(f"{need} is required: {reason}")
    if path := os.environ.get("DRNN_SKIPPED"):
        with open(path, "a", encoding="utf-8") as file:
            file.write(f"{need}\t{test}\t{reason}\n")
    pytest.skip(reason)


def module_or_skip(name, request):
    try:
        return __import__(name)
    except ImportError as error:
        return lacking(name, request.node.nodeid, f"no module {name}: {error}")


@pytest.fixture
def torch(request):
    return module_or_skip("torch", request)


@pytest.fixture
def pandas(request):
    return module_or_skip("pandas", request)


@pytest.fixture
def pyarrow(request):
    return module_or_skip("pyarrow", request)


@pytest.fixture
def onnxruntime(request):
    return module_or_skip("onnxruntime", request)
