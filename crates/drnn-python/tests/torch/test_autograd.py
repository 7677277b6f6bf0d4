"""The operators in autograd, torch.compile, threads and processes."""

import gc
import multiprocessing
import threading

import pytest

# The folder of these tests is called torch too, hence the name of a module inside.
pytest.importorskip("torch.nn", reason="PyTorch is not installed: pip install torch")

import torch
from cases import OURS, Case, difference
from torch import nn
from torch.nn.utils.rnn import pack_padded_sequence

import drnn.torch
from drnn.torch import _passes


def forward_arguments(module, x, hx=None, sizes=None, save=True):
    config = module._config()
    weights = [p.detach().clone().requires_grad_() for p in module.parameters()]
    rows = x.size(1) if sizes is None else int(sizes[0])
    h0, c0 = module._start(config, x, hx, True, rows) if hx else module._zeros(config, x, rows)
    h0.requires_grad_()
    return x.requires_grad_(), weights, h0, c0, sizes, None, config.encode(), 0.0, save


@pytest.mark.parametrize("kind", list(OURS))
@pytest.mark.parametrize("packed", [False, True])
def test_opcheck(kind, packed):
    module = OURS[kind](3, 4, 2)
    x, sizes = torch.randn(5, 2, 3), None
    if packed:
        x, sizes = pack_padded_sequence(x, torch.tensor([5, 3]))[:2]
    arguments = forward_arguments(module, x, sizes=sizes)
    torch.library.opcheck(torch.ops.drnn.rnn_forward.default, arguments)
    outputs, h, c, ticket = torch.ops.drnn.rnn_forward(*arguments)
    x, weights, h0, c0, sizes, seed, shape, dropout, _ = arguments
    given = [x.detach(), [w.detach() for w in weights], h0.detach(), c0, sizes]
    d = [torch.randn_like(t) for t in (outputs, h, c)]
    for needs_x in (True, False):
        torch.library.opcheck(
            torch.ops.drnn.rnn_backward.default,
            (*d, *given, seed, ticket.detach(), shape, dropout, needs_x),
        )


class Model(nn.Module):
    def __init__(self, **options):
        super().__init__()
        self.lstm = drnn.torch.LSTM(3, 5, 2, **options)
        self.linear = nn.Linear(5, 2)

    def forward(self, x, hx=None):
        output, last = self.lstm(x, hx)
        return self.linear(output), last


@pytest.mark.parametrize("backend", ["eager", "aot_eager", "inductor"])
def test_compile_without_graph_breaks(backend):
    torch._dynamo.reset()
    for options in [{}, dict(batch_first=True, bias=False), dict(delay=2)]:
        model = Model(**options)
        x = torch.randn(6, 4, 3)
        expected = model(x)[0]
        expected.square().sum().backward()
        gradients = [p.grad.clone() for p in model.parameters()]
        model.zero_grad()
        compiled = torch.compile(model, fullgraph=True, backend=backend)
        try:
            found = compiled(x)[0]
        except Exception as error:
            if backend == "inductor" and "compiler" in str(error).lower():
                pytest.skip("inductor has no C++ compiler here")
            raise
        found.square().sum().backward()
        assert torch.allclose(found, expected, atol=1e-6)
        for parameter, gradient in zip(model.parameters(), gradients):
            assert difference(parameter.grad, gradient) < 1e-5
        with torch.no_grad():
            assert torch.allclose(compiled(x)[0], expected, atol=1e-6)
        if backend == "inductor":
            break
    assert len(_passes.TICKETS) == 0


def test_compile_with_other_sizes_and_packed_input():
    torch._dynamo.reset()
    model = Model()
    compiled = torch.compile(model, fullgraph=True, backend="aot_eager", dynamic=True)
    for steps, rows in [(3, 2), (5, 4), (9, 3)]:
        x = torch.randn(steps, rows, 3)
        assert torch.allclose(compiled(x)[0], model(x)[0], atol=1e-6)
    torch._dynamo.reset()
    lstm = drnn.torch.LSTM(3, 5)

    def packed(x, lengths):
        x = pack_padded_sequence(x, lengths, enforce_sorted=False)
        return lstm(x)[0].data

    x, lengths = torch.randn(6, 3, 3), torch.tensor([4, 6, 2])
    found = torch.compile(packed, backend="aot_eager")(x, lengths)
    assert torch.allclose(found, packed(x, lengths), atol=1e-6)


