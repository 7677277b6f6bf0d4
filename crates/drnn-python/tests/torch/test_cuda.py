"""drnn.torch on a GPU of the Hopper generation, against torch.nn in float64 on the CPU."""

import concurrent.futures
import copy
import gc
import math
import pickle
import warnings

import pytest

# The folder of these tests is called torch too, hence the name of a module inside.
pytest.importorskip("torch.nn", reason="PyTorch is not installed: pip install torch")

import torch
from cases import OURS, THEIRS, Case, difference
from on_hopper import (
    BRAIN,
    HALF,
    KINDS,
    TOLERANCE,
    assert_close,
    gradients,
    pair,
    states,
    training_step,
)
from torch import nn
from torch.nn.utils.rnn import PackedSequence, pack_padded_sequence

import drnn.torch

pytestmark = pytest.mark.usefixtures("passes")


def supported(seed, delays):
    """A random case that kernels for GPUs compute."""
    case = Case(seed, delays)
    relu = case.options.get("nonlinearity") == "relu"
    return None if relu or case.options.get("proj_size") else case


@pytest.mark.parametrize("delays", [False, True], ids=["plain", "delayed"])
@pytest.mark.parametrize("how", ["module", "autocast"])
@pytest.mark.parametrize("dtype", [HALF, BRAIN], ids=["float16", "bfloat16"])
def test_random_modules_equal_torch(dtype, how, delays, passes):
    cases = (supported(seed, delays) for seed in range(1000, 1200))
    cases = [case for case in cases if case is not None][:13]
    assert len(cases) == 13
    for case in cases:
        own = dtype if how == "module" else torch.float32
        ours = case.ours.cuda().to(own)
        case.theirs.load_state_dict(ours.state_dict())
        case.x = case.x.to(own).float()
        case.hx = None if case.hx is None else [h.to(own).float() for h in case.hx]
        passes.since()
        with torch.autocast("cuda", dtype, enabled=how == "autocast"):
            found = case.run(ours, own, 7, "cuda")
        assert passes.since() == 2, f"{case}: not on drnn's kernels"
        expected = case.run(case.theirs, torch.float64, 7)
        assert found.keys() == expected.keys()
        for name, value in found.items():
            error = difference(value.cpu(), expected[name])
            assert error < TOLERANCE[dtype], f"{case}: {name} {error:.2e}"
            assert value.dtype == (dtype if name.startswith("result") else own), f"{case}: {name}"


@pytest.mark.parametrize("kind", KINDS)
def test_long_packed_batches_of_two_layers_and_directions(kind, passes):
    ours, theirs = pair(kind, 40, 32, 2, bidirectional=True)
    lengths = torch.randint(1, 121, (70,))
    lengths[3], lengths[5] = 120, 1
    x = torch.randn(120, 70, 40)
    results = []
    for module, device, dtype in ((ours, "cuda", torch.float32), (theirs, "cpu", torch.float64)):
        own = x.to(device, dtype).requires_grad_()
        packed = pack_padded_sequence(own, lengths, enforce_sorted=False)
        with torch.autocast("cuda", HALF, enabled=device == "cuda"):
            output, last = module(packed)
        results.append([output.data, *states(last)])
        results.append(gradients(results[-1], [own, *module.parameters()]))
    assert passes.since() == 2
    assert_close(results[0], results[2], TOLERANCE[HALF], "result")
    assert_close(results[1], results[3], TOLERANCE[HALF], "gradient")


def test_a_wide_lstm():
    """Several blocks of multiprocessors exchange their states."""
    ours, theirs = pair("LSTM", 64, 256, dtype=HALF)
    x = torch.randn(50, 48, 64).half()
    output, last = ours(x.cuda())
    expected, expected_last = theirs(x.double())
    found = gradients([output, *last], list(ours.parameters()))
    wanted = gradients([expected, *expected_last], list(theirs.parameters()))
    assert_close([output, *last, *found], [expected, *expected_last, *wanted], TOLERANCE[HALF])


