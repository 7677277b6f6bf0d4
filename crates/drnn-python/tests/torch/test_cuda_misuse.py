"""Calls of the kernels for GPUs that must not reach them, without a GPU: by the stand-in."""

import pytest

pytest.importorskip("torch.nn", reason="PyTorch is not installed: pip install torch")

import torch
from cases import difference
from stand_in import MODULES, StandIn
from torch import nn
from torch.func import functional_call, grad, vmap
from torch.nn.utils.rnn import PackedSequence, pack_padded_sequence

import drnn.torch
from drnn.torch import _modules
from drnn.torch._config import Config

pytestmark = pytest.mark.usefixtures("stand_in")


def test_replaced_parameters_of_other_sizes_are_errors(on_gpu):
    x = torch.randn(6, 2, 3)
    for kind, options in MODULES:
        module = getattr(drnn.torch, kind)(3, 4, **options)
        for name, parameter in list(module.named_parameters()):
            smaller = {name: parameter.detach()[:-1]}
            with pytest.raises(RuntimeError, match="Expected parameters of sizes"):
                functional_call(module, smaller, (x,))
            stacked = {name: parameter.detach()[:-1].expand(2, *parameter[:-1].shape)}
            with pytest.raises(RuntimeError, match="Expected parameters of sizes"):
                vmap(lambda given: functional_call(module, given, (x,)))(stacked)
    module = drnn.torch.LSTM(3, 4)
    output, _ = module(x)
    module.weight_hh_l0.data = torch.zeros(4, 4)
    with pytest.raises(RuntimeError, match="Expected parameters of sizes"):
        output.sum().backward()


def test_packed_sequences_in_an_order_of_other_length_are_errors(on_gpu):
    packed = PackedSequence(torch.randn(5, 3), torch.tensor([2, 2, 1]), torch.arange(3))
    with pytest.raises(RuntimeError, match="hidden size"):
        drnn.torch.GRU(3, 4)(packed, torch.zeros(1, 3, 4))


@pytest.mark.parametrize("kind", ["LSTM", "GRU"])
def test_second_derivatives_are_errors_or_torchs(kind, on_gpu):
    module, x = getattr(drnn.torch, kind)(3, 4), torch.randn(6, 2, 3, requires_grad=True)

    def penalty(loss):
        (d_x,) = torch.autograd.grad(loss, x, create_graph=True)
        return d_x.square().sum()

    losses = [lambda y: y.sum(), lambda y: y.square().sum()]
    for loss in losses:  # a gradient from above that needs none itself, and one that does
        mixed = penalty(loss(module(x)[0])) + loss(module(x)[0])
        with pytest.raises(RuntimeError, match="no second derivatives on a GPU"):
            mixed.backward()

        def first(x):
            return grad(lambda x: loss(module(x)[0]))(x).square().sum()

        with pytest.raises(RuntimeError, match="no second derivatives on a GPU"):
            torch.autograd.grad(first(x), x)
        with torch.backends.cudnn.flags(enabled=False):
            with pytest.warns(UserWarning, match="cuDNN is switched off"):
                _modules._WARNED.clear()
                value = penalty(loss(module(x)[0]))
            (found,) = torch.autograd.grad(value, x)
        plain = getattr(nn, kind)(3, 4)
        plain.load_state_dict(module.state_dict())
        (expected,) = torch.autograd.grad(penalty(loss(plain(x)[0])), x)
        assert torch.equal(found, expected)


def test_a_batch_that_is_mostly_padding_is_left_to_torch(on_gpu):
    lengths = torch.tensor([200] + [1] * 40)
    packed = pack_padded_sequence(torch.randn(200, 41, 3), lengths)
    module = drnn.torch.LSTM(3, 4)
    module(packed)[0].data.sum().backward()
    assert not StandIn.saved
    module(pack_padded_sequence(torch.randn(200, 2, 3), lengths[:2]))[0].data.sum().backward()
    assert len(StandIn.saved) == 1
    vmap(lambda x: module(packed._replace(data=x))[0].data)(packed.data.expand(2, -1, -1))
    assert len(StandIn.saved) == 3, "torch's operator cannot be mapped"


@pytest.mark.parametrize("wrong", ["weights", "h0", "c0"])
def test_operators_refuse_other_types(wrong, operators):
    config = Config("LSTM", 3, 4, 1, False, 0, 0, False)
    given = {
        "weights": [torch.randn(shape) for shape in config.shapes()],
        "h0": torch.zeros(1, 2, 4),
        "c0": torch.zeros(1, 2, 4),
    }
    states = given["h0"], given["c0"]
    x, text = torch.randn(5, 2, 3), config.encode()
    torch.ops.drnn.cuda_forward(x, given["weights"], *states, None, text, True)
    if wrong == "weights":
        given["weights"][1] = given["weights"][1].double()
    else:
        given[wrong] = given[wrong].half()
    with pytest.raises(RuntimeError, match="of torch.float32, got"):
        tensors = given["weights"], given["h0"], given["c0"]
        torch.ops.drnn.cuda_forward(x, *tensors, None, text, True)


def test_the_default_type_is_not_that_of_states(operators):
    module, x = drnn.torch.LSTM(3, 4), torch.randn(6, 2, 3)
    expected = module(x)[0]
    torch.set_default_dtype(torch.float64)
    try:
        found = torch.compile(module, fullgraph=True, backend="aot_eager")(x)[0]
        loss = found.float().square().sum()
        loss.backward()
    finally:
        torch.set_default_dtype(torch.float32)
    assert difference(found, expected) < 1e-6