@pytest.mark.parametrize("strict", [False, True])
def test_export(strict):
    model, x = Model(delay=2), torch.randn(6, 4, 3)
    exported = torch.export.export(model, (x,), strict=strict)
    assert any("drnn.rnn_forward" in str(node.target) for node in exported.graph.nodes)
    assert torch.equal(exported.module()(x)[0], model(x)[0])


def test_deterministic_mode_and_inference_mode():
    model, x, found = Model(), torch.randn(6, 4, 3), []
    torch.use_deterministic_algorithms(True)
    try:
        for _ in range(2):
            model.zero_grad()
            model(x)[0].square().sum().backward()
            found.append([p.grad.clone() for p in model.parameters()])
    finally:
        torch.use_deterministic_algorithms(False)
    assert all(torch.equal(a, b) for a, b in zip(*found))
    with torch.inference_mode():
        assert model(x)[0].is_inference()


def test_several_passes_before_backward_in_any_order():
    torch.manual_seed(2)
    module = drnn.torch.LSTM(3, 7, 2)
    xs = [torch.randn(steps, rows, 3) for steps, rows in [(4, 2), (9, 5), (1, 1), (4, 2), (6, 3)]]
    alone = []
    for x in xs:
        module.zero_grad()
        module(x)[0].square().sum().backward()
        alone.append([p.grad.clone() for p in module.parameters()])
    losses = [module(x)[0].square().sum() for x in xs]
    assert len(_passes.TICKETS) == len(xs)
    for i in [3, 0, 4, 2, 1]:
        module.zero_grad()
        losses[i].backward()
        for parameter, expected in zip(module.parameters(), alone[i]):
            assert torch.equal(parameter.grad, expected)
    assert len(_passes.TICKETS) == 0
    module.zero_grad()
    sum(module(x)[0].square().sum() for x in xs).backward()
    for i, parameter in enumerate(module.parameters()):
        assert difference(parameter.grad, sum(a[i] for a in alone)) < 1e-5


def test_backward_twice_and_a_freed_graph():
    module = drnn.torch.GRU(3, 5)
    x = torch.randn(4, 2, 3)
    loss = module(x)[0].square().sum()
    loss.backward(retain_graph=True)
    first = [p.grad.clone() for p in module.parameters()]
    module.zero_grad()
    loss.backward(retain_graph=True)
    assert all(torch.equal(p.grad, f) for p, f in zip(module.parameters(), first))
    loss.backward()
    with pytest.raises(RuntimeError, match="second time"):
        loss.backward()
    output, last = module(x)
    assert len(_passes.TICKETS) == 1
    del output, last
    gc.collect()
    assert len(_passes.TICKETS) == 0, "freed with the graph"
    output, _ = module(x)
    drnn.torch.empty_cache()
    output.sum().backward()


def test_memory_is_reused():
    module, x = drnn.torch.LSTM(8, 64), torch.randn(30, 16, 8)
    shape = _passes.shape_of(module._config())
    sizes = set()
    for _ in range(5):
        module(x)[0].sum().backward()
        sizes.add(shape.recurrence.pooled)
    assert len(sizes) == 1 and sizes.pop() > 0
    drnn.torch.empty_cache()
    assert shape.recurrence.pooled == 0


def test_input_changed_before_backward_is_an_error():
    module, x = drnn.torch.LSTM(3, 5), torch.randn(4, 2, 3)
    output, _ = module(x)
    x.add_(1)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        output.sum().backward()


def test_checkpointing_and_anomaly_mode():
    from torch.utils.checkpoint import checkpoint

    module, x = drnn.torch.LSTM(3, 5), torch.randn(4, 2, 3, requires_grad=True)
    module(x)[0].square().sum().backward()
    expected, x.grad = x.grad, None
    with torch.autograd.detect_anomaly(check_nan=True):
        checkpoint(lambda x: module(x)[0], x, use_reentrant=False).square().sum().backward()
    assert torch.equal(x.grad, expected)


