"""Models: shapes, files, state dicts, conversions, copies, and bad input."""

import copy
import pickle
import threading

import numpy as np
import pytest

import drnn


def numbers(*shape, seed=0):
    return np.random.default_rng(seed).normal(size=shape).astype(np.float32)


def model(cell="lstm", **options):
    options = {"inputs": 3, "units": 5, **options}
    return drnn.Model.init(drnn.NetSpec(cell, **options), seed=7)


def same(a, b):
    assert a.spec == b.spec
    for name, value in a.state_dict().items():
        np.testing.assert_array_equal(value, b.state_dict()[name])


def test_spec():
    spec = drnn.NetSpec(
        "gru", tokens=9, embedding=4, units=[5, 6], delay=2, padding=3, outputs=2
    )
    assert (spec.cell, spec.inputs, spec.tokens, spec.embedding) == ("gru", None, 9, 4)
    assert (spec.units, spec.layers, spec.delay, spec.padding) == ([5, 6], 2, 2, 3)
    assert (spec.bidirectional, spec.outputs, spec.projection) == (False, 2, None)
    assert spec == pickle.loads(pickle.dumps(spec)) == copy.deepcopy(spec)
    assert hash(spec) == hash(copy.copy(spec))
    assert spec != drnn.NetSpec("gru", inputs=4, units=5)
    assert "dgru(5 + 6 units, delay 2)" in repr(spec)
    assert drnn.NetSpec("lstm", inputs=2, units=8, layers=3, projection=4).units == [8, 8, 8]


@pytest.mark.parametrize(
    "wrong, error",
    [
        ({"cell": "lstn"}, "cell 'lstn'"),
        ({"units": 0}, "no units"),
        ({"units": []}, "no layers"),
        ({"units": "many"}, "units must be"),
        ({"units": -1}, "units must be"),
        ({"inputs": 0}, "width 0"),
        ({"inputs": None}, "give inputs="),
        ({"tokens": 4, "embedding": 2}, "one of the two"),
        ({"delay": 3, "bidirectional": True}, "a delay of 3 on a bidirectional network"),
        ({"padding": "zeros"}, "padding 'zeros'"),
        ({"padding": 1}, "padding with symbol 1 needs token input"),
        ({"padding": True}, "padding must be"),
        ({"outputs": 0}, "0 values"),
        ({"projection": 5}, "a projection to 5 values"),
        ({"layers": 2, "units": [3, 4]}, "layers="),
        ({"layers": 10**12}, "layers"),
        ({"units": 10**15}, "too large"),
    ],
)
def test_specs_that_make_no_sense(wrong, error):
    options = {"cell": "lstm", "inputs": 3, "units": 5, **wrong}
    with pytest.raises((ValueError, TypeError), match=error):
        drnn.NetSpec(options.pop("cell"), **options)


CASES = [
    ("LSTM", {}, {}),
    ("LSTM", {"num_layers": 2, "bidirectional": True}, {}),
    ("LSTM", {"proj_size": 3}, {}),
    ("LSTM", {"bias": False}, {}),
    ("GRU", {"num_layers": 3}, {}),
    ("RNN", {}, {}),
    ("RNN", {"nonlinearity": "relu", "bidirectional": True}, {"nonlinearity": "relu"}),
]


@pytest.mark.parametrize("kind, options, import_options", CASES)
@pytest.mark.parametrize("batch_first", [False, True])
def test_equals_torch(torch, kind, options, import_options, batch_first):
    torch.manual_seed(1)
    module = getattr(torch.nn, kind)(3, 5, batch_first=batch_first, **options)
    ours = drnn.Model.from_state_dict(module.state_dict(), **import_options)
    x = torch.randn(4, 7, 3)
    layers = options.get("num_layers", 1) * (2 if options.get("bidirectional") else 1)
    rows = 4 if batch_first else 7
    h0 = torch.randn(layers, rows, options.get("proj_size", 5))
    start = (h0, torch.randn(layers, rows, 5)) if kind == "LSTM" else h0
    for state in (None, start):
        with torch.no_grad():
            y, last = module(x, state)
        found, ours_last = ours.run(x, state=state, batch_first=batch_first)
        np.testing.assert_allclose(found, y.numpy(), atol=2e-6)
        pairs = zip(last, ours_last) if kind == "LSTM" else [(last, ours_last)]
        for expected, state_found in pairs:
            np.testing.assert_allclose(state_found, expected.numpy(), atol=2e-6)
    back = {name: torch.tensor(value) for name, value in ours.state_dict().items()}
    if options.get("bias", True):
        module.load_state_dict(back, strict=True)


