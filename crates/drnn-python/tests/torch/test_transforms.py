"""torch.func's transforms, and many networks at once."""

import copy

import pytest

# The folder of these tests is called torch too, hence the name of a module inside.
pytest.importorskip("torch.nn", reason="PyTorch is not installed: pip install torch")

import torch
from cases import OURS, Case, difference
from torch import nn
from torch.func import functional_call, grad, stack_module_state, vmap
from torch.nn.utils.rnn import pack_padded_sequence

import drnn.torch


class Tagger(nn.Module):
    def __init__(self, kind="LSTM", **options):
        super().__init__()
        self.embedding = nn.Embedding(9, 4)
        self.recurrent = getattr(nn, kind)(4, 6, 2, **options)
        self.output = nn.Linear(6, 3)
        self.register_buffer("scale", torch.rand(()))

    def forward(self, tokens):
        return self.scale * self.output(self.recurrent(self.embedding(tokens))[0])


@pytest.mark.parametrize("kind", list(OURS))
@pytest.mark.parametrize("own", [False, True])
def test_an_ensemble_equals_its_networks(kind, own):
    torch.manual_seed(1)
    models = [Tagger(kind) for _ in range(4)]
    ensemble = drnn.torch.Ensemble(models)
    assert len(ensemble) == 4 and isinstance(ensemble.networks.recurrent, OURS[kind])
    tokens = torch.randint(9, (4, 7, 5) if own else (7, 5))
    output = ensemble(tokens, in_dims=(0,)) if own else ensemble(tokens)
    output.square().flatten(1).mean(1).sum().backward()
    for e, model in enumerate(models):
        x = tokens[e] if own else tokens
        expected = model(x)
        assert difference(output[e], expected) < 1e-5
        expected.square().mean().backward()
        gradients = dict(ensemble.networks.named_parameters())
        for name, parameter in model.named_parameters():
            assert difference(gradients[name].grad[e], parameter.grad) < 1e-5, name
        one = ensemble[e]
        assert torch.equal(one.scale, model.scale)
        assert all(torch.equal(a, b) for a, b in zip(one.parameters(), model.parameters()))
        assert torch.equal(one(x), output[e])
    with pytest.raises(IndexError):
        ensemble[4]


def test_an_ensemble_trains_as_its_networks_do():
    torch.manual_seed(2)
    models = [Tagger() for _ in range(3)]
    ensemble = drnn.torch.Ensemble(models)
    tokens, target = torch.randint(9, (6, 4)), torch.randn(6, 4, 3)
    together = torch.optim.Adam(ensemble.parameters(), 0.05)
    for _ in range(6):
        together.zero_grad()
        (ensemble(tokens) - target).square().flatten(1).sum(1).sum().backward()
        norms = ensemble.clip_grad_norm_(1.0)
        together.step()
    for e, model in enumerate(models):
        alone = torch.optim.Adam(model.parameters(), 0.05)
        for _ in range(6):
            alone.zero_grad()
            (model(tokens) - target).square().sum().backward()
            norm = nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            alone.step()
        assert float(norms[e]) == pytest.approx(float(norm), rel=1e-3)
        assert difference(ensemble[e](tokens), model(tokens)) < 1e-3


def test_an_ensemble_in_files_modes_and_with_dropout():
    ensemble = drnn.torch.Ensemble([Tagger(dropout=0.5) for _ in range(3)])
    tokens = torch.randint(9, (8, 16))
    assert not torch.equal(ensemble(tokens), ensemble(tokens)), "dropout is on"
    same = drnn.torch.Ensemble([ensemble[0]] * 2)
    output = same(tokens)
    assert not torch.equal(output[0], output[1]), "networks drop units of their own"
    ensemble.eval()
    expected = ensemble(tokens)
    other = drnn.torch.Ensemble([Tagger(dropout=0.5) for _ in range(3)]).eval()
    other.load_state_dict(ensemble.state_dict())
    assert torch.equal(other(tokens), expected)
    assert torch.equal(copy.deepcopy(ensemble)(tokens), expected)
    with torch.no_grad():
        assert torch.equal(ensemble(tokens), expected)
    models = [Tagger(), Tagger().eval()]
    with pytest.raises(ValueError, match="same mode"):
        drnn.torch.Ensemble(models)
    with pytest.raises(ValueError, match="module 1"):
        drnn.torch.Ensemble([nn.LSTM(2, 3), nn.LSTM(2, 4)])
    with pytest.raises(ValueError, match="at least one"):
        drnn.torch.Ensemble([])


@pytest.mark.parametrize("block", range(4))
def test_vmap_over_parameters_input_and_states(block):
    """Every choice of what is mapped, random modules, against one call after another."""
    for seed in range(block * 15, block * 15 + 15):
        case = Case(seed, delays=seed % 3 == 0)
        if case.form.startswith("packed"):
            continue
        size = 3
        modules = [copy.deepcopy(case.ours) for _ in range(size)]
        for module in modules[1:]:
            module.reset_parameters()
        parameters, _ = stack_module_state(modules)
        xs = torch.randn(size, *case.x.shape, requires_grad=True)
        over_weights, over_x = [(True, False), (False, True), (True, True)][seed % 3]
        given = parameters if over_weights else dict(modules[0].named_parameters())
        x = xs if over_x else xs[0]

        def call(parameters, x):
            return functional_call(case.ours, parameters, (x,))[0]

        dims = (0 if over_weights else None, 0 if over_x else None)
        found = vmap(call, in_dims=dims)(given, x)
        weights = torch.randn_like(found)
        inputs = [xs, *given.values()]
        gradients = torch.autograd.grad((found * weights).sum(), inputs)
        one_by_one = [
            call(
                {name: p[e] for name, p in given.items()} if over_weights else given,
                x[e] if over_x else x,
            )
            for e in range(size)
        ]
        expected = torch.stack(one_by_one)
        assert difference(found, expected) < 1e-5, str(case)
        for a, b in zip(gradients, torch.autograd.grad((expected * weights).sum(), inputs)):
            assert difference(a, b) < 1e-5, str(case)


