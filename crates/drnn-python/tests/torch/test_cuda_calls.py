"""What `drnn.torch` hands to the kernels for GPUs and makes of their results, without a GPU: by a
stand-in for the kernels. These are tested in crates/drnn-cuda, and all together on a GPU in
test_cuda.py."""

import copy
import itertools

import pytest

pytest.importorskip("torch.nn", reason="PyTorch is not installed: pip install torch")

import torch
from cases import difference
from stand_in import MODULES, StandIn, differentiated
from torch.nn.utils.rnn import PackedSequence, pack_padded_sequence

import drnn.torch
from drnn._drnn import CudaRecurrence
from drnn.torch import _cuda, _cuda_function, _cuda_ops, _cuda_packing, _modules
from drnn.torch._config import Config
from drnn.torch._reference import reference

pytestmark = pytest.mark.usefixtures("stand_in")

MODES = ["LSTM", "GRU", "RNN_TANH", "RNN_RELU"]


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


@pytest.mark.parametrize("block", range(4))
def test_results_and_gradients_equal_torch(block):
    for seed in range(block * 25, block * 25 + 25):
        config, x, weights, h0, c0, batch_sizes = case(seed)
        tensors = [t.requires_grad_() for t in (x, h0, c0, *weights) if t is not None]
        bias = len(weights) == len(config.shapes())
        expected = reference(config, x, weights, bias, h0, c0, batch_sizes, 0.0, False)
        found = _cuda_function.run(config, x, weights, h0, c0, batch_sizes, torch.float32, 0.0)
        assert (found[2] is None) == (c0 is None)
        expected, found = ([r for r in all if r is not None] for all in (expected, found))
        for a, b in zip(found, expected):
            assert a.shape == b.shape and difference(a, b) < 1e-5, config
        gradients = differentiated(expected, tensors)
        for again in (True, False):  # the second backward pass repeats the forward pass
            for a, b in zip(differentiated(found, tensors, again), gradients):
                assert difference(a, b) < 1e-5, config
        with torch.no_grad():
            plain = _cuda_function.run(config, x, weights, h0, c0, batch_sizes, torch.float32, 0.0)
        assert torch.equal(plain[0], found[0]) and not plain[0].requires_grad


def test_some_gradients_alone():
    for seed in range(20):
        config, x, weights, h0, c0, batch_sizes = case(seed)
        bias = len(weights) == len(config.shapes())
        for wanted in (x, h0, weights[1]):
            wanted.requires_grad_()
            expected = reference(config, x, weights, bias, h0, c0, batch_sizes, 0.0, False)
            found = _cuda_function.run(config, x, weights, h0, c0, batch_sizes, torch.float32, 0.0)
            for number in (0, 1):  # of the outputs or of the last state
                (a,) = differentiated(found[number : number + 1], [wanted])
                (b,) = differentiated(expected[number : number + 1], [wanted])
                assert difference(a, b) < 1e-5, config
                found = _cuda_function.run(
                    config, x, weights, h0, c0, batch_sizes, torch.float32, 0.0
                )
                expected = reference(config, x, weights, bias, h0, c0, batch_sizes, 0.0, False)
            wanted.requires_grad_(False)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_16_bit_types_come_back(dtype):
    for seed in range(20):
        config, x, weights, h0, c0, batch_sizes = case(seed)
        bias = len(weights) == len(config.shapes())
        expected = reference(config, x, weights, bias, h0, c0, batch_sizes, 0.0, False)
        given = [t.to(dtype) for t in weights]
        found = _cuda_function.run(config, x.to(dtype), given, h0, c0, batch_sizes, dtype, 0.0)
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
        found = _cuda_function.run(config, x, weights, h0, c0, batch_sizes, torch.float32, 0.25)
        assert next(calls) - before == config.num_layers
        for a, b in zip(found, expected):
            assert (a is None and b is None) or difference(a, b) < 1e-5, config