def test_lengths_equal_torch(torch):
    module = torch.nn.GRU(3, 5, bidirectional=True)
    x, lengths = torch.randn(6, 3, 3), [6, 2, 4]
    packed = torch.nn.utils.rnn.pack_padded_sequence(x, lengths, enforce_sorted=False)
    with torch.no_grad():
        y, _ = torch.nn.utils.rnn.pad_packed_sequence(module(packed)[0])
    found, _ = drnn.Model.from_state_dict(module.state_dict()).run(x, lengths)
    np.testing.assert_allclose(found, y.numpy(), atol=2e-6)


def test_batch_first_and_one_sequence_are_the_same_numbers():
    for net in (model(), model(delay=2, outputs=4), model("gru", layers=2)):
        x = numbers(7, 4, 3)
        y, _ = net.run(x)
        turned, _ = net.run(x.swapaxes(0, 1), batch_first=True)
        np.testing.assert_array_equal(turned.swapaxes(0, 1), y)
        one, state = net.run(x[:, 2])
        np.testing.assert_array_equal(one, y[:, 2])
        again, _ = net.run(x[:, 2], state=state)
        assert again.shape == one.shape
    tokens = drnn.Model.init(drnn.NetSpec("lstm", tokens=6, embedding=2, units=4))
    ids = np.arange(6).reshape(3, 2)
    y, _ = tokens.run(ids)
    np.testing.assert_array_equal(tokens.run(ids.T, batch_first=True)[0].swapaxes(0, 1), y)
    np.testing.assert_array_equal(tokens.run(ids[:, 1])[0], y[:, 1])


def test_layers_of_different_widths_have_a_state_each():
    net = model(units=[4, 6])
    _, (h, c) = net.run(numbers(5, 2, 3))
    assert [part.shape for part in h] == [(1, 2, 4), (1, 2, 6)]
    y, _ = net.run(numbers(5, 2, 3), state=(h, c))
    assert y.shape == (5, 2, 6)


def test_other_dtypes_and_strides_are_converted():
    net, x = model(), numbers(6, 2, 3)
    y, _ = net.run(x)
    readonly = x.copy()
    readonly.flags.writeable = False
    for other in (x.astype(np.float64), np.asfortranarray(x), readonly, x.tolist()):
        np.testing.assert_array_equal(net.run(other)[0], y)
    np.testing.assert_array_equal(net.run(np.repeat(x, 2, axis=0)[::2])[0], y)
    half = x.astype(np.float16)
    np.testing.assert_array_equal(net.run(half)[0], net.run(half.astype(np.float32))[0])
    assert net.run(np.ones((2, 1, 3), int))[0].shape == (2, 1, 5)


@pytest.mark.parametrize(
    "x, error",
    [
        (np.zeros((3, 4), np.float32), r"`x` has shape \[3, 4\], expected \[T, B, 3\] or \[T, 3\]"),
        (np.zeros((2, 2, 2, 3)), "shape"),
        (np.float32(1), "shape"),
        (np.full((2, 1, 3), np.nan), "`x` holds NaN at position 0"),
        (np.full((2, 1, 3), np.inf), "`x` holds inf"),
        ("text", "dtype"),
        (None, "dtype"),
        (np.zeros((2, 1, 3), complex), "complex128"),
        # NumPy before 1.24 makes objects of it.
        ([[1.0], [1.0, 2.0]], "not an array of numbers|dtype object"),
    ],
)
def test_bad_input(x, error):
    with pytest.raises((ValueError, TypeError), match=error):
        model().run(x)