def test_every_mix_of_requires_grad():
    x0 = torch.randn(4, 2, 3)
    ours, theirs = pair("LSTM", 3, 5, 2, dtype=HALF)
    for mask in range(16):
        results = []
        for module, device, dtype in ((ours, "cuda", HALF), (theirs, "cpu", torch.float64)):
            x = x0.to(device, dtype).requires_grad_(bool(mask & 1))
            h = torch.full((2, 2, 5), 0.1, device=device, dtype=dtype, requires_grad=bool(mask & 2))
            module.zero_grad()
            for number, parameter in enumerate(module.parameters()):
                parameter.requires_grad_(bool(mask & (4 if number % 3 else 8)))
            output, _ = module(x, (h, h))
            assert output.requires_grad == (mask > 0)
            if mask:
                output.square().sum().backward()
            results.append([x.grad, h.grad, *(p.grad for p in module.parameters())])
        for found, expected in zip(*results):
            assert (found is None) == (expected is None), mask
            if found is not None:
                assert difference(found.cpu(), expected) < TOLERANCE[HALF], mask


def test_gradients_of_one_result_alone():
    ours, theirs = pair("LSTM", 3, 5, dtype=HALF)
    x = torch.randn(6, 4, 3).half()
    for number in range(3):
        output, last = ours(x.cuda())
        expected, expected_last = theirs(x.double())
        found = gradients([[output, *last][number]], list(ours.parameters()))
        wanted = gradients([[expected, *expected_last][number]], list(theirs.parameters()))
        assert_close(found, wanted, TOLERANCE[HALF], f"of result {number}, gradient")


def test_second_backward_passes():
    ours, _ = pair("GRU", 3, 5, 2, dtype=HALF)
    results = ours(torch.randn(6, 4, 3, device="cuda", dtype=HALF))
    parameters = list(ours.parameters())
    first = gradients(results, parameters, retain_graph=True)
    second = gradients(results, parameters, retain_graph=True)
    assert all(torch.equal(a, b) for a, b in zip(first, second))
    again = torch.autograd.grad(results[0].sum(), parameters, create_graph=True)
    with pytest.raises(RuntimeError):
        sum(g.sum() for g in again).backward()


def test_without_gradients_nothing_is_saved(passes):
    ours, _ = pair("LSTM", 16, 32, dtype=HALF)
    x = torch.randn(200, 64, 16, device="cuda", dtype=HALF)
    expected = ours(x)[0].detach()
    memory = []
    for context in (torch.no_grad, torch.inference_mode, torch.enable_grad):
        gc.collect()
        before = torch.cuda.memory_allocated()
        with context():
            results = ours(x)
        memory.append(torch.cuda.memory_allocated() - before)
        assert torch.equal(results[0], expected)
        assert results[0].requires_grad == (context is torch.enable_grad)
        del results
    assert memory[0] == memory[1] < 2 * expected.numel() * 2 < memory[2], memory
    frozen = copy.deepcopy(ours).requires_grad_(False)
    assert not frozen(x)[0].requires_grad
    assert passes.since() == 5


def test_results_may_be_changed_in_place():
    ours, _ = pair("LSTM", 3, 5, dtype=HALF)
    x = torch.randn(6, 4, 3, device="cuda", dtype=HALF)
    output, (h, c) = ours(x)
    h.mul_(2)
    torch.relu_(output)
    (output.sum() + h.sum()).backward()
    hx = ours(x)[1]
    for state in hx:  # truncated backpropagation through time
        state.detach_()
    ours(x, hx)[0].sum().backward()


def test_dropout_between_layers(monkeypatch, passes):
    module = drnn.torch.GRU(8, 32, 2, dropout=0.25).cuda().half()
    kept, dropout = [], nn.functional.dropout

    def spy(x, p):
        kept.append((x.detach().clone(), dropout(x, p)))
        return kept[-1][1]

    monkeypatch.setattr(torch.nn.functional, "dropout", spy)
    x = torch.randn(50, 64, 8, device="cuda", dtype=HALF)
    output, h = module(x)
    assert passes.since() == 2 and len(kept) == 1
    before, after = kept[0]
    dropped = (after == 0) & (before != 0)
    assert abs(float(dropped.float().mean()) - 0.25) < 0.01
    scaled = before[~dropped].float() / 0.75
    assert torch.allclose(after[~dropped].float(), scaled, rtol=5e-3, atol=1e-3)
    lower, upper = drnn.torch.GRU(8, 32).cuda().half(), drnn.torch.GRU(32, 32).cuda().half()
    for layer, one in enumerate((lower, upper)):
        one.load_state_dict(
            {k[:-1] + "0": v for k, v in module.state_dict().items() if k.endswith(str(layer))}
        )
    assert torch.equal(lower(x)[0], before)
    assert torch.equal(upper(after)[0], output)
    assert not torch.equal(module(x)[0], output)
    output.sum().backward()
    assert all(p.grad.isfinite().all() for p in module.parameters())
    module.eval()
    assert torch.equal(module(x)[0], module(x)[0])


