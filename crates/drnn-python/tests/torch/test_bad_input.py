"""Wrong input gives errors like torch's, and what drnn cannot compute torch does."""

import copy
import math
import warnings

import pytest

# The folder of these tests is called torch too, hence the name of a module inside.
pytest.importorskip("torch.nn", reason="PyTorch is not installed: pip install torch")

import torch
from cases import OURS, THEIRS, difference
from torch import nn
from torch.nn.utils.rnn import PackedSequence, pack_padded_sequence

import drnn.torch
from drnn.torch import _modules

KINDS = list(OURS)


def pair(kind, *sizes, **options):
    ours = OURS[kind](*sizes, **options)
    theirs = THEIRS[kind](*sizes, **options)
    theirs.load_state_dict(ours.state_dict())
    return ours, theirs


@pytest.mark.parametrize("kind", KINDS)
def test_errors_have_the_types_of_torch(kind):
    ours, theirs = pair(kind, 3, 5, 2)
    lstm = kind == "LSTM"

    def state(*shape, dtype=torch.float32):
        one = torch.zeros(*shape, dtype=dtype)
        return (one, one.clone()) if lstm else one

    x = torch.randn(4, 2, 3)
    wrong = [
        (torch.randn(4, 2, 4),),
        (torch.randn(3),),
        (torch.randn(1, 4, 2, 3),),
        (torch.randn(4, 2, 3).double(),),
        (torch.randint(9, (4, 2, 3)),),
        (torch.randn(4, 2, 3, dtype=torch.complex64),),
        (torch.randn(0, 2, 3),),
        (x, state(2, 3, 5)),
        (x, state(1, 2, 5)),
        (x, state(2, 2, 6)),
        (x, state(2, 5)),
        (x[:, 0], state(2, 1, 5)),
        (x, state(2, 2, 5, dtype=torch.float64)),
        (x.to("meta"),),
    ]
    for arguments in wrong:
        with pytest.raises(Exception) as expected, warnings.catch_warnings():
            warnings.simplefilter("ignore")
            theirs(*arguments)
        with pytest.raises(expected.type), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            ours(*arguments)
    for arguments in [("x",), (None,), (x, "x"), (x, 5), (x.numpy(),)]:
        with pytest.raises(Exception):
            ours(*arguments)
    if lstm:
        with pytest.raises(Exception):
            ours(x, (torch.zeros(2, 2, 5),))
    with pytest.raises(ValueError):
        OURS[kind](3, 0)
    with pytest.raises(ValueError):
        OURS[kind](3, 5, num_layers=0)
    with pytest.raises(ValueError):
        OURS[kind](3, 5, dropout=1.5)
    with pytest.raises(ValueError):
        drnn.torch.RNN(3, 5, nonlinearity="selu")


def test_packed_sequences_that_lie():
    module, data = drnn.torch.GRU(3, 5), torch.randn(6, 3)
    for sizes in [[3, 4], [3, 2], [6, 1], [0, 6], [7, -1], []]:
        with pytest.raises(Exception):
            module(PackedSequence(data, torch.tensor(sizes, dtype=torch.int64)))
    with pytest.raises(RuntimeError):
        module(pack_padded_sequence(torch.randn(4, 2, 3), torch.tensor([4, 0])))
    with pytest.raises(RuntimeError):
        module(PackedSequence(torch.randn(6, 2), torch.tensor([3, 3])))
    ahead = drnn.torch.GRU(3, 5, delay=2, padding="look-ahead")
    with pytest.raises(RuntimeError, match="more than 2"):
        ahead(pack_padded_sequence(torch.randn(4, 2, 3), torch.tensor([4, 2])))
    with pytest.raises(RuntimeError, match="more than 2"):
        ahead(torch.randn(2, 1, 3))


@pytest.mark.parametrize("kind", KINDS)
def test_empty_batches_and_layouts(kind):
    ours, theirs = pair(kind, 3, 5)
    found, expected = ours(torch.randn(4, 0, 3)), theirs(torch.randn(4, 0, 3))
    assert found[0].shape == expected[0].shape
    base = torch.randn(3, 4, 6)
    expanded = base[:1].expand(4, 4, 6)[..., :3]
    for x in [base.permute(2, 1, 0), base[:, :, ::2].permute(1, 0, 2), expanded]:
        assert not x.is_contiguous()
        assert torch.allclose(ours(x)[0], theirs(x)[0], atol=1e-6)
    x = torch.randn(4, 2, 3)
    with torch.no_grad():
        for module in (ours, theirs):
            ones = base.new_ones(5, module.weight_hh_l0.size(0))
            module.weight_hh_l0 = nn.Parameter(ones.t() / 9)
    assert torch.allclose(ours(x)[0], theirs(x)[0], atol=1e-6)
    # Gradients that are expanded, and gradients of states alone.
    for loss in [lambda r: r[0].sum(), lambda r: (r[1][0] if kind == "LSTM" else r[1]).sum()]:
        for module in (ours, theirs):
            module.zero_grad()
            loss(module(x)).backward()
        for p, q in zip(ours.parameters(), theirs.parameters()):
            assert difference(p.grad, q.grad) < 1e-5