def test_bad_lengths_states_and_tokens():
    net, x = model(), numbers(4, 2, 3)
    for lengths, error in [
        ([4], "`lengths` has 1 value"),
        ([4, 5], "length 5 of sequence 1"),
        ([4, -1], "-1"),
        ([4.0, 2.0], "expected integers"),
        ([[4, 4]], "one dimension"),
    ]:
        with pytest.raises((ValueError, TypeError), match=error):
            net.run(x, lengths)
    h = np.zeros((1, 2, 5), np.float32)
    for state, error in [
        (h, "tuple"),
        ((h, h[:, :1]), r"`state c` has shape \[1, 1, 5\], expected \[1, 2, 5\]"),
        ((h * np.nan, h), "NaN"),
    ]:
        with pytest.raises((ValueError, TypeError), match=error):
            net.run(x, state=state)
    tokens = drnn.Model.init(drnn.NetSpec("gru", tokens=6, embedding=2, units=4))
    for x, error in [
        ([[6]], "token 6 at step 0 of sequence 0 is not below 6"),
        ([[-1]], "no token"),
        ([[2**40]], "no token"),
        (np.zeros((2, 2), np.float32), "input is vectors"),
        (np.zeros((2, 2, 2), int), "shape"),
    ]:
        with pytest.raises((ValueError, TypeError), match=error):
            tokens.run(x)


def test_too_large():
    """An error, where a failed allocation would end the interpreter."""
    huge = drnn.NetSpec("lstm", inputs=3, units=3_000_000)
    with pytest.raises(MemoryError, match="no memory"):
        drnn.Model.init(huge)
    late = drnn.Model.init(drnn.NetSpec("lstm", inputs=3, units=64, delay=1 << 20))
    with pytest.raises(ValueError, match="too large|memory"):
        late.run(np.zeros((1, 100_000, 3), np.float32))


def test_nothing_to_do():
    net = model(outputs=2)
    assert net.run(np.zeros((0, 2, 3)))[0].shape == (0, 2, 2)
    assert net.run(np.zeros((4, 0, 3)))[0].shape == (4, 0, 2)
    y, (h, _) = net.run(numbers(4, 2, 3), [0, 4])
    assert not y[:, 0].any() and not h[:, 0].any()


def test_files(tmp_path):
    net = model(delay=2, outputs=2)
    net.save(tmp_path / "a.safetensors")
    same(drnn.Model.load(tmp_path / "a.safetensors"), net)
    net.save(str(tmp_path / "half"), dtype="float16")
    half = drnn.Model.load(str(tmp_path / "half"))
    np.testing.assert_allclose(half.run(numbers(5, 3))[0], net.run(numbers(5, 3))[0], atol=1e-2)
    with pytest.raises(FileNotFoundError, match="nothing.safetensors"):
        drnn.Model.load(tmp_path / "nothing.safetensors")
    with pytest.raises(IsADirectoryError):
        drnn.Model.load(tmp_path)
    with pytest.raises(OSError):
        net.save(tmp_path / "no" / "folder")
    (tmp_path / "broken").write_bytes(b"x" * 100)
    with pytest.raises(ValueError, match="safetensors"):
        drnn.Model.load(tmp_path / "broken")
    with pytest.raises(ValueError, match="dtype 'int8'"):
        net.save(tmp_path / "b", dtype="int8")


