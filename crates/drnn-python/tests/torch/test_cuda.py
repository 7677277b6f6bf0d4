"""drnn.torch on a GPU of the Hopper generation, against torch.nn in float64 on the CPU.

Networks are small and few, because each kernel takes the compiler some seconds: widths of up to 32
units share their kernels.
"""

import copy
import gc
import math
import pickle
import shutil
import warnings

import pytest

# The folder of these tests is called torch too, hence the name of a module inside.
pytest.importorskip("torch.nn", reason="PyTorch is not installed: pip install torch")

import torch
from cases import OURS, THEIRS, Case, difference
from torch import nn
from torch.nn.utils.rnn import PackedSequence, pack_padded_sequence

import drnn.torch
from drnn.torch import _cuda, _modules

KINDS = list(OURS)
HALF, BRAIN = torch.float16, torch.bfloat16
TOLERANCE = {HALF: 1e-2, BRAIN: 4e-2}


class Passes:
    """Counts the passes that drnn's kernels run."""

    def __init__(self, monkeypatch):
        self.count, stream = 0, _cuda.raw_stream

        def counted(device):
            self.count += 1
            return stream(device)

        monkeypatch.setattr(_cuda, "raw_stream", counted)

    def since(self):
        count, self.count = self.count, 0
        return count


@pytest.fixture(autouse=True)
def passes(hopper, monkeypatch):
    monkeypatch.setattr(_cuda, "_ENABLED", True)
    _modules._WARNED.clear()
    torch.manual_seed(1)
    with warnings.catch_warnings():
        warnings.filterwarnings("error", message="drnn.torch")
        yield Passes(monkeypatch)
    torch.cuda.synchronize()


def pair(kind, *sizes, dtype=torch.float32, **options):
    """Ours on the GPU, and torch.nn's in float64 on the CPU with the same numbers."""
    ours = OURS[kind](*sizes, **options).cuda().to(dtype)
    delay = {"delay", "padding"}
    theirs = THEIRS[kind](*sizes, **{k: v for k, v in options.items() if k not in delay}).double()
    theirs.load_state_dict(ours.state_dict())
    return ours, theirs


def gradients(results, tensors, seed=3, retain_graph=False):
    generator = torch.Generator().manual_seed(seed)
    upstream = [torch.randn(r.shape, generator=generator).to(r) for r in results]
    return torch.autograd.grad(results, tensors, upstream, retain_graph=retain_graph)


def states(last):
    return list(last) if isinstance(last, tuple) else [last]


def assert_close(found, expected, tolerance, what=""):
    for number, (a, b) in enumerate(zip(found, expected)):
        assert a.shape == b.shape, f"{what} {number}: {a.shape}, expected {b.shape}"
        error = difference(a.cpu(), b.cpu())
        assert error < tolerance, f"{what} {number}: {error:.2e}"


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


def test_packed_batches_on_another_stream():
    ours, _ = pair("GRU", 3, 5, dtype=HALF)
    packed = pack_padded_sequence(
        torch.randn(9, 4, 3, device="cuda", dtype=HALF), torch.tensor([9, 7, 7, 2])
    )
    expected = ours(packed)[0].data
    torch.cuda.synchronize()
    with torch.cuda.stream(torch.cuda.Stream()):
        found = ours(packed)[0].data
    torch.cuda.synchronize()
    assert torch.equal(found, expected)


def training_step(module, x):
    output, last = module(x)
    output = output.data if isinstance(output, PackedSequence) else output
    loss = output.float().square().sum() + sum(s.float().sum() for s in states(last))
    grads = torch.autograd.grad(loss, list(module.parameters()))
    return [output.detach(), *grads]


def captured(work):
    """A CUDA graph of some work, after it has run in another stream, and what it leaves."""
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        for _ in range(2):
            work()
    torch.cuda.current_stream().wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        results = work()
    return graph, results


@pytest.mark.parametrize("form", ["padded", "packed"])
def test_cuda_graphs(form):
    ours, _ = pair("LSTM", 8, 32, 2, dtype=HALF)
    x = torch.randn(30, 16, 8, device="cuda", dtype=HALF)
    given = x
    if form == "packed":
        given = pack_padded_sequence(x, torch.arange(30, 14, -1))
        x = given.data
    graph, results = captured(lambda: training_step(ours, given))
    for seed in range(3):
        torch.manual_seed(seed)
        x.copy_(torch.randn_like(x))
        with torch.no_grad():
            ours.weight_hh_l0.mul_(0.9)
        graph.replay()
        found = [result.clone() for result in results]
        expected = training_step(ours, given)
        assert all(torch.equal(a, b) for a, b in zip(found, expected))


def test_graphed_callables():
    ours, _ = pair("GRU", 8, 32, 2, dtype=HALF)
    x = torch.randn(30, 16, 8, device="cuda", dtype=HALF)
    sample = x.clone().requires_grad_()
    graphed = torch.cuda.make_graphed_callables(copy.deepcopy(ours), (sample,))
    for _ in range(3):
        x = torch.randn_like(x).requires_grad_()
        results = []
        for module in (ours, graphed):
            output, _ = module(x)
            wanted = [x, *module.parameters()]
            results.append(
                [output.clone(), *torch.autograd.grad(output.float().square().sum(), wanted)]
            )
        assert all(torch.equal(a, b) for a, b in zip(*results))


def test_capturing_what_was_never_run_is_an_error():
    ours, _ = pair("GRU", 8, 32, dtype=HALF)
    with torch.no_grad():
        ours(torch.randn(4, 4, 8, device="cuda", dtype=HALF))
        x = torch.randn(77, 5, 8, device="cuda", dtype=HALF)
        with pytest.raises(RuntimeError, match="run the module once before"):
            with torch.cuda.graph(torch.cuda.CUDAGraph()):
                ours(x)
        torch.cuda.synchronize()
        assert ours(x)[0].isfinite().all()


