"""CUDA graphs, streams, compilation, processes and ensembles of drnn.torch on a GPU."""

import copy
import shutil

import pytest

# The folder of these tests is called torch too, hence the name of a module inside.
pytest.importorskip("torch.nn", reason="PyTorch is not installed: pip install torch")

import torch
from cases import OURS
from on_hopper import (
    HALF,
    TOLERANCE,
    assert_close,
    gradients,
    pair,
    states,
    training_step,
)
from torch import nn
from torch.nn.utils.rnn import pack_padded_sequence

import drnn.torch

pytestmark = pytest.mark.usefixtures("passes")


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


class Small(nn.Module):
    def __init__(self):
        super().__init__()
        self.embedding, self.rnn = nn.Embedding(9, 8), nn.LSTM(8, 32)
        self.output = nn.Linear(32, 3)

    def forward(self, tokens):
        return self.output(self.rnn(self.embedding(tokens))[0])


def ensemble_step(ensemble, tokens, target):
    ensemble.zero_grad(set_to_none=False)
    with torch.autocast("cuda", HALF, cache_enabled=False):
        output = ensemble(tokens).float()
    (output - target).square().flatten(1).mean(1).sum().backward()


def test_networks_of_an_ensemble_run_side_by_side(passes):
    """On several streams, also from a graph."""
    models = [Small().cuda() for _ in range(9)]
    ensemble = drnn.torch.Ensemble(models)
    tokens = torch.randint(9, (60, 40), device="cuda")
    target = torch.randn(60, 40, 3, device="cuda")
    for _ in range(3):
        ensemble_step(ensemble, tokens, target)
    for e, model in enumerate(models):
        model = drnn.torch.replace(model)
        with torch.autocast("cuda", HALF):
            output = model(tokens).float()
        (output - target).square().mean().backward()
        for name, parameter in ensemble.networks.named_parameters():
            alone = model.get_parameter(name).grad
            assert_close([parameter.grad[e]], [alone], TOLERANCE[HALF], f"network {e}, {name}")
    expected = [parameter.grad.clone() for parameter in ensemble.parameters()]
    graph, _ = captured(lambda: ensemble_step(ensemble, tokens, target))
    for parameter in ensemble.parameters():
        parameter.grad.fill_(float("nan"))
    graph.replay()
    # Embeddings add up their gradients in any order.
    assert_close([parameter.grad for parameter in ensemble.parameters()], expected, 1e-3)


def test_gradients_of_samples():
    ours, _ = pair("GRU", 8, 32, dtype=HALF)
    parameters = {name: p.detach() for name, p in ours.named_parameters()}
    xs = torch.randn(6, 50, 4, 8, device="cuda", dtype=HALF)

    def loss(parameters, x):
        return torch.func.functional_call(ours, parameters, (x,))[0].float().square().sum()

    found = torch.func.vmap(torch.func.grad(loss), in_dims=(None, 0))(parameters, xs)
    for e, x in enumerate(xs):
        alone = torch.autograd.grad(loss(dict(ours.named_parameters()), x), list(ours.parameters()))
        assert_close([found[name][e] for name in parameters], alone, TOLERANCE[HALF])
