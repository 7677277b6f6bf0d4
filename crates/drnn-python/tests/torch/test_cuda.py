"""What `drnn.torch._cuda` hands to the kernels for GPUs and makes of their results. A stand-in for the
kernels reads and writes the same addresses, in the CPU's memory; kernels are tested in crates/drnn-cuda."""

import contextlib
import ctypes
import itertools

import pytest

pytest.importorskip("torch.nn", reason="PyTorch is not installed: pip install torch")

import torch
from cases import difference
from torch.nn.utils.rnn import PackedSequence, pack_padded_sequence, pad_packed_sequence

import drnn.torch
from drnn.torch import _cuda
from drnn.torch._config import Config
from drnn.torch._reference import reference

MODES = ["LSTM", "GRU", "RNN_TANH", "RNN_RELU"]
TYPES = {"float32": torch.float32, "float16": torch.float16, "bfloat16": torch.bfloat16}


def at(address, shape, dtype=torch.float32):
    """A tensor over memory of somebody else's; None at address 0."""
    if address == 0:
        return None
    values = torch.Size(shape).numel()
    size = values * torch.empty(0, dtype=dtype).element_size()
    memory = (ctypes.c_byte * size).from_address(address)
    return torch.frombuffer(memory, dtype=dtype, count=values).view(shape)


class StandIn:
    """`CudaRecurrence` by torch's operators. What it saves is a number, which a backward pass erases."""

    is_persistent, workspace_bytes, saved = True, 64, {}

    def __init__(self, device, mode, q, n, layers, both, steps, rows, format, training):
        self.config = Config(mode, q, n, layers, both, 0, 0, False)
        self.steps, self.rows, self.dtype = steps, rows, TYPES[format]
        self.saved_bytes = 16 if training else 0

    def warm_up(self):
        pass

    def tensors(self, layers):
        shapes = self.config.shapes()
        addresses = [address for layer in layers for address in layer]
        assert len(addresses) == len(shapes)
        return [at(address, shape) for address, shape in zip(addresses, shapes)]

    def states(self, *addresses):
        config = self.config
        shape = config.num_layers * config.directions, self.rows, config.hidden_size
        return [at(address, shape) for address in addresses]

    def results(self, x, h0, c0, weights, lengths):
        x, biases = x.float(), weights[2] is not None
        weights = [weight for weight in weights if weight is not None]
        given = (self.config, x, weights, biases, h0, c0)
        if lengths is None:
            return reference(*given, None, 0.0, False)
        lengths, order = lengths.sort(descending=True)
        packed = pack_padded_sequence(x[:, order], lengths)
        h0, c0 = (None if s is None else s[:, order] for s in (h0, c0))
        given = (self.config, packed.data, weights, biases, h0, c0)
        y, h, c = reference(*given, packed.batch_sizes, 0.0, False)
        y, _ = pad_packed_sequence(PackedSequence(y, packed.batch_sizes), total_length=self.steps)
        back = order.argsort()
        return y[:, back], h[:, back], None if c is None else c[:, back]

    def forward(self, stream, arrays):
        assert arrays["workspace"] != 0
        x = at(arrays["x"], (self.steps, self.rows, self.config.input_size), self.dtype)
        weights = self.tensors(arrays["parameters"])
        h0, c0 = self.states(arrays["h0"], arrays["c0"])
        lengths = at(arrays["lengths"], (self.rows,), torch.int64)
        given = x.clone(), h0.clone(), None if c0 is None else c0.clone(), weights, lengths
        with torch.no_grad():
            y, h, c = self.results(*given)
        at(arrays["y"], y.shape, self.dtype).copy_(y)
        h_n, c_n = self.states(arrays["h_n"], arrays["c_n"])
        h_n.copy_(h)
        if c is not None:
            c_n.copy_(c)
        assert (arrays["saved"] != 0) == (self.saved_bytes > 0)
        if arrays["saved"]:
            number = 1 + len(StandIn.saved)
            StandIn.saved[number] = given
            at(arrays["saved"], (2,), torch.int64).fill_(number)

    def backward(self, stream, arrays):
        mark = at(arrays["saved"], (2,), torch.int64)
        x, h0, c0, _, lengths = StandIn.saved[int(mark[0])]
        mark.fill_(-1)
        weights = self.tensors(arrays["parameters"])
        inputs = [x.float(), h0, c0, *weights]
        inputs = [None if t is None else t.detach().clone().requires_grad_() for t in inputs]
        x, h0, c0, *weights = inputs
        with torch.enable_grad():
            y, h, c = self.results(x, h0, c0, weights, lengths)
        d_h, d_c = self.states(arrays["d_h_n"], arrays["d_c_n"])
        pairs = [(y, at(arrays["d_y"], y.shape, self.dtype)), (h, d_h), (c, d_c)]
        pairs = [(r, d.to(r.dtype)) for r, d in pairs if r is not None and d is not None]
        variables = [t for t in inputs if t is not None]
        results, upstream = zip(*pairs)
        found = iter(torch.autograd.grad(results, variables, upstream, allow_unused=True))
        gradients = [None if t is None else next(found) for t in inputs]
        d_h0, d_c0 = self.states(arrays["d_h0"], arrays["d_c0"])
        targets = [at(arrays["d_x"], x.shape, self.dtype), d_h0, d_c0]
        targets += self.tensors(arrays["gradients"])
        for target, gradient in zip(targets, gradients):
            if target is not None:
                target.copy_(torch.zeros_like(target) if gradient is None else gradient)