class Tagger(nn.Module):
    def __init__(self, recurrent, n):
        super().__init__()
        self.embedding, self.recurrent, self.output = nn.Embedding(9, 8), recurrent, nn.Linear(n, 9)

    def forward(self, tokens):
        return self.output(self.recurrent(self.embedding(tokens))[0])


@pytest.mark.parametrize("dtype", [HALF, BRAIN], ids=["float16", "bfloat16"])
def test_training_goes_as_torchs(dtype, passes):
    """To remember the token before the last."""
    theirs = Tagger(nn.LSTM(8, 32, 2), 32).cuda()
    ours = drnn.torch.replace(copy.deepcopy(theirs))
    curves = []
    for model, autocast in ((theirs, False), (ours, True)):
        generator = torch.Generator().manual_seed(5)
        optimizer = torch.optim.Adam(model.parameters(), 5e-3)
        scaler = torch.amp.GradScaler("cuda", enabled=autocast and dtype == HALF)
        curve = []
        for _ in range(40):
            tokens = torch.randint(9, (20, 32), generator=generator).cuda()
            with torch.autocast("cuda", dtype, enabled=autocast):
                logits = model(tokens)[2:]
                loss = nn.functional.cross_entropy(
                    logits.flatten(0, 1).float(), tokens[:-2].flatten()
                )
            optimizer.zero_grad()
            scaler.scale(loss).backward()
            scaler.step(optimizer)
            scaler.update()
            curve.append(loss.item())
        curves.append(curve)
    assert passes.since() == 80
    far = max(abs(a - b) / a for a, b in zip(*curves))
    assert far < (0.02 if dtype == HALF else 0.05), curves
    assert curves[1][-1] < 0.9 * curves[1][0], "nothing was learned"


def test_gradients_that_are_not_finite_are_noticed():
    ours, _ = pair("LSTM", 3, 5, dtype=HALF)
    output, _ = ours(torch.randn(6, 4, 3, device="cuda", dtype=HALF))
    for value in (math.inf, math.nan):
        upstream = torch.ones_like(output)
        upstream[3, 1, 2] = value
        found = torch.autograd.grad(output, list(ours.parameters()), upstream, retain_graph=True)
        assert not all(g.isfinite().all() for g in found)


def test_nan_after_the_end_of_a_sequence_is_not_read():
    ours, _ = pair("LSTM", 3, 5, dtype=HALF)
    x = torch.randn(6, 2, 3, device="cuda", dtype=HALF)
    x[4:, 1] = math.nan
    output, _ = ours(pack_padded_sequence(x, torch.tensor([6, 4])))
    output.data.sum().backward()
    assert output.data.isfinite().all()
    assert all(p.grad.isfinite().all() for p in ours.parameters())


def test_memory_that_is_freed_early():
    """Everything but the loss is dropped, and its memory taken by others, before kernels have
    run."""
    ours, _ = pair("LSTM", 16, 32, 2, dtype=HALF)
    x = torch.randn(100, 32, 16, device="cuda", dtype=HALF)
    hx = [torch.randn(2, 32, 32, device="cuda", dtype=HALF) for _ in range(2)]
    expected = []
    for early in (False, True):
        ours.zero_grad()
        if early:
            torch.cuda._sleep(100_000_000)
        given = (x.clone(), tuple(h.clone() for h in hx))
        loss = ours(*given)[0].float().square().sum()
        if early:
            del given
            filled = [torch.full((100, 32, 32), math.nan, device="cuda") for _ in range(40)]
        loss.backward()
        if early:
            del filled
            filled = [torch.full((100, 32, 32), math.nan, device="cuda") for _ in range(40)]
        expected.append([loss.detach(), *(p.grad.clone() for p in ours.parameters())])
    assert all(torch.equal(a, b) for a, b in zip(*expected))


def test_copies_files_and_functional_calls():
    ours, _ = pair("LSTM", 3, 5, 2, dtype=HALF)
    x = torch.randn(6, 4, 3, device="cuda", dtype=HALF)
    expected = ours(x)[0]
    other = drnn.torch.LSTM(3, 5, 2).cuda().half()
    other.load_state_dict(ours.state_dict())
    assert list(ours.state_dict()) == list(nn.LSTM(3, 5, 2).state_dict())
    for module in (copy.deepcopy(ours), pickle.loads(pickle.dumps(ours)), other, ours.cpu().cuda()):
        assert torch.equal(module(x)[0], expected)
    double = {name: 2 * p.detach() for name, p in ours.named_parameters()}
    found = torch.func.functional_call(ours, double, (x,))[0]
    for name, parameter in other.named_parameters():
        parameter.data.mul_(2)
    assert torch.equal(found, other(x)[0]) and not torch.equal(found, expected)


