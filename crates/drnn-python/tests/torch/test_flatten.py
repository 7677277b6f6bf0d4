"""A stack as one delayed layer, and back."""

import copy
import pickle

import pytest

# The folder of these tests is called torch too, hence the name of a module inside.
pytest.importorskip("torch.nn", reason="PyTorch is not installed: pip install torch")

import torch
from cases import Case, difference
from torch import nn

import drnn.torch


def flattened(case):
    """The case with its stack flattened, and torch's results for the stack in float64."""
    other = copy.copy(case)
    other.ours = drnn.torch.flatten(case.ours)
    return other


def random_stacks(first, count):
    """Random cases that can be flattened; every second one has a delay of its own."""
    for seed in range(first, first + count):
        case = Case(seed, delays=seed % 2 == 1)
        if not case.options["bidirectional"] and "proj_size" not in case.options:
            yield seed, case


@pytest.mark.parametrize("block", range(4))
def test_outputs_and_states_have_the_stacks_bits(block):
    for seed, case in random_stacks(block * 40, 40):
        names = dict(case.ours.named_parameters())
        expected = case.run(case.ours, torch.float32, seed)
        other = flattened(case)
        found = other.run(other.ours, torch.float32, seed)
        for name, value in expected.items():
            if name.removeprefix("gradient of ") in names:
                continue  # of a weight of the stack, which is a part of one of the layer
            if name.startswith("result"):
                assert torch.equal(found[name], value), f"{case}: {name}"
            else:
                assert difference(found[name], value) < 1e-5, f"{case}: {name}"


def test_gradients_of_weights_are_the_stacks():
    for seed, case in random_stacks(500, 60):
        expected = case.run(case.theirs, torch.float64, seed)
        flat = drnn.torch.flatten(case.ours)
        other = copy.copy(case)
        other.ours = flat
        found = other.run(flat, torch.float32, seed)
        gradients = copy.deepcopy(flat)
        with torch.no_grad():
            for name, parameter in gradients.named_parameters():
                parameter.copy_(found[f"gradient of {name}"])
        # Gradients lie where weights do: anything elsewhere would be refused here.
        for name, gradient in drnn.torch.unflatten(gradients).named_parameters():
            error = difference(gradient, expected[f"gradient of {name}"])
            assert error < 1e-5, f"{case}: {name} differs by {error:.1e}"


@pytest.mark.filterwarnings("ignore:drnn.torch")
def test_torchs_own_operators_compute_the_same():
    for seed, case in random_stacks(900, 40):
        other = flattened(case)
        expected = other.run(other.ours, torch.float32, seed)
        other.ours = copy.deepcopy(other.ours).double()
        found = other.run(other.ours, torch.float64, seed)
        for name, value in found.items():
            assert difference(expected[name], value) < 1e-5, f"{case}: {name}"


@pytest.mark.parametrize("kind", [nn.LSTM, nn.GRU, nn.RNN])
def test_there_and_back(kind):
    stack = kind(3, 5, 3, batch_first=True).eval()
    flat = drnn.torch.flatten(stack)
    assert flat.delay == 2 and not flat.training and flat.batch_first
    back = drnn.torch.unflatten(flat)
    assert isinstance(back, getattr(drnn.torch, kind.__name__)) and not back.training
    assert all(torch.equal(a, b) for a, b in zip(back.parameters(), stack.parameters()))
    x = torch.randn(2, 6, 3)
    for other in [copy.deepcopy(flat), pickle.loads(pickle.dumps(flat))]:
        assert torch.equal(other(x)[0], flat(x)[0]) and repr(other) == repr(flat)


def test_training_keeps_a_stack_a_stack_and_relaxed_ones_become_more():
    torch.manual_seed(4)
    x, target = torch.randn(12, 4, 3), torch.randn(12, 4, 6)
    stack = drnn.torch.GRU(3, 6, 3)
    for connections in ["stacked", "lower", "upper", "all", "0-0,1-0,1-1,2-1,2-2,2-0"]:
        flat = drnn.torch.flatten(stack, connections)
        assert torch.equal(flat(x)[0], stack(x)[0]), "it begins as the stack"
        optimizer, losses = torch.optim.AdamW(flat.parameters(), 0.02), []
        for _ in range(5):
            optimizer.zero_grad()
            loss = (flat(x)[0] - target).square().mean()
            loss.backward()
            optimizer.step()
            losses.append(loss.item())
        assert losses[-1] < losses[0]
        if connections == "stacked":
            assert torch.equal(drnn.torch.unflatten(flat)(x)[0], flat(x)[0])
        else:
            with pytest.raises(ValueError, match="in a stack"):
                drnn.torch.unflatten(flat)


def test_what_cannot_be_flattened():
    for module, error, match in [
        (nn.LSTM(3, 4, 2, bidirectional=True), ValueError, "bidirectional"),
        (nn.LSTM(3, 4, 2, proj_size=2), ValueError, "proj_size"),
        (nn.GRU(3, 4, 2, dropout=0.5), ValueError, "dropout"),
        (nn.Linear(3, 4), TypeError, "LSTM, GRU or RNN"),
    ]:
        with pytest.raises(error, match=match):
            drnn.torch.flatten(module)
    with pytest.raises(ValueError, match="expected stacked, lower"):
        drnn.torch.flatten(nn.LSTM(3, 4, 2), "some")
    with pytest.raises(TypeError, match="flatten returns"):
        drnn.torch.unflatten(nn.LSTM(3, 4))
    flat = drnn.torch.flatten(nn.LSTM(3, 4, 2))
    with torch.no_grad():
        flat.weight_hh_l0.fill_(0.1)
    with pytest.raises(RuntimeError, match="weight_hh_l0"):
        flat(torch.randn(5, 2, 3))