@pytest.fixture(autouse=True)
def stand_in(monkeypatch):
    StandIn.saved = {}
    _cuda._loaded_plan.cache_clear()
    _cuda._refusal.cache_clear()
    monkeypatch.setattr(_cuda, "CudaRecurrence", StandIn)
    monkeypatch.setattr(_cuda, "_guard", lambda device: contextlib.nullcontext())
    monkeypatch.setattr(_cuda, "_stream", lambda device: 0)
    monkeypatch.setattr(_cuda, "_ENABLED", True)
    monkeypatch.setattr(_cuda, "_FORMATS", {t: name for name, t in TYPES.items()})
    yield
    _cuda._loaded_plan.cache_clear()
    _cuda._refusal.cache_clear()


def case(seed):
    """Arguments of a random call: configuration, x, weights, h_0, c_0, batch_sizes."""
    torch.manual_seed(seed)

    def draw(*choices):
        return choices[int(torch.randint(len(choices), ()))]

    mode, layers, both, bias = draw(*MODES), draw(1, 2, 3), draw(False, True), draw(True, False)
    delay, ahead = (0, False) if both else (draw(0, 1, 3), draw(False, True))
    config = Config(mode, 3, 4, layers, both, 0, delay, ahead and delay > 0)
    shapes = config.shapes()
    weights = [torch.randn(s) * 0.5 for i, s in enumerate(shapes) if bias or i % 4 < 2]
    x, batch_sizes, rows = torch.randn(6, 3, 3), None, 3
    if draw(False, True):
        packed = pack_padded_sequence(x, torch.tensor([6, 5, 4]))
        x, batch_sizes = packed.data, packed.batch_sizes
    shape = layers * config.directions, rows, 4
    h0, c0 = torch.randn(shape), torch.randn(shape) if mode == "LSTM" else None
    return config, x, weights, h0, c0, batch_sizes


def differentiated(results, tensors, retain_graph=False):
    upstream = [torch.linspace(-1, 1, r.numel()).view(r.shape).to(r.dtype) for r in results]
    return torch.autograd.grad(results, tensors, upstream, retain_graph=retain_graph)


