"""A stand-in for drnn's kernels for GPUs, which reads and writes the same addresses in the CPU's
memory, and fixtures that put it in their place."""

import concurrent.futures
import contextlib
import ctypes

import pytest
import torch
from torch.nn.utils.rnn import PackedSequence, pack_padded_sequence, pad_packed_sequence

from drnn.torch import _cuda, _cuda_ops, _cuda_packing, _cuda_tickets, _modules
from drnn.torch._config import Config
from drnn.torch._reference import reference

TYPES = {"float32": torch.float32, "float16": torch.float16, "bfloat16": torch.bfloat16}
MODULES = [
    ("LSTM", dict(num_layers=2)),
    ("GRU", dict(bidirectional=True, bias=False, batch_first=True)),
    ("RNN", dict(delay=2)),
    ("GRU", dict(num_layers=2, delay=2, padding="look-ahead")),
]


def at(address, shape, dtype=torch.float32):
    """A tensor over memory of somebody else's; None at address 0."""
    if address == 0:
        return None
    values = torch.Size(shape).numel()
    size = values * torch.empty(0, dtype=dtype).element_size()
    memory = (ctypes.c_byte * size).from_address(address)
    return torch.frombuffer(memory, dtype=dtype, count=values).view(shape)


class StandIn:
    """`CudaRecurrence` by torch's operators. What it saves is a number, which a backward pass
    erases."""

    is_persistent, workspace_bytes, saved = True, 64, {}

    def __init__(self, device, mode, q, n, layers, both, steps, rows, format, training):
        if steps * rows > 1 << 20:
            raise ValueError(f"{steps} steps of {rows} sequences are too many for one call")
        self.config = Config(mode, q, n, layers, both, 0, 0, False)
        self.steps, self.rows, self.dtype = steps, rows, TYPES[format]
        self.saved_bytes = 16 if training else 0

    def warm_up(self):
        pass

    def tensors(self, addresses):
        """Of all parameters; None for biases that are not there."""
        shapes = self.config.shapes()
        if len(addresses) == len(shapes) // 2:
            addresses = [a for w in zip(addresses[::2], addresses[1::2]) for a in (*w, 0, 0)]
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

    def forward(self, stream, parameters, arrays):
        x, h0, c0, lengths, to_y, to_h, to_c, saved, workspace = arrays
        assert workspace != 0
        x = at(x, (self.steps, self.rows, self.config.input_size), self.dtype).clone()
        weights, (h0, c0) = self.tensors(parameters), self.states(h0, c0)
        lengths = at(lengths, (self.rows,), torch.int64)
        if lengths is not None:
            ended = torch.arange(self.steps).unsqueeze(1) >= lengths
            x[ended] = 0  # is not read, and may be NaN
        zeros = torch.zeros(
            self.config.num_layers * self.config.directions, self.rows, self.config.hidden_size
        )
        h0 = zeros if h0 is None else h0.clone()
        if self.config.has_cell_state:
            c0 = zeros if c0 is None else c0.clone()
        given = x, h0, c0, weights, lengths
        with torch.no_grad(), torch.autocast("cpu", enabled=False):
            y, h, c = self.results(*given)
        at(to_y, y.shape, self.dtype).copy_(y)
        h_n, c_n = self.states(to_h, to_c)
        h_n.copy_(h)
        if c is not None:
            c_n.copy_(c)
        assert (saved != 0) == (self.saved_bytes > 0)
        if saved:
            number = 1 + len(StandIn.saved)
            StandIn.saved[number] = given
            at(saved, (2,), torch.int64).fill_(number)

    def backward(self, *arguments):
        """In a thread of its own: autograd is switched off for the one that computes an
        operator."""
        with concurrent.futures.ThreadPoolExecutor() as pool:
            pool.submit(self.differentiate, *arguments).result()

    def differentiate(self, stream, parameters, into, arrays):
        d_y, d_h, d_c, d_x, d_h0, d_c0, saved, workspace = arrays
        assert workspace != 0
        mark = at(saved, (2,), torch.int64)
        x, h0, c0, _, lengths = StandIn.saved[int(mark[0])]
        mark.fill_(-1)
        weights = self.tensors(parameters)
        inputs = [x.float(), h0, c0, *weights]
        inputs = [None if t is None else t.detach().clone().requires_grad_() for t in inputs]
        x, h0, c0, *weights = inputs
        with torch.enable_grad(), torch.autocast("cpu", enabled=False):
            y, h, c = self.results(x, h0, c0, weights, lengths)
        d_h, d_c = self.states(d_h, d_c)
        pairs = [(y, at(d_y, y.shape, self.dtype)), (h, d_h), (c, d_c)]
        if d_y and lengths is not None:  # what stands after the end is not read, and may be NaN
            ended = torch.arange(self.steps).unsqueeze(1) >= lengths
            pairs[0] = y, torch.where(ended.unsqueeze(2), 0, pairs[0][1])
        pairs = [(r, d.to(r.dtype)) for r, d in pairs if r is not None and d is not None]
        variables = [t for t in inputs if t is not None]
        results, upstream = zip(*pairs)
        found = iter(torch.autograd.grad(results, variables, upstream, allow_unused=True))
        gradients = [None if t is None else next(found) for t in inputs]
        d_h0, d_c0 = self.states(d_h0, d_c0)
        targets = [at(d_x, x.shape, self.dtype), d_h0, d_c0]
        targets += self.tensors(into)
        for target, gradient in zip(targets, gradients):
            if target is not None:
                target.copy_(torch.zeros_like(target) if gradient is None else gradient)


@pytest.fixture
def stand_in(monkeypatch):
    def clear():
        for cache in (_cuda.loaded_plan, _cuda._refusal, _cuda._refusal_of_batch):
            cache.cache_clear()
        for known in (_cuda_packing._KNOWN, _cuda_packing._CAPTURED, _cuda_tickets._SAVED):
            known.clear()

    clear()
    StandIn.saved = {}
    monkeypatch.setattr(_cuda, "CudaRecurrence", StandIn)
    monkeypatch.setattr(_cuda, "device_guard", lambda device: contextlib.nullcontext())
    monkeypatch.setattr(_cuda, "raw_stream", lambda device: 0)
    alone = lambda device, count: contextlib.nullcontext([0] * count)
    monkeypatch.setattr(_cuda, "side_streams", alone)
    monkeypatch.setattr(_cuda, "is_capturing", lambda: False)
    monkeypatch.setattr(_cuda, "_ENABLED", True)
    monkeypatch.setattr(_cuda, "_FEWEST_STEPS", 0)
    monkeypatch.setattr(_cuda, "_FORMATS", {t: name for name, t in TYPES.items()})
    yield
    clear()


@pytest.fixture
def operators(monkeypatch):
    """The operators of torch.compile for the CPU's memory, and modules that take it for a GPU's."""
    monkeypatch.setattr(_cuda, "is_on_gpu", lambda x: True)
    with torch.library._scoped_library("drnn", "FRAGMENT") as library:
        for name, work in _cuda_ops.PASSES.items():
            library.impl(name, work, "CPU")
        yield
    torch._dynamo.reset()


@pytest.fixture
def on_gpu(monkeypatch):
    """Modules that take the CPU's memory for a GPU's."""
    monkeypatch.setattr(_cuda, "is_on_gpu", lambda x: True)
    _modules._WARNED.clear()


def differentiated(results, tensors, retain_graph=False):
    upstream = [torch.linspace(-1, 1, r.numel()).view(r.shape).to(r.dtype) for r in results]
    return torch.autograd.grad(results, tensors, upstream, retain_graph=retain_graph)