@pytest.mark.parametrize("kind", KINDS)
def test_every_mix_of_requires_grad(kind):
    ours, theirs = pair(kind, 3, 5, 2)
    x0 = torch.randn(4, 2, 3)
    for mask in range(16):
        results = []
        for module in (ours, theirs):
            x = x0.clone().requires_grad_(bool(mask & 1))
            h = torch.full((2, 2, 5), 0.1, requires_grad=bool(mask & 2))
            module.zero_grad()
            module.weight_ih_l0.requires_grad_(bool(mask & 4))
            module.bias_hh_l1.requires_grad_(bool(mask & 4))
            module.weight_hh_l1.requires_grad_(bool(mask & 8))
            for name in ["weight_ih_l1", "weight_hh_l0", "bias_ih_l0", "bias_hh_l0", "bias_ih_l1"]:
                getattr(module, name).requires_grad_(bool(mask & 8))
            output, _ = module(x, (h, h) if kind == "LSTM" else h)
            assert output.requires_grad == (mask > 0)
            if mask:
                output.square().sum().backward()
            results.append([x.grad, h.grad, *(p.grad for p in module.parameters())])
        for found, expected in zip(*results):
            assert (found is None) == (expected is None)
            if found is not None:
                assert difference(found, expected) < 1e-5


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("value", [math.nan, math.inf])
def test_nan_and_infinity_spread_as_in_torch(kind, value):
    ours, theirs = pair(kind, 3, 5, 2)
    x = torch.randn(6, 3, 3)
    bad = x.clone()
    bad[3, 1, 0] = value
    packed = pack_padded_sequence(bad, torch.tensor([6, 5, 3]))
    for given in (bad, packed):
        found, expected = ours(given)[0], theirs(given)[0]
        if given is packed:
            found, expected = found.data, expected.data
        assert torch.allclose(found, expected, atol=1e-5, equal_nan=True)
        for module, output in ((ours, found), (theirs, expected)):
            module.zero_grad()
            output.nan_to_num(0.0).sum().backward()
        for p, q in zip(ours.parameters(), theirs.parameters()):
            assert torch.allclose(p.grad, q.grad, atol=1e-4, equal_nan=True)
    # Only the gradient is not finite: what torch.amp.GradScaler has to see.
    for module in (ours, theirs):
        module.zero_grad()
        output, _ = module(x)
        gradient = torch.ones_like(output)
        gradient[2, 0, 1] = value
        output.backward(gradient)
    for p, q in zip(ours.parameters(), theirs.parameters()):
        assert torch.equal(p.grad.isfinite(), q.grad.isfinite())
    with torch.no_grad():
        ours.weight_hh_l0[0, 0] = theirs.weight_hh_l0[0, 0] = value
    assert torch.allclose(ours(x)[0], theirs(x)[0], atol=1e-5, equal_nan=True)


def test_nan_after_the_end_of_a_sequence_is_not_read():
    module, x = drnn.torch.LSTM(3, 5), torch.randn(6, 2, 3)
    x[4:, 1] = math.nan
    output, _ = module(pack_padded_sequence(x, torch.tensor([6, 4])))
    assert output.data.isfinite().all()


def test_other_types_use_torch_with_one_warning():
    _modules._WARNED.clear()
    ours, theirs = (module.double() for module in pair("LSTM", 3, 5, 2, batch_first=True))
    x = torch.randn(2, 4, 3, dtype=torch.float64)
    with pytest.warns(UserWarning, match="torch.float64"):
        found = ours(x)[0]
    assert torch.equal(found, theirs(x)[0]) and found.dtype == torch.float64
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        ours(x)[0].sum().backward()
    double = drnn.torch.LSTM(2, 3, bias=False, delay=2, dtype=torch.float64)
    x = torch.randn(3, 2, 2, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(lambda x: double(x)[0], x)
    x = torch.randn(4, 2, 3)
    with pytest.warns(UserWarning, match="meta"):
        assert drnn.torch.GRU(3, 5, device="meta")(x.to("meta"))[0].shape == (4, 2, 5)


@pytest.mark.parametrize("kind", ["LSTM", "GRU", "RNN"])
@pytest.mark.parametrize("how", ["module", "autocast"])
def test_sixteen_bits_are_computed_with_thirty_two(kind, how):
    torch.manual_seed(6)
    ours, theirs = pair(kind, 3, 5, 2, batch_first=True)
    x = torch.randn(2, 9, 3)
    for dtype in [torch.bfloat16, torch.float16]:
        if how == "module":
            ours, theirs, x = ours.to(dtype), theirs.to(dtype), x.to(dtype)
        expected = copy.deepcopy(theirs).double()(x.double())[0]
        with warnings.catch_warnings(), torch.autocast("cpu", dtype, enabled=how == "autocast"):
            warnings.simplefilter("error")
            found, last = ours(x)
            try:
                torchs, torchs_last = theirs(x)
            except RuntimeError:  # oneDNN has no float16 on some processors
                torchs, torchs_last = found, last
        assert found.dtype == torchs.dtype
        states = zip(last, torchs_last) if kind == "LSTM" else [(last, torchs_last)]
        assert all(a.dtype == b.dtype for a, b in states)
        rounding = torch.finfo(found.dtype).eps / 2 * (1 + 1e-3) + 1e-6
        assert ((found.double() - expected).abs() <= rounding * expected.abs() + 1e-6).all()
        ours.zero_grad()
        found.float().square().sum().backward()
        assert all(p.grad is not None and p.grad.dtype == p.dtype for p in ours.parameters())


def test_delay_of_other_types_equals_drnn():
    torch.manual_seed(4)
    for padding in ["null", "look-ahead"]:
        ours = drnn.torch.GRU(3, 5, 2, delay=2, padding=padding)
        double = copy.deepcopy(ours).double()
        x = torch.randn(7, 3, 3)
        packed = pack_padded_sequence(x, torch.tensor([5, 7, 3]), enforce_sorted=False)
        assert difference(ours(x)[0], double(x.double())[0]) < 1e-5
        found, expected = ours(packed), double(packed.to(torch.float64))
        assert torch.equal(found[0].batch_sizes, expected[0].batch_sizes)
        assert difference(found[0].data, expected[0].data) < 1e-5
        assert difference(found[1], expected[1]) < 1e-5