@pytest.mark.parametrize("block", range(4))
def test_results_and_gradients_equal_torch(block):
    for seed in range(block * 25, block * 25 + 25):
        config, x, weights, h0, c0, batch_sizes = case(seed)
        tensors = [t.requires_grad_() for t in (x, h0, c0, *weights) if t is not None]
        bias = len(weights) == len(config.shapes())
        expected = reference(config, x, weights, bias, h0, c0, batch_sizes, 0.0, False)
        found = _cuda.run(config, x, weights, h0, c0, batch_sizes, torch.float32, 0.0)
        assert (found[2] is None) == (c0 is None)
        expected, found = ([r for r in all if r is not None] for all in (expected, found))
        for a, b in zip(found, expected):
            assert a.shape == b.shape and difference(a, b) < 1e-5, config
        gradients = differentiated(expected, tensors)
        for again in (True, False):  # the second backward pass repeats the forward pass
            for a, b in zip(differentiated(found, tensors, again), gradients):
                assert difference(a, b) < 1e-5, config
        with torch.no_grad():
            plain = _cuda.run(config, x, weights, h0, c0, batch_sizes, torch.float32, 0.0)
        assert torch.equal(plain[0], found[0]) and not plain[0].requires_grad


def test_some_gradients_alone():
    for seed in range(20):
        config, x, weights, h0, c0, batch_sizes = case(seed)
        bias = len(weights) == len(config.shapes())
        for wanted in (x, h0, weights[1]):
            wanted.requires_grad_()
            expected = reference(config, x, weights, bias, h0, c0, batch_sizes, 0.0, False)
            found = _cuda.run(config, x, weights, h0, c0, batch_sizes, torch.float32, 0.0)
            for number in (0, 1):  # of the outputs or of the last state
                (a,) = differentiated(found[number : number + 1], [wanted])
                (b,) = differentiated(expected[number : number + 1], [wanted])
                assert difference(a, b) < 1e-5, config
                found = _cuda.run(config, x, weights, h0, c0, batch_sizes, torch.float32, 0.0)
                expected = reference(config, x, weights, bias, h0, c0, batch_sizes, 0.0, False)
            wanted.requires_grad_(False)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_16_bit_types_come_back(dtype):
    for seed in range(20):
        config, x, weights, h0, c0, batch_sizes = case(seed)
        bias = len(weights) == len(config.shapes())
        expected = reference(config, x, weights, bias, h0, c0, batch_sizes, 0.0, False)
        given = [t.to(dtype) for t in weights]
        found = _cuda.run(config, x.to(dtype), given, h0, c0, batch_sizes, dtype, 0.0)
        for a, b in zip(found, expected):
            if a is not None:
                assert a.dtype == dtype and difference(a.float(), b) < 0.05, config


def test_dropout_lies_between_layers(monkeypatch):
    calls = itertools.count()

    def dropout(x, p):
        assert p == 0.25
        next(calls)
        return x

    monkeypatch.setattr(torch.nn.functional, "dropout", dropout)
    for seed in range(20):
        config, x, weights, h0, c0, batch_sizes = case(seed)
        bias = len(weights) == len(config.shapes())
        expected = reference(config, x, weights, bias, h0, c0, batch_sizes, 0.0, False)
        before = next(calls)
        found = _cuda.run(config, x, weights, h0, c0, batch_sizes, torch.float32, 0.25)
        assert next(calls) - before == config.num_layers
        for a, b in zip(found, expected):
            assert (a is None and b is None) or difference(a, b) < 1e-5, config


def test_what_cannot_run_has_a_reason(monkeypatch):
    config, x, weights, h0, c0, batch_sizes = case(0)
    tensors = [x, h0, *weights]

    def why(*rest):
        return _cuda.obstacle(config, x, batch_sizes, *rest)

    assert why(tensors, torch.float32) is None
    assert "float64" in why(tensors, torch.float64)
    assert "other types" in why([*tensors, h0.double()], torch.float32)
    monkeypatch.setattr(StandIn, "is_persistent", False)
    _cuda._refusal.cache_clear()
    assert config.mode in why(tensors, torch.float32)
    monkeypatch.setattr(_cuda, "_ENABLED", False)
    assert "DRNN_TORCH_CUDA" in why(tensors, torch.float32)


def test_without_a_gpu_the_error_says_so(monkeypatch):
    if torch.cuda.is_available():
        pytest.skip("this machine has a GPU")
    monkeypatch.undo()
    with pytest.raises(RuntimeError, match="NVIDIA"):
        drnn._drnn.CudaRecurrence(0, "LSTM", 3, 4, 1, False, 5, 2, "float16", True)
