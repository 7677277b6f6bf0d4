"""The modules equal torch.nn's: results, gradients, interface."""

import copy
import io
import pickle

import pytest

# The folder of these tests is called torch too, hence the name of a module inside.
pytest.importorskip("torch.nn", reason="PyTorch is not installed: pip install torch")

import torch
from cases import OURS, THEIRS, Case, difference
from torch import nn

import drnn.torch
from drnn.torch import _modules, _passes

TOLERANCE = 1e-5


def check(case, seed):
    expected = case.run(case.theirs, torch.float64, seed)
    found = case.run(case.ours, torch.float32, seed)
    assert found.keys() == expected.keys()
    for name, value in expected.items():
        assert found[name].shape == value.shape, f"{case}: {name}"
        error = difference(found[name], value)
        assert error < TOLERANCE, f"{case}: {name} differs by {error:.1e}"


@pytest.mark.parametrize("block", range(12))
def test_random_modules_equal_torch_in_float64(block):
    for seed in range(block * 25, block * 25 + 25):
        check(Case(seed), seed)
    assert len(_passes.TICKETS) == 0


@pytest.mark.parametrize("block", range(6))
def test_delays_equal_a_shift_of_torch(block):
    for seed in range(block * 25, block * 25 + 25):
        check(Case(10_000 + seed, delays=True), seed)


def test_no_grad_has_the_bits_of_training():
    for seed in range(60):
        case = Case(seed, delays=seed % 2 == 1)
        found = case.run(case.ours, torch.float32, seed)
        if case.form.startswith("packed"):
            continue
        hx = case.hx and (tuple(case.hx) if case.kind == "LSTM" else case.hx[0])
        for _ in range(2):
            with torch.no_grad():
                output, _ = case.ours(case.x, hx)
            assert torch.equal(output, found["result 0"]), str(case)
            assert not output.requires_grad
        with torch.no_grad():
            for parameter in case.ours.parameters():
                parameter.mul_(1.5)
            changed, _ = case.ours(case.x, hx)
        assert not torch.equal(changed, output), "parameters are read at every call"


@pytest.mark.parametrize("limit", [0, 10**12], ids=["drnn", "torch"])
def test_inference_of_wide_lstms(limit, monkeypatch):
    """Short passes are left to torch's kernel, long ones are drnn's; compiled ones too."""
    monkeypatch.setattr(_modules, "_LONG_PASS", limit)
    torch._dynamo.reset()
    theirs = nn.LSTM(5, 130, num_layers=2)
    ours = drnn.torch.replace(copy.deepcopy(theirs))
    compiled = torch.compile(ours, fullgraph=True, backend="aot_eager", dynamic=True)
    with torch.no_grad():
        for steps, rows in [(7, 3), (9, 2), (4, 5)]:
            x = torch.randn(steps, rows, 5)
            expected, (h, c) = theirs(x)
            for module in (ours, compiled):
                found, last = module(x)
                assert torch.allclose(found, expected, atol=1e-6)
                assert torch.allclose(last[0], h, atol=1e-6)
                assert torch.allclose(last[1], c, atol=1e-6)