def compilers():
    """Inductor needs a C compiler."""
    return ["aot_eager", "inductor"] if shutil.which("gcc") or shutil.which("cc") else ["aot_eager"]


@pytest.mark.parametrize("backend", compilers())
def test_compiled_modules(backend, passes):
    cases, shapes = [("LSTM", dict(num_layers=2), "module")], [(9, 5)]
    if backend == "aot_eager":
        shapes.append((7, 6))
        cases += [
            ("GRU", dict(bidirectional=True), "autocast"),
            ("RNN", dict(num_layers=2, dropout=0.5), "module"),
            ("LSTM", dict(bias=False, delay=2, batch_first=True), "autocast"),
            ("GRU", dict(delay=2, padding="look-ahead"), "module"),
        ]
    for kind, options, how in cases:
        torch._dynamo.reset()
        ours = OURS[kind](8, 32, **options).cuda().to(HALF if how == "module" else torch.float32)
        if options.get("dropout"):
            ours.eval()
        compiled = torch.compile(ours, fullgraph=True, backend=backend)
        for steps, rows in shapes:
            x = torch.randn(steps, rows, 8, device="cuda", dtype=ours.weight_hh_l0.dtype)
            results = []
            for module in (ours, compiled):
                own = x.clone().requires_grad_()
                passes.since()
                with torch.autocast("cuda", HALF, enabled=how == "autocast"):
                    output, last = module(own)
                wanted = [own, *ours.parameters()]
                found = [output, *states(last)]
                results.append([*found, *gradients(found, wanted)])
                assert passes.since() == 2, f"{kind} {options}: not on drnn's kernels"
            assert_close(results[1], results[0], 2e-3, f"{kind} {options}, result or gradient")
        with torch.no_grad(), torch.autocast("cuda", HALF, enabled=how == "autocast"):
            assert_close([compiled(x)[0]], [ours(x)[0]], 2e-3, f"{kind} {options}, inference")


def test_operators_keep_torchs_rules():
    ours = drnn.torch.LSTM(3, 5).cuda()
    config = ours._config()
    h0, c0 = (torch.zeros(1, 2, 5, device="cuda", requires_grad=True) for _ in range(2))
    x = torch.randn(4, 2, 3, device="cuda", dtype=HALF, requires_grad=True)
    weights = [getattr(ours, name) for name in config.names(True)]
    given = (x, weights, h0, c0, None, config.encode(), True)
    # The ticket is memory of nobody's: its values mean nothing.
    utilities = ("test_schema", "test_faketensor")
    torch.library.opcheck(torch.ops.drnn.cuda_forward.default, given, test_utils=utilities)
    y, h, c, ticket = torch.ops.drnn.cuda_forward(*given)
    upstream = torch.ones_like(y), torch.ones_like(h), torch.ones_like(c)
    given = (*upstream, x, weights, h0, c0, None, ticket, config.encode(), True)
    given = torch.utils._pytree.tree_map_only(torch.Tensor, lambda t: t.detach(), given)
    torch.library.opcheck(torch.ops.drnn.cuda_backward.default, given, test_utils=utilities)
    first, second, copied = (
        torch.ops.drnn.cuda_backward(*given[:8], t, *given[9:])
        for t in (ticket, ticket, ticket.clone())
    )
    for again in (second, copied):
        assert all(torch.equal(a, b) for a, b in zip(first, again))


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


def test_distributed_data_parallel():
    dist = torch.distributed
    try:
        dist.init_process_group("nccl", store=dist.HashStore(), rank=0, world_size=1)
    except Exception as error:
        pytest.skip(f"no process group of one process: {error}")
    try:
        ours, _ = pair("LSTM", 8, 32, 2, dtype=HALF)
        x = torch.randn(9, 4, 8, device="cuda", dtype=HALF)
        wrapped = nn.parallel.DistributedDataParallel(copy.deepcopy(ours), device_ids=[0])
        for module in (ours, wrapped):
            module(x)[0].float().square().sum().backward()
        for a, b in zip(ours.parameters(), wrapped.module.parameters()):
            assert torch.equal(a.grad, b.grad)
    finally:
        dist.destroy_process_group()


def test_the_second_gpu():
    if torch.cuda.device_count() < 2:
        pytest.skip("this machine has one GPU")
    ours, theirs = pair("LSTM", 3, 5, dtype=HALF)
    x = torch.randn(6, 4, 3).half()
    output, _ = ours.to("cuda:1")(x.to("cuda:1"))
    assert torch.cuda.current_device() == 0
    output.sum().backward()
    assert_close([output], [theirs(x.double())[0]], TOLERANCE[HALF])


def test_two_streams_at_once():
    """Kernels whose blocks wait for each other run next to each other, or one after another."""
    modules = [pair(kind, 16, 32, 2, dtype=HALF)[0] for kind in ("LSTM", "GRU")]
    inputs = [torch.randn(120, 64, 16, device="cuda", dtype=HALF) for _ in modules]

    def work(module, x):
        output, _ = module(x)
        found = torch.autograd.grad(output.float().square().sum(), list(module.parameters()))
        return [output.detach(), *found]

    expected = [work(*given) for given in zip(modules, inputs)]
    torch.cuda.synchronize()
    streams = [torch.cuda.Stream() for _ in modules]
    for _ in range(10):
        found = []
        for stream, module, x in zip(streams, modules, inputs):
            with torch.cuda.stream(stream):
                found.append(work(module, x))
        torch.cuda.synchronize()
        for a, b in zip(expected, found):
            assert all(torch.equal(p, q) for p, q in zip(a, b))