def test_what_cannot_run_has_a_reason(monkeypatch):
    config, x, weights, h0, c0, batch_sizes = case(0)
    tensors = [x, h0, *weights]

    def why(tensors, dtype, autocast=False):
        return _cuda.obstacle(config, x, tensors, dtype, autocast, False)

    assert why(tensors, torch.float32) is None
    assert "float64" in why(tensors, torch.float64)
    assert why([*tensors, h0.double()], torch.float32) == "", "torch has an error for that"
    assert why([*tensors, h0.half()], torch.float32) == ""
    assert why([*tensors, h0.half()], torch.float32, autocast=True) is None
    assert "float64" in why([*tensors, h0.double()], torch.float32, autocast=True)
    assert why([*tensors, h0.to("meta")], torch.float32, autocast=True) == ""
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
        CudaRecurrence(0, "LSTM", 3, 4, 1, False, 5, 2, "float16", True)


def gradients_of(module, *inputs):
    """Results of a module, and gradients of parameters and of the input."""
    x = inputs[0].data if isinstance(inputs[0], PackedSequence) else inputs[0]
    output, last = module(*inputs)
    output = output.data if isinstance(output, PackedSequence) else output
    results = [output, *(last if isinstance(last, tuple) else [last])]
    return results, differentiated(results, [*module.parameters()] + [x] * x.requires_grad)


@pytest.mark.parametrize("kind, options", MODULES)
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_modules_and_compiled_modules(kind, options, dtype, operators):
    torch.manual_seed(2)
    gpu = getattr(drnn.torch, kind)(3, 4, **options)
    expected_of = copy.deepcopy(gpu).double()
    gpu = gpu.to(dtype)
    expected_of.load_state_dict(gpu.state_dict())
    # Symbolic sizes, as after the second shape.
    compiled = torch.compile(gpu, fullgraph=True, backend="aot_eager", dynamic=True)
    tolerance = 1e-5 if dtype == torch.float32 else 0.05
    for shape in [(6, 5, 3), (7, 4, 3)]:
        x = torch.randn(shape).to(dtype).requires_grad_()
        config = expected_of._config()
        steps = x.double().transpose(0, 1) if expected_of.batch_first else x.double()
        weights = [getattr(expected_of, name) for name in config.names(expected_of.bias)]
        states = expected_of._zeros(config, steps, steps.size(1))
        reference_of = reference(
            config, steps, weights, expected_of.bias, *states, None, 0.0, False
        )
        y, *last = (r for r in reference_of if r is not None)
        y = y.transpose(0, 1) if expected_of.batch_first else y
        expected = differentiated([y, *last], [*weights, x])
        for module in (gpu, compiled):
            results, found = gradients_of(module, x)
            for a, b in zip([*results, *found], [y, *last, *expected]):
                assert a.dtype == dtype and a.shape == b.shape
                assert difference(a, b) < tolerance
        with torch.no_grad():
            assert difference(compiled(x)[0], y) < tolerance


def test_autocast_converts_and_gradients_come_back(operators):
    gpu = drnn.torch.LSTM(3, 4, 2)
    compiled = torch.compile(gpu, fullgraph=True, backend="aot_eager")
    x = torch.randn(6, 5, 3, requires_grad=True)
    hx = torch.randn(2, 5, 4, requires_grad=True), torch.randn(2, 5, 4, requires_grad=True)
    for module in (gpu, compiled):
        with torch.autocast("cpu", torch.bfloat16):
            output, (h, c) = module(x, hx)
        assert output.dtype == h.dtype == c.dtype == torch.bfloat16
        found = differentiated([output, h, c], [x, *hx, *gpu.parameters()])
        assert all(gradient.dtype == torch.float32 for gradient in found)


def test_packed_modules(operators):
    for seed, options in enumerate([{}, dict(delay=2), dict(delay=2, padding="look-ahead")]):
        torch.manual_seed(seed)
        gpu = drnn.torch.GRU(3, 4, 2, **options)
        x, lengths = torch.randn(7, 4, 3), torch.tensor([5, 7, 3, 7])
        x[5:, 0] = torch.nan
        packed = pack_padded_sequence(x, lengths, enforce_sorted=False)
        compiled = torch.compile(gpu, fullgraph=True, backend="aot_eager")
        double = copy.deepcopy(gpu).double()
        config, rows = double._config(), 4
        weights = [getattr(double, name) for name in config.names(True)]
        h0, _ = double._zeros(config, packed.data.double(), rows)
        given = (
            config,
            packed.data.double(),
            weights,
            True,
            h0,
            None,
            packed.batch_sizes,
            0.0,
            False,
        )
        y, h, _ = reference(*given)
        h = h[:, packed.unsorted_indices]
        expected = differentiated([y, h], weights)
        for module in (gpu, compiled):
            results, found = gradients_of(module, packed)
            for a, b in zip([*results, *found], [y, h, *expected]):
                assert a.shape == b.shape and difference(a, b) < 1e-5, options