@pytest.mark.parametrize("kind", list(OURS))
def test_interface_is_that_of_torch(kind):
    options = [
        {},
        dict(num_layers=2, bidirectional=True, dropout=0.25, batch_first=True),
        dict(bias=False, num_layers=3),
    ]
    options += [dict(proj_size=3, num_layers=2)] if kind == "LSTM" else []
    options += [dict(nonlinearity="relu")] if kind == "RNN" else []
    for option in options:
        torch.manual_seed(5)
        theirs = THEIRS[kind](4, 6, **option)
        torch.manual_seed(5)
        ours = OURS[kind](4, 6, **option)
        assert repr(ours) == repr(theirs)
        assert list(ours.state_dict()) == list(theirs.state_dict())
        for (name, found), expected in zip(ours.named_parameters(), theirs.parameters()):
            assert torch.equal(found, expected), f"{name}: initial values"
        other = OURS[kind](4, 6, **option)
        other.load_state_dict(theirs.state_dict())
        theirs.load_state_dict(other.state_dict())
        for attribute in ["input_size", "hidden_size", "num_layers", "bias", "batch_first"]:
            assert getattr(ours, attribute) == getattr(theirs, attribute)
        assert [len(group) for group in ours.all_weights] == [len(g) for g in theirs.all_weights]
        ours.flatten_parameters()
    positional = [3, 5, 2, "relu", False] if kind == "RNN" else [3, 5, 2, False, True]
    assert repr(OURS[kind](*positional)) == repr(THEIRS[kind](*positional))
    assert OURS[kind](3, 5, dtype=torch.float64).weight_ih_l0.dtype == torch.float64
    assert OURS[kind](3, 5, device="meta").weight_ih_l0.is_meta


def test_delayed_classes():
    for delayed, kind in [
        (drnn.torch.DelayedLSTM, "LSTM"),
        (drnn.torch.DelayedGRU, "GRU"),
        (drnn.torch.DelayedRNN, "RNN"),
    ]:
        ours = delayed(3, 5, 2, num_layers=2)
        assert repr(ours) == f"Delayed{kind}(3, 5, num_layers=2, delay=2, padding=null)"
        plain = OURS[kind](3, 5, 2)
        plain.load_state_dict(ours.state_dict())
        x = torch.randn(7, 2, 3)
        expected, _ = plain(torch.cat([x, torch.zeros(2, 2, 3)]))
        assert torch.allclose(ours(x)[0], expected[2:], atol=1e-6)
    with pytest.raises(ValueError, match="bidirectional"):
        drnn.torch.LSTM(3, 5, bidirectional=True, delay=1)
    for wrong in [-1, 1.5, True]:
        with pytest.raises(ValueError, match="delay"):
            drnn.torch.LSTM(3, 5, delay=wrong)
    with pytest.raises(ValueError, match="padding"):
        drnn.torch.LSTM(3, 5, delay=1, padding="ones")


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.embedding = nn.Embedding(11, 4)
        self.encoder = nn.Sequential(nn.LSTM(4, 6, 2, bidirectional=True, batch_first=True))
        self.tied = self.encoder[0]
        self.decoder = nn.ModuleDict({"gru": nn.GRU(12, 5, batch_first=True)})
        self.rnn = nn.RNN(5, 3, nonlinearity="relu", batch_first=True)
        self.absent = None
        self.register_module("none", None)

    def forward(self, tokens):
        x, _ = self.encoder(self.embedding(tokens))
        x, _ = self.decoder["gru"](x)
        return self.rnn(x)[0]


def test_replace():
    model = Model()
    tokens = torch.randint(11, (3, 8))
    model(tokens).square().sum().backward()
    expected = {name: p.grad.clone() for name, p in model.named_parameters()}
    output = model(tokens).detach()
    parameters = dict(model.named_parameters())
    keys = list(model.state_dict())
    model.zero_grad()
    text = repr(model)

    assert drnn.torch.replace(model) is model
    assert isinstance(model.encoder[0], drnn.torch.LSTM) and model.tied is model.encoder[0]
    assert isinstance(model.decoder["gru"], drnn.torch.GRU)
    assert isinstance(model.rnn, drnn.torch.RNN)
    assert repr(model) == text and list(model.state_dict()) == keys
    assert all(p is parameters[name] for name, p in model.named_parameters())
    found = model(tokens)
    assert torch.allclose(found, output, atol=1e-6)
    found.square().sum().backward()
    for name, parameter in model.named_parameters():
        assert difference(parameter.grad, expected[name]) < TOLERANCE, name
    replaced = drnn.torch.replace(nn.GRU(2, 3))
    assert isinstance(replaced, drnn.torch.GRU)

    class Own(nn.LSTM):
        pass

    assert isinstance(drnn.torch.replace(nn.Sequential(Own(2, 3)))[0], Own)


