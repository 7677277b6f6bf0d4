"""Streams equal runs, bit by bit; snapshots, batches of streams, bad input."""

import copy
import pickle

import numpy as np
import pytest

import drnn


def numbers(*shape, seed=0):
    return np.random.default_rng(seed).normal(size=shape).astype(np.float32)


SPECS = [
    drnn.NetSpec("lstm", inputs=3, units=8),
    drnn.NetSpec("gru", inputs=3, units=8, layers=2, delay=3, outputs=2),
    drnn.NetSpec("rnn", inputs=3, units=8, delay=2, padding="look-ahead", outputs=1),
    drnn.NetSpec("lstm", inputs=3, units=8, projection=4, delay=1),
]


@pytest.mark.parametrize("spec", SPECS, ids=str)
def test_a_stream_equals_a_run(spec):
    model, x = drnn.Model.init(spec), numbers(20, 3)
    expected, _ = model.run(x)
    stream = drnn.Stream(model)
    for _ in range(2):  # the second sequence begins anew
        found = [y for y in map(stream.push, x) if y is not None]
        assert stream.seen == 20
        np.testing.assert_array_equal(np.concatenate([*[y[None] for y in found], stream.finish()]),
                                      expected)  # fmt: skip
    many = np.concatenate([stream.push_many(x[:7]), stream.push_many(x[7:]), stream.finish()])
    np.testing.assert_array_equal(many, expected)


def test_snapshots_and_copies():
    model, x = drnn.Model.init(SPECS[1]), numbers(20, 3)
    stream = drnn.Stream(model)
    stream.push_many(x[:9])
    others = [drnn.Stream(model), copy.deepcopy(stream), pickle.loads(pickle.dumps(stream))]
    others[0].restore(stream.snapshot())
    expected = stream.push_many(x[9:])
    for other in others:
        np.testing.assert_array_equal(other.push_many(x[9:]), expected)
    for wrong in (b"", b"x" * 100, stream.snapshot()[:-1]):
        with pytest.raises(ValueError, match="snapshot"):
            stream.restore(wrong)
    with pytest.raises(ValueError, match="of another network"):
        drnn.Stream(drnn.Model.init(SPECS[1], seed=2)).restore(stream.snapshot())


def test_many_streams():
    model, x = drnn.Model.init(SPECS[1]), numbers(20, 5, 3)
    expected, _ = model.run(x)
    streams = drnn.StreamBatch(model)
    ids = [streams.join() for _ in range(5)]
    assert len(streams) == 5
    found = {id: [] for id in ids}
    for step in range(20):
        ready, y = streams.step(ids, x[step])
        for id, row in zip(ready, y):
            found[id].append(row)
    assert streams.seen(ids[0]) == 20
    alone = drnn.Stream(model)
    alone.restore(streams.snapshot(ids[3]))
    last = alone.finish()
    rest = streams.finish(ids)
    np.testing.assert_array_equal(rest[ids[3]], last)
    for row, id in enumerate(ids):
        np.testing.assert_array_equal(np.concatenate([found[id], rest[id]]), expected[:, row])
    assert len(streams) == 0
    with pytest.raises(ValueError, match="not live"):
        streams.leave(ids[0])


def test_bad_input():
    stream = drnn.Stream(drnn.Model.init(SPECS[0]))
    for x, error in [
        (numbers(2), r"`x` has shape \[2\], expected \[3\]"),
        (numbers(1, 3), "shape"),
        ([1.0, np.nan, 2.0], "NaN"),
        (None, "dtype"),
    ]:
        with pytest.raises((ValueError, TypeError), match=error):
            stream.push(x)
    assert stream.seen == 0
    stream.push([1, 2, 3])
    stream.push(numbers(6)[::2])
    with pytest.raises(ValueError, match="shape"):
        stream.push_many(numbers(3))
    with pytest.raises(ValueError, match="cannot stream"):
        drnn.Stream(drnn.Model.init(drnn.NetSpec("gru", inputs=2, units=3, bidirectional=True)))
    streams = drnn.StreamBatch(stream.model)
    a = streams.join()
    with pytest.raises(ValueError, match="named twice"):
        streams.step([a, a], numbers(2, 3))
    with pytest.raises(ValueError, match="2 elements for 1 streams"):
        streams.step([a], numbers(2, 3))
    with pytest.raises(TypeError):
        streams.step([1], numbers(1, 3))
    tokens = drnn.Stream(drnn.Model.init(drnn.NetSpec("gru", tokens=4, embedding=2, units=3)))
    assert tokens.push(2).shape == (3,)
    assert tokens.push(np.int64(2)).shape == (3,)
    for x in (4, -1, 1.5, "a"):
        with pytest.raises((ValueError, TypeError)):
            tokens.push(x)