def test_operators_are_functions_of_their_arguments(operators):
    module = drnn.torch.LSTM(3, 4, 2)
    config = module._config()
    weights = [getattr(module, name) for name in config.names(True)]
    h0, c0 = (torch.zeros(2, 5, 4, requires_grad=True) for _ in range(2))
    packed = pack_padded_sequence(torch.randn(6, 5, 3), torch.tensor([6, 5, 5, 3, 1]))
    for x, sizes in [(torch.randn(6, 5, 3), None), (packed.data, packed.batch_sizes)]:
        given = x.requires_grad_(), weights, h0, c0, sizes, config.encode(), True
        utilities = "test_schema", "test_faketensor", "test_autograd_registration"
        torch.library.opcheck(_cuda_ops.forward.default, given, test_utils=utilities)
        with torch.no_grad():
            y, h, c, ticket = _cuda_ops.forward(*given)
            upstream = torch.ones_like(y), torch.ones_like(h), torch.ones_like(c)
            found = []
            # The second time it is used up; a copy has never been any pass's.
            for t in (ticket, ticket, ticket.clone()):
                rest = x, weights, h0, c0, sizes, t, config.encode(), True
                found.append(_cuda_ops.backward(*upstream, *rest))
        given = torch.utils._pytree.tree_map_only(
            torch.Tensor, lambda tensor: tensor.detach(), (*upstream, *rest)
        )
        torch.library.opcheck(_cuda_ops.backward.default, given, test_utils=utilities[:2])
        for again in found[1:]:
            assert all(torch.equal(a, b) for a, b in zip(found[0], again))
    assert len(StandIn.saved) > 4, "forward passes were repeated"


def test_packed_batches_are_known_again(operators, monkeypatch):
    module = drnn.torch.GRU(3, 4, 2)
    made = []
    new = _cuda_packing._new
    monkeypatch.setattr(_cuda_packing, "_new", lambda *given: made.append(1) or new(*given))
    for _ in range(3):
        packed = pack_padded_sequence(torch.randn(6, 3, 3), torch.tensor([6, 5, 2]))
        gradients_of(module, packed)
    assert len(made) == 1
    for length in range(1, 100):
        module(pack_padded_sequence(torch.randn(length, 1, 3), torch.tensor([length])))
    assert len(_cuda_packing._KNOWN) == _cuda_packing._MOST
    for sizes in [[3, 4], [3, 2], [6, 1], [0, 6], [7, -1], []]:
        with pytest.raises(Exception):
            module(PackedSequence(torch.randn(6, 3), torch.tensor(sizes, dtype=torch.int64)))


def test_results_are_no_views(operators):
    module = drnn.torch.LSTM(3, 4, 2)
    for hx in (None, (torch.randn(2, 5, 4), torch.randn(2, 5, 4))):
        output, (h, c) = module(torch.randn(6, 5, 3), hx)
        for state in (h, c):
            state.detach_()
        torch.relu_(output).sum().backward()


def test_plans_are_not_made_while_a_graph_is_captured(operators, monkeypatch):
    module, x = drnn.torch.LSTM(3, 4), torch.randn(6, 5, 3)
    module(x)
    monkeypatch.setattr(_cuda, "is_capturing", lambda: True)
    module(x)
    with pytest.raises(RuntimeError, match="run the module once before"):
        module(torch.randn(6, 4, 3))


def test_batches_that_are_too_large_are_torchs(operators, monkeypatch):
    monkeypatch.setattr(_cuda, "_LARGE_BATCH", 1000)
    _modules._WARNED.clear()
    module = drnn.torch.RNN(3, 4, delay=1)
    module(torch.randn(100, 10, 3))
    assert StandIn.saved
    StandIn.saved = {}
    with pytest.warns(UserWarning, match="too many"), torch.no_grad():
        output, _ = module(torch.randn(1 << 20, 1, 3))
    assert output.shape == (1 << 20, 1, 4) and not StandIn.saved