def test_parametrizations_are_read_at_every_call():
    theirs, x = nn.LSTM(4, 6), torch.randn(5, 2, 4)
    nn.utils.parametrizations.weight_norm(theirs, "weight_hh_l0")
    ours = drnn.torch.replace(copy.deepcopy(theirs))
    assert isinstance(ours, drnn.torch.LSTM)
    for module in (theirs, ours):
        module(x)[0].square().sum().backward()
    for (name, found), expected in zip(ours.named_parameters(), theirs.parameters()):
        assert difference(found.grad, expected.grad) < TOLERANCE, name
    with torch.no_grad():
        for module in (theirs, ours):
            module.parametrizations.weight_hh_l0.original0.mul_(2)
    assert torch.allclose(ours(x)[0], theirs(x)[0], atol=1e-6)
    fresh = drnn.torch.GRU(4, 6)
    nn.utils.parametrizations.weight_norm(fresh, "weight_ih_l0")
    fresh(x)[0].sum().backward()
    assert fresh.parametrizations.weight_ih_l0.original1.grad is not None


def test_optimizers_and_functional_call():
    torch.manual_seed(1)
    theirs = nn.GRU(3, 8, 2)
    ours = drnn.torch.replace(copy.deepcopy(theirs))
    x, target = torch.randn(9, 4, 3), torch.randn(9, 4, 8)
    losses = []
    for module in (theirs, ours):
        optimizer, found = torch.optim.Adam(module.parameters(), 0.01), []
        for _ in range(15):
            optimizer.zero_grad()
            loss = (module(x)[0] - target).square().mean()
            loss.backward()
            nn.utils.clip_grad_norm_(module.parameters(), 1.0)
            optimizer.step()
            found.append(loss.item())
        losses.append(found)
    assert losses[1] == pytest.approx(losses[0], rel=1e-4)
    assert losses[1][-1] < losses[1][0]
    parameters = {name: p.detach() * 2 for name, p in ours.named_parameters()}
    found = torch.func.functional_call(ours, parameters, (x,))[0]
    ours.load_state_dict(parameters)
    assert torch.equal(found, ours(x)[0])
    gradient = torch.func.grad(
        lambda given: torch.func.functional_call(ours, given, (x,))[0].square().sum()
    )(parameters)
    ours.zero_grad()
    ours(x)[0].square().sum().backward()
    for name, parameter in ours.named_parameters():
        assert difference(gradient[name], parameter.grad) < TOLERANCE, name


def test_copies_and_files():
    module = drnn.torch.DelayedLSTM(3, 5, 2, num_layers=2, dropout=0.0)
    x = torch.randn(6, 2, 3)
    expected = module(x)[0]
    file = io.BytesIO()
    torch.save(module, file)
    file.seek(0)
    loaded = torch.load(file, weights_only=False)
    for other in [copy.deepcopy(module), pickle.loads(pickle.dumps(module)), loaded]:
        assert torch.equal(other(x)[0], expected) and repr(other) == repr(module)
        with torch.no_grad():
            other.weight_ih_l0.zero_()
        assert not torch.equal(other(x)[0], expected)
    assert torch.equal(module(x)[0], expected)