@pytest.mark.parametrize("kind", list(OURS))
def test_second_derivatives(kind):
    for seed in range(40):
        case = Case(seed)
        if case.kind == kind and case.form == "padded":
            results = []
            for module, dtype in [(case.theirs, torch.float64), (case.ours, torch.float32)]:
                x = case.x.to(dtype).requires_grad_()
                y = module(x)[0]
                (g,) = torch.autograd.grad(y.square().sum(), x, create_graph=True)
                parameters = list(module.parameters())
                second = torch.autograd.grad(g.square().sum(), [x, *parameters], allow_unused=True)
                results.append([torch.zeros(()) if s is None else s for s in second])
            for expected, found in zip(*results):
                assert difference(found, expected) < 1e-4, str(case)
    module, x = drnn.torch.GRU(2, 3), torch.randn(3, 1, 2, requires_grad=True)
    (g,) = torch.autograd.grad(module(x)[0].square().sum(), x, create_graph=True)
    with pytest.raises(RuntimeError, match="third derivatives"):
        torch.autograd.grad(g.square().sum(), x, create_graph=True)


def test_forward_mode_and_transforms_are_torchs():
    theirs = nn.GRU(2, 3)
    module = drnn.torch.GRU(2, 3)
    module.load_state_dict(theirs.state_dict())
    x, tangent = torch.randn(4, 1, 2), torch.randn(4, 1, 2)
    expected = torch.func.jvp(lambda x: theirs(x)[0], (x,), (tangent,))
    found = torch.func.jvp(lambda x: module(x)[0], (x,), (tangent,))
    assert all(torch.allclose(f, e, atol=1e-6) for f, e in zip(found, expected))
    with torch.autograd.forward_ad.dual_level():
        dual = torch.autograd.forward_ad.make_dual(x, tangent)
        for needed in (True, False):
            output, _ = module.requires_grad_(needed)(dual)
            found = torch.autograd.forward_ad.unpack_dual(output).tangent
            assert torch.allclose(found, expected[1], atol=1e-6)


def test_threads():
    module = drnn.torch.LSTM(5, 24, 2)
    xs = [torch.randn(6 + i, 3 + i, 5) for i in range(6)]
    alone = []
    for x in xs:
        loss = module(x)[0].square().sum()
        alone.append(torch.autograd.grad(loss, list(module.parameters())))
    failed = []

    def work(i):
        try:
            for _ in range(20):
                loss = module(xs[i])[0].square().sum()
                found = torch.autograd.grad(loss, list(module.parameters()))
                assert all(torch.equal(f, a) for f, a in zip(found, alone[i]))
                with torch.no_grad():
                    module(xs[i])
        except Exception as error:
            failed.append(error)

    threads = [threading.Thread(target=work, args=(i,)) for i in range(6)]
    [thread.start() for thread in threads]
    [thread.join() for thread in threads]
    assert not failed, failed


def test_the_number_of_threads_changes_no_bit():
    module, x = drnn.torch.LSTM(5, 96), torch.randn(9, 40, 5)
    threads, found = torch.get_num_threads(), []
    try:
        for count in [1, 3, 2]:
            torch.set_num_threads(count)
            output = module(x)[0]
            found.append([output, *torch.autograd.grad(output.sum(), list(module.parameters()))])
    finally:
        torch.set_num_threads(threads)
    for other in found[1:]:
        assert all(torch.equal(a, b) for a, b in zip(found[0], other))


def test_a_forked_process_has_threads_of_its_own():
    module, x = drnn.torch.GRU(4, 8), torch.randn(5, 3, 4)
    module(x)[0].sum().backward()
    context = multiprocessing.get_context("fork")
    queue = context.Queue()
    child = context.Process(target=_forward_in_child, args=(module, x, queue))
    child.start()
    found = queue.get(timeout=60)
    child.join(60)
    assert child.exitcode == 0
    assert torch.equal(torch.from_numpy(found), module(x)[0].detach())


def _forward_in_child(module, x, queue):
    with torch.no_grad():
        module(x)
    queue.put(module(x)[0].detach().numpy().copy())
