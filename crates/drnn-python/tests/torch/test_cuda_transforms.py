"""`torch.func` and ensembles on a GPU, without one: by the stand-in for the kernels."""

import pytest

pytest.importorskip("torch.nn", reason="PyTorch is not installed: pip install torch")

import torch
from cases import difference
from stand_in import MODULES, StandIn, differentiated
from torch import nn
from torch.func import functional_call, grad, stack_module_state, vmap
from torch.nn.utils.rnn import PackedSequence

import drnn.torch
from drnn.torch import _cuda

pytestmark = pytest.mark.usefixtures("stand_in")


@pytest.mark.parametrize("over_weights, over_x", [(True, False), (False, True), (True, True)])
@pytest.mark.parametrize("kind, options", MODULES)
def test_vmap_equals_one_network_after_another(kind, options, over_weights, over_x, on_gpu):
    torch.manual_seed(3)
    modules = [getattr(drnn.torch, kind)(3, 4, **options) for _ in range(5)]
    parameters, _ = stack_module_state(modules)
    given = parameters if over_weights else dict(modules[0].named_parameters())
    xs = torch.randn(5, 6, 5, 3, requires_grad=True)
    x = xs if over_x else xs[0]

    def call(parameters, x):
        output, last = functional_call(modules[0], parameters, (x,))
        return output, *(last if isinstance(last, tuple) else [last])

    dims = 0 if over_weights else None, 0 if over_x else None
    found = vmap(call, in_dims=dims)(given, x)
    assert len(StandIn.saved) == 5
    one_by_one = [
        call({k: p[e] for k, p in given.items()} if over_weights else given, x[e] if over_x else x)
        for e in range(5)
    ]
    expected = [torch.stack(each) for each in zip(*one_by_one)]
    tensors = [xs, *given.values()]
    gradients = differentiated(found, tensors, retain_graph=True)
    wanted = differentiated(expected, tensors)
    for a, b in zip([*found, *gradients], [*expected, *wanted]):
        assert a.shape == b.shape and difference(a, b) < 1e-6
    count = len(StandIn.saved)
    again = differentiated(found, tensors)
    assert len(StandIn.saved) == count + 5, "what is saved was used up, so the pass is repeated"
    assert all(torch.equal(a, b) for a, b in zip(gradients, again))


@pytest.mark.parametrize("kind", ["LSTM", "GRU"])
def test_gradients_of_samples(kind, on_gpu):
    module = getattr(drnn.torch, kind)(3, 4, 2)
    parameters = {name: p.detach() for name, p in module.named_parameters()}
    xs = torch.randn(4, 6, 2, 3)

    def loss(parameters, x):
        return functional_call(module, parameters, (x,))[0].square().sum()

    alone = grad(loss, argnums=(0, 1))
    found = vmap(alone, in_dims=(None, 0))(parameters, xs)
    for e, x in enumerate(xs):
        x = x.clone().requires_grad_()
        d_x, *expected = torch.autograd.grad(module(x)[0].square().sum(), [x, *module.parameters()])
        assert difference(found[1][e], d_x) < 1e-6
        for name, value in zip(parameters, expected):
            assert difference(found[0][name][e], value) < 1e-6, name
            assert difference(alone(parameters, x)[0][name], value) < 1e-6, name


class Packs(nn.Module):
    """Sequences of three lengths, packed, of vectors that each network has its own of."""

    def __init__(self, **options):
        super().__init__()
        self.embedding, self.rnn = nn.Embedding(9, 3), nn.LSTM(3, 4, **options)

    def forward(self, tokens):
        batch_sizes = torch.tensor([3, 3, 2, 2, 1, 1])
        return self.rnn(PackedSequence(self.embedding(tokens), batch_sizes))[0].data


@pytest.mark.parametrize("options", [{}, {"num_layers": 2, "bidirectional": True}])
def test_ensembles_of_packed_sequences(options, on_gpu):
    torch.manual_seed(4)
    models = [drnn.torch.replace(Packs(**options)) for _ in range(3)]
    ensemble, tokens = drnn.torch.Ensemble(models), torch.randint(9, (12,))
    output = ensemble(tokens)
    output.square().sum().backward()
    for e, model in enumerate(models):
        expected = model(tokens)
        assert difference(output[e], expected) < 1e-6
        expected.square().sum().backward()
        for name, parameter in ensemble.networks.named_parameters():
            alone = model.get_parameter(name).grad
            assert difference(parameter.grad[e], alone) < 1e-6, name


def test_networks_of_an_ensemble_drop_units_of_their_own(on_gpu):
    model = drnn.torch.LSTM(3, 8, 2, dropout=0.5)
    ensemble, x = drnn.torch.Ensemble([model] * 3), torch.randn(6, 2, 3)
    output, _ = ensemble(x)
    assert not torch.equal(output[0], output[1])
    output, (h, c) = ensemble.eval()(x)
    assert torch.equal(output[0], output[1]) and c.shape == (3, 2, 2, 8)


def test_what_has_no_kernel_cannot_be_mapped(on_gpu, monkeypatch):
    monkeypatch.setattr(_cuda, "_FORMATS", {torch.float16: "float16"})
    with pytest.raises(RuntimeError, match="use autocast, and .* cannot be mapped"):
        drnn.torch.Ensemble([nn.LSTM(3, 4)] * 2)(torch.randn(6, 2, 3))