@pytest.mark.parametrize("kind", list(OURS))
def test_reset_equals_separate_episodes(kind):
    torch.manual_seed(3)
    for first in (False, True):
        module = OURS[kind](3, 6, 2, batch_first=first)
        steps, rows = 11, 5
        x = torch.randn(steps, rows, 3, requires_grad=True)
        reset = torch.rand(steps, rows) < 0.25
        count = 2 if kind == "LSTM" else 1
        hx = [torch.randn(2, rows, 6, requires_grad=True) for _ in range(count)]
        given = tuple(hx) if kind == "LSTM" else hx[0]

        def step_by_step():
            states, outputs = list(hx), []
            for t in range(steps):
                keep = (~reset[t]).float().view(1, rows, 1)
                states = [state * keep for state in states]
                now = tuple(states) if kind == "LSTM" else states[0]
                x_t = x[t : t + 1].transpose(0, 1) if first else x[t : t + 1]
                output, last = module(x_t, now)
                states = list(last) if kind == "LSTM" else [last]
                outputs.append(output.transpose(0, 1) if first else output)
            return [torch.cat(outputs), *states]

        def at_once():
            given_x, mask = (x.transpose(0, 1), reset.t()) if first else (x, reset)
            output, last = module(given_x, given, reset=mask)
            output = output.transpose(0, 1) if first else output
            return [output, *(last if kind == "LSTM" else [last])]

        inputs = [x, *hx, *module.parameters()]
        results = []
        for run in (step_by_step, at_once):
            found = run()
            loss = sum((f * torch.linspace(-1, 1, f.numel()).view_as(f)).sum() for f in found)
            results.append([*found, *torch.autograd.grad(loss, inputs)])
        for expected, found in zip(*results):
            assert difference(found, expected) < TOLERANCE
    with pytest.raises(ValueError, match="reset"):
        OURS[kind](3, 6, bidirectional=True)(torch.randn(4, 2, 3), reset=torch.zeros(4, 2))
    with pytest.raises(RuntimeError, match="reset"):
        OURS[kind](3, 6)(torch.randn(4, 2, 3), reset=torch.zeros(2, 4))
    OURS[kind](3, 6)(torch.randn(4, 3), reset=torch.tensor([0, 0, 1, 0]))


def test_dropout_is_between_layers_only():
    torch.manual_seed(0)
    x = torch.randn(20, 16, 4)
    single = drnn.torch.GRU(4, 8)
    assert torch.equal(single(x)[0], single.eval()(x)[0])
    module = drnn.torch.GRU(4, 8, 2, dropout=0.5)
    plain, _ = module.eval()(x)
    module.train()
    torch.manual_seed(7)
    first, h = module(x)
    second, _ = module(x)
    torch.manual_seed(7)
    again, _ = module(x)
    assert torch.equal(first, again) and not torch.equal(first, second)
    assert not (first == 0).any(), "outputs are not dropped"
    assert torch.equal(first[-1], h[1])
    # The first layer does not see the dropout, the second one does.
    module.eval()
    assert torch.equal(h[0], module(x)[1][0]) and not torch.equal(first, plain)
    module.train()
    # On average the factors are 1: a linear second layer has the same mean.
    linear = drnn.torch.RNN(4, 32, 2, "relu", dropout=0.3)
    with torch.no_grad():
        linear.weight_hh_l1.zero_()
        linear.bias_ih_l1.fill_(50.0)  # above zero, so linear
        mean = sum(linear(x)[0] for _ in range(300)) / 300
        expected = linear.eval()(x)[0]
    assert (mean - expected).abs().mean() < 0.02
    # Gradients: the same seed gives the same factors, so differences of the loss confirm them.
    x64 = torch.randn(5, 2, 4)
    module.zero_grad()

    def loss():
        torch.manual_seed(11)
        return module(x64)[0].square().sum()

    loss().backward()
    weight = module.weight_ih_l1
    gradient, step = weight.grad.clone(), 1e-2
    direction = gradient / gradient.norm()
    with torch.no_grad():
        weight.add_(direction, alpha=step)
        above = loss()
        weight.add_(direction, alpha=-2 * step)
        below = loss()
    assert float((above - below) / (2 * step)) == pytest.approx(float(gradient.norm()), rel=1e-2)
    # dropout=1 is torch's business
    with pytest.warns(UserWarning, match="dropped"):
        drnn.torch.GRU(4, 8, 2, dropout=1.0)(x)