@pytest.mark.parametrize("kind", KINDS)
def test_errors_have_the_types_of_torch(kind):
    ours, theirs = OURS[kind](3, 5, 2).cuda().half(), THEIRS[kind](3, 5, 2).cuda().half()

    def state(*shape, dtype=HALF, device="cuda"):
        one = torch.zeros(*shape, dtype=dtype, device=device)
        return (one, one.clone()) if kind == "LSTM" else one

    x = torch.randn(4, 2, 3, device="cuda", dtype=HALF)
    wrong = [
        (torch.randn(4, 2, 4).cuda().half(),),
        (torch.randn(3).cuda().half(),),
        (torch.randn(4, 2, 3).cuda().double(),),
        (torch.randn(0, 2, 3).cuda().half(),),
        (x.cpu(),),
        (x, state(2, 3, 5)),
        (x, state(2, 2, 6)),
        (x, state(2, 5)),
        (x, state(2, 2, 5, device="cpu")),
    ]
    for number, arguments in enumerate(wrong):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            with pytest.raises(Exception) as expected:
                theirs(*arguments)
            with pytest.raises(Exception) as found:
                ours(*arguments)
        assert issubclass(found.type, expected.type) or found.type in (ValueError, RuntimeError), (
            f"{number}: {found.value!r}, expected {expected.value!r}"
        )
    for sizes in ([3, 4], [6, 1], [7, -1], []):
        with pytest.raises(Exception):
            ours(PackedSequence(x.view(-1, 3)[:6], torch.tensor(sizes, dtype=torch.int64)))
    ahead = OURS[kind](3, 5, delay=2, padding="look-ahead").cuda().half()
    with pytest.raises(RuntimeError, match="more than 2"):
        ahead(pack_padded_sequence(x, torch.tensor([4, 2])))
    with pytest.raises(RuntimeError, match="more than 2"):
        ahead(x[:2])
    assert ours(x[:, :0])[0].shape == theirs(x[:, :0])[0].shape, "an empty batch"


def test_what_has_no_kernel_runs_on_torchs():
    with pytest.warns(UserWarning, match="float32 on CUDA"):
        drnn.torch.LSTM(3, 5).cuda()(torch.randn(4, 2, 3, device="cuda"))
    with pytest.warns(UserWarning, match="RNN_RELU"):
        relu = drnn.torch.RNN(3, 5, nonlinearity="relu").cuda().half()
        relu(torch.randn(4, 2, 3, device="cuda", dtype=HALF))
    with pytest.warns(UserWarning, match="projections"):
        drnn.torch.LSTM(3, 5, proj_size=2).cuda().half()(
            torch.randn(4, 2, 3, device="cuda", dtype=HALF)
        )


def test_the_same_bits_again():
    ours, _ = pair("LSTM", 8, 32, 2, bidirectional=True, dtype=HALF)
    packed = pack_padded_sequence(
        torch.randn(40, 16, 8, device="cuda", dtype=HALF), torch.arange(40, 24, -1)
    )
    expected = training_step(ours, packed)
    torch.use_deterministic_algorithms(True)
    try:
        for _ in range(3):
            again = training_step(ours, packed)
            assert all(torch.equal(a, b) for a, b in zip(expected, again))
    finally:
        torch.use_deterministic_algorithms(False)


def test_strided_input_and_parameters():
    ours, theirs = pair("LSTM", 8, 32, dtype=HALF)
    base = torch.randn(16, 9, 5).half()
    x = base.permute(1, 2, 0)[..., ::2]
    with torch.no_grad():
        ours.weight_hh_l0.set_(ours.weight_hh_l0.t().contiguous().t())
    assert not ours.weight_hh_l0.is_contiguous()
    output, _ = ours(base.cuda().permute(1, 2, 0)[..., ::2])
    expected, _ = theirs(x.double())
    found = torch.autograd.grad(output.sum(), list(ours.parameters()))  # an expanded gradient
    wanted = torch.autograd.grad(expected.sum(), list(theirs.parameters()))
    assert_close([output, *found], [expected, *wanted], TOLERANCE[HALF])


