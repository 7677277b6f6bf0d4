"""What tests share. A test that needs what this machine lacks is skipped, with a reason that
`.ci/run` counts; DRNN_REQUIRE turns the skip into a failure (see CONTRIBUTING.md)."""

import importlib
import importlib.util
import os
import shutil

import pytest


def has(module):
    """Whether a module is installed. The folder tests/torch is none."""
    found = importlib.util.find_spec(module)
    return found is not None and found.origin is not None


def lacking(need, test, reason):
    if need in os.environ.get("DRNN_REQUIRE", "").split(","):
        pytest.fail(f"{need} is required: {reason}")
    if path := os.environ.get("DRNN_SKIPPED"):
        with open(path, "a", encoding="utf-8") as file:
            file.write(f"{need}\t{test}\t{reason}\n")
    pytest.skip(reason)


def module(name):
    @pytest.fixture(name=name)
    def fixture(request):
        if not has(name):
            lacking(name, f"drnn-python {request.node.name}", f"no module {name}")
        return importlib.import_module(name)

    return fixture


torch = module("torch")
pandas = module("pandas")
pyarrow = module("pyarrow")
matplotlib = module("matplotlib")
onnxruntime = module("onnxruntime")


@pytest.fixture
def nbclient(request):
    """Nothing: what executes notebooks is installed, and is not imported here."""
    for name in ("nbclient", "ipykernel"):
        if not has(name):
            lacking("nbclient", f"drnn-python {request.node.name}", f"no module {name}")


@pytest.fixture
def hopper(request, torch):
    """A GPU of the Hopper generation, and whatever else drnn's kernels need."""
    test = f"drnn-python {request.node.name}"
    if not torch.cuda.is_available():
        lacking("gpu", test, "torch finds no GPU")
    if torch.cuda.get_device_capability()[0] != 9:
        name = torch.cuda.get_device_name()
        lacking("hopper", test, f"{name} is not of the Hopper generation")
    return torch.device("cuda", torch.cuda.current_device())


@pytest.fixture
def program(request):
    """Path of the program `drnn`."""
    path = os.environ.get("DRNN_PROGRAM") or shutil.which("drnn")
    if not path or not os.access(path, os.X_OK):
        lacking("program", f"drnn-python {request.node.name}", "no program drnn in DRNN_PROGRAM")
    return path


collect_ignore = [] if has("torch") else ["torch"]