@pytest.mark.parametrize("kind", list(OURS))
def test_gradients_of_every_sample(kind):
    module = OURS[kind](3, 5, 2)
    parameters = {name: p.detach() for name, p in module.named_parameters()}
    xs = torch.randn(4, 6, 1, 3)

    def loss(parameters, x):
        return functional_call(module, parameters, (x,))[0].square().sum()

    found = vmap(grad(loss, argnums=(0, 1)), in_dims=(None, 0))(parameters, xs)
    for e, x in enumerate(xs):
        x = x.clone().requires_grad_()
        expected = torch.autograd.grad(
            loss(dict(module.named_parameters()), x), [x, *module.parameters()]
        )
        assert difference(found[1][e], expected[0]) < 1e-5
        for name, value in zip(parameters, expected[1:]):
            assert difference(found[0][name][e], value) < 1e-5, name


def test_gradient_of_an_input_that_networks_share():
    """Each network has a gradient of its own, inside of vmap; outside they add up."""
    modules = [drnn.torch.GRU(3, 5) for _ in range(3)]
    parameters, _ = stack_module_state(modules)
    x = torch.randn(6, 2, 3)

    def loss(parameters, x):
        return functional_call(modules[0], parameters, (x,))[0].square().sum()

    each = vmap(grad(loss, argnums=1), in_dims=(0, None))(parameters, x)
    x.requires_grad_()
    vmap(loss, in_dims=(0, None))(parameters, x).sum().backward()
    assert difference(x.grad, each.sum(0)) < 1e-5
    for found, module in zip(each, modules):
        (expected,) = torch.autograd.grad(module(x)[0].square().sum(), x)
        assert difference(found, expected) < 1e-5


@pytest.mark.parametrize("inner", [1, 3])
def test_nested_vmap_and_vmap_in_a_compiled_function(inner):
    modules = [[drnn.torch.LSTM(2, 4) for _ in range(inner)] for _ in range(2)]
    rows = [stack_module_state(row)[0] for row in modules]
    parameters = {name: torch.stack([row[name] for row in rows]).detach() for name in rows[0]}
    base, x = modules[0][0], torch.randn(5, 2, 2)

    def call(parameters, x):
        return functional_call(base, parameters, (x,))[0]

    for own, dims in [(False, None), (True, 0)]:
        xs = torch.randn(2, 5, 2, 2) if own else x
        found = vmap(vmap(call, in_dims=(0, None)), in_dims=(0, dims))(parameters, xs)
        for i in range(2):
            for j in range(inner):
                expected = modules[i][j](xs[i] if own else xs)[0]
                assert difference(found[i, j], expected) < 1e-5
    one = {name: p[0] for name, p in parameters.items()}
    torch._dynamo.reset()
    compiled = torch.compile(lambda p: vmap(call, in_dims=(0, None))(p, x), backend="aot_eager")
    assert torch.allclose(compiled(one), vmap(call, in_dims=(0, None))(one, x), atol=1e-6)


def test_packed_sequences_in_an_ensemble():
    class Packs(nn.Module):
        def __init__(self):
            super().__init__()
            self.lstm = nn.LSTM(3, 5)

        def forward(self, x):
            return self.lstm(pack_padded_sequence(x, torch.tensor([6, 4, 2])))[0].data

    models, x = [Packs() for _ in range(3)], torch.randn(6, 3, 3, requires_grad=True)
    ensemble = drnn.torch.Ensemble(models)
    output = ensemble(x)
    expected = torch.stack([model(x) for model in models])
    assert difference(output, expected) < 1e-5
    gradients = [torch.autograd.grad(y.square().sum(), x)[0] for y in (output, expected)]
    assert difference(*gradients) < 1e-5
    with pytest.raises(TypeError, match="pack inside"):
        ensemble(pack_padded_sequence(x, torch.tensor([6, 4, 2])))


def test_wide_networks_without_gradients():
    """Alone they would use torch's operator, which cannot be mapped."""
    models = [nn.LSTM(3, 130) for _ in range(2)]
    ensemble, x = drnn.torch.Ensemble(models).eval(), torch.randn(4, 2, 3)
    with torch.no_grad():
        output, _ = ensemble(x)
        assert all(difference(y, model(x)[0]) < 1e-5 for y, model in zip(output, models))


def test_what_cannot_be_mapped_is_an_error():
    ensemble = drnn.torch.Ensemble([nn.LSTM(3, 5).double() for _ in range(2)])
    with pytest.raises(RuntimeError, match="float64, and .* use float32 on the CPU"):
        ensemble(torch.randn(4, 2, 3, dtype=torch.float64))


def test_not_a_number_in_a_lane_is_torchs_business():
    ensemble = drnn.torch.Ensemble([nn.GRU(2, 3) for _ in range(3)])
    with torch.no_grad():
        ensemble.networks.weight_ih_l0[1, 0, 0] = float("nan")
    output, _ = ensemble(torch.randn(4, 2, 2))
    assert output[1].isnan().any() and not output[[0, 2]].isnan().any()
    output[[0, 2]].sum().backward()
    assert not ensemble.networks.weight_hh_l0.grad[[0, 2]].isnan().any()