def test_states_that_are_reset_within_sequences(passes):
    ours, theirs = pair("LSTM", 3, 5, dtype=HALF)
    x, reset = torch.randn(30, 4, 3).half(), torch.rand(30, 4) < 0.2
    output, last = ours(x.cuda(), reset=reset.cuda())
    assert passes.since() == 1
    hx, expected = None, []
    for t in range(30):
        if hx is not None:
            hx = [h * (~reset[t]).view(1, 4, 1) for h in hx]
        y, hx = theirs(x[t : t + 1].double(), hx)
        expected.append(y)
    expected = [torch.cat(expected), *hx]
    found = gradients([output, *last], list(ours.parameters()))
    wanted = gradients(expected, list(theirs.parameters()))
    assert_close([output, *last, *found], [*expected, *wanted], TOLERANCE[HALF])


def test_parametrized_weights_and_hooks(passes):
    ours, theirs = pair("LSTM", 3, 5)
    called = []
    for module in (ours, theirs):
        nn.utils.parametrizations.weight_norm(module, "weight_hh_l0")
        module.register_forward_hook(lambda *_: called.append("forward"))
        module.register_full_backward_hook(lambda *_: called.append("backward"))
    x = torch.randn(6, 4, 3)
    for _ in range(3):  # parameters change, and are read again
        results = []
        for module, own in ((ours, x.cuda()), (theirs, x.double())):
            with torch.autocast("cuda", HALF, enabled=own.is_cuda):
                output, _ = module(own.requires_grad_())
            module.zero_grad()
            output.float().square().sum().backward()
            results.append([output, *(p.grad for p in module.parameters())])
            with torch.no_grad():
                for parameter in module.parameters():
                    parameter.sub_(0.01 * parameter.grad)
        assert_close(*results, TOLERANCE[HALF])
    assert passes.since() == 6 and called == ["forward", "backward"] * 6


def test_checkpoints_and_tensors_kept_on_the_host(passes):
    ours, _ = pair("GRU", 3, 5, 2, dtype=HALF)
    x = torch.randn(9, 4, 3, device="cuda", dtype=HALF)
    parameters = list(ours.parameters())
    expected = torch.autograd.grad(ours(x)[0].float().square().sum(), parameters)
    passes.since()
    output = torch.utils.checkpoint.checkpoint(lambda x: ours(x)[0], x, use_reentrant=False)
    found = torch.autograd.grad(output.float().square().sum(), parameters)
    assert passes.since() == 3
    assert all(torch.equal(a, b) for a, b in zip(found, expected))
    with torch.autograd.graph.save_on_cpu():
        output = ours(x)[0]
    found = torch.autograd.grad(output.float().square().sum(), parameters)
    assert all(torch.equal(a, b) for a, b in zip(found, expected))


@pytest.mark.parametrize("what", ["x", "h0", "weight"])
@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_numbers_that_are_not_finite_end_no_differently(what, value):
    """They reach what they reach in torch.nn, and nobody waits for them for ever."""
    ours, theirs = pair("LSTM", 8, 64, dtype=HALF)
    x, h0 = torch.randn(20, 16, 8).half(), torch.zeros(1, 16, 64).half()
    if what == "x":
        x[7, 3, 2] = value
    elif what == "h0":
        h0[0, 3, 5] = value
    else:
        for module in (ours, theirs):
            with torch.no_grad():
                module.weight_hh_l0[70, 5] = value
    c0 = torch.zeros_like(h0)
    output, _ = ours(x.cuda(), (h0.cuda(), c0.cuda()))
    expected, _ = theirs(x.double(), (h0.double(), c0.double()))
    assert torch.equal(output.cpu().isnan(), expected.isnan())
    (gradient,) = torch.autograd.grad(output.sum(), [ours.weight_hh_l0])
    (wanted,) = torch.autograd.grad(expected.sum(), [theirs.weight_hh_l0])
    assert bool(gradient.isnan().any()) == bool(wanted.isnan().any())


def test_threads(passes):
    modules = [pair(kind, 3, 5, dtype=HALF)[0] for kind in KINDS]
    x = torch.randn(50, 4, 3, device="cuda", dtype=HALF)
    expected = [training_step(module, x) for module in modules]
    torch.cuda.synchronize()

    def work(module):
        with torch.cuda.stream(torch.cuda.Stream()):
            for _ in range(20):
                found = training_step(module, x)
            torch.cuda.synchronize()
            return found

    with concurrent.futures.ThreadPoolExecutor() as pool:
        for a, b in zip(pool.map(work, modules), expected):
            assert all(torch.equal(p, q) for p, q in zip(a, b))