def test_torch_files(torch, tmp_path):
    class Net(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.embedding = torch.nn.Embedding(9, 4)
            self.rnn = torch.nn.LSTM(4, 6)
            self.fc = torch.nn.Linear(6, 2)

        def forward(self, x):
            return self.fc(self.rnn(self.embedding(x))[0])

    module, x = Net(), torch.randint(9, (7, 3))
    torch.save(module.state_dict(), tmp_path / "a.pt")
    expected = module(x).detach().numpy()
    from_file = drnn.Model.load(tmp_path / "a.pt")
    for net in (from_file, drnn.Model.from_state_dict(module.state_dict())):
        assert (net.spec.tokens, net.spec.outputs) == (9, 2)
        np.testing.assert_allclose(net.run(x)[0], expected, atol=2e-6)
    alone = drnn.Model.load(tmp_path / "a.pt", prefix="rnn", embedding=False, output=False)
    assert (alone.spec.inputs, alone.spec.outputs) == (4, None)


def test_state_dicts():
    net = model("gru", layers=2, outputs=3)
    same(drnn.Model.from_state_dict(net.state_dict()), net)
    flat = net.flatten()
    same(drnn.Model.from_state_dict(flat.state_dict(), spec=flat.spec), flat)
    changed = net.state_dict()
    changed["weight_ih_l0"][:] = 0
    assert net.state_dict()["weight_ih_l0"].any()
    for wrong, error in [
        ({}, "state dict"),
        (5, "must map names"),
        ({"weight_ih_l0": np.zeros((3, 3))}, "state dict"),
    ]:
        with pytest.raises((ValueError, TypeError), match=error):
            drnn.Model.from_state_dict(wrong)
    with pytest.raises(ValueError, match="missing tensor"):
        drnn.Model.from_state_dict({}, spec=net.spec)
    with pytest.raises(ValueError, match="unexpected tensor 'x'"):
        drnn.Model.from_state_dict({**net.state_dict(), "x": np.zeros(1)}, spec=net.spec)
    with pytest.raises(ValueError, match="expected"):
        drnn.Model.from_state_dict({**net.state_dict(), "output.bias": [0.0]}, spec=net.spec)


def test_flatten_and_back():
    stack = model(units=4, layers=3, outputs=2)
    flat = stack.flatten()
    assert (flat.spec.layers, flat.spec.delay) == (1, 2)
    x = numbers(9, 2, 3)
    np.testing.assert_array_equal(flat.run(x)[0], stack.run(x)[0])
    same(flat.unflatten(), stack)
    with pytest.raises(ValueError):
        model(bidirectional=True).flatten()
    with pytest.raises(ValueError, match="start 'free'"):
        stack.flatten("free")
    late = model(outputs=1).delayed(2)
    assert late.spec.delay == 2


def test_export(onnxruntime, tmp_path):
    net, x = model(layers=2, delay=1, outputs=2), numbers(6, 2, 3)
    net.export_onnx(tmp_path / "a.onnx")
    session = onnxruntime.InferenceSession(str(tmp_path / "a.onnx"))
    np.testing.assert_allclose(session.run(["y"], {"x": x})[0], net.run(x)[0], atol=2e-6)
    net.export_onnx(tmp_path / "step.onnx", step=True)
    same(drnn.Model.load(tmp_path / "a.onnx"), net)


def test_copies_and_pickles():
    for net in (model(), model("gru", layers=2).flatten(), model(units=[3, 4], delay=2)):
        for other in (copy.copy(net), copy.deepcopy(net), pickle.loads(pickle.dumps(net))):
            same(other, net)


def test_threads():
    net, x = model(units=32), numbers(50, 4, 3)
    expected, wrong = net.run(x)[0], []

    def work():
        for _ in range(20):
            if not np.array_equal(net.run(x)[0], expected):
                wrong.append(1)

    threads = [threading.Thread(target=work) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


def test_quantised_models_run_stream_and_come_back(tmp_path):
    spec = drnn.NetSpec("lstm", inputs=5, units=64, outputs=3, delay=2)
    model = drnn.Model.init(spec)
    x = np.random.default_rng(0).normal(size=(20, 5)).astype(np.float32)
    whole, _ = model.run(x)
    for weights, far in (("f16", 1e-3), ("bf16", 1e-2), ("int8", 5e-2)):
        small = model.quantize(weights)
        assert small.weight_format == weights
        y, _ = small.run(x)
        assert 0 < np.abs(y - whole).max() < far
        stream = drnn.Stream(small)
        live = [out for out in map(stream.push, x) if out is not None] + list(stream.finish())
        assert np.array_equal(np.stack(live), y)
        small.save(tmp_path / "m.safetensors")
        for copy in (drnn.Model.load(tmp_path / "m.safetensors"), pickle.loads(pickle.dumps(small))):
            assert copy.weight_format == weights
            assert np.array_equal(copy.run(x)[0], y)
    with pytest.raises(ValueError, match="int4"):
        model.quantize("int4")
