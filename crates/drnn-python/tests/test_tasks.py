"""Task models: tables of every kind, in the units of their data."""

import numpy as np
import pytest

import drnn


def table(rows=400, seed=1):
    x = np.random.default_rng(seed).normal(size=rows) * 10 + 50
    return {"x": x, "y": np.roll(x, -1) * 3}


@pytest.fixture(scope="module")
def trained():
    return drnn.train_series(table(), target="y", net="dgru", units=8, delay=1, epochs=40)


def test_tagger():
    tagger = drnn.load("tagger-en")
    assert (tagger.task, tagger.info["reads"]["kind"]) == ("tagger", "words")
    words = ["The", "cat", "sat", "."]
    tagged = tagger.tag("The cat sat.")
    assert [word for word, _ in tagged] == words
    assert tagger.tag(words) == tagged
    assert tagger.tag([words, ["Time", "flies"]])[0] == tagged
    assert all(0 < p <= 1 for _, _, p in tagger.tag(words, probabilities=True))
    assert tagger.tag("") == tagger.tag([]) == []
    assert tagger.tag([[], words]) == [[], tagged]
    for wrong in ([1, 2], 5, [["a"], 3]):
        with pytest.raises(TypeError):
            tagger.tag(wrong)
    with pytest.raises(TypeError, match=r"predict\(\) needs a model of the task series"):
        tagger.predict({})
    with pytest.raises(TypeError, match="two networks"):
        _ = tagger.model


@pytest.mark.parametrize("name", ["chars-en", "chars-en-bilstm"])
def test_characters(name):
    model = drnn.load(name)
    filled, others = model.fill("the capit#l of fr#nce", mask="#", alternatives=True)
    assert (len(filled), len(others)) == (21, 2)
    assert filled[9] == others[0][0][0]
    assert model.fill("plain") == "plain"
    assert model.fill("") == ""
    assert model.model.spec.tokens
    with pytest.raises(ValueError, match="one character"):
        model.fill("a", mask="__")


def test_tables_of_every_kind(trained, pandas, pyarrow):
    columns = table()
    expected = trained.predict(columns)["y"]
    assert expected.shape == (400,)
    error = expected[:-1] - columns["y"][:-1]
    assert np.sqrt(np.mean(error**2)) < 0.3 * columns["y"].std()
    frame = pandas.DataFrame(columns, index=pandas.RangeIndex(10, 410))
    found = trained.predict(frame)
    assert isinstance(found, pandas.DataFrame) and list(found.index[:2]) == [10, 11]
    np.testing.assert_array_equal(found["y"], expected)
    found = trained.predict(pyarrow.table(columns))
    assert isinstance(found, pyarrow.Table)
    np.testing.assert_array_equal(found["y"].to_numpy(), expected)
    structured = np.array(list(zip(columns["x"])), dtype=[("x", float)])
    np.testing.assert_array_equal(trained.predict(structured)["y"], expected)
    np.testing.assert_array_equal(trained.predict(columns["x"])[:, 0], expected)
    np.testing.assert_array_equal(trained.predict(columns["x"][:, None])[:, 0], expected)


def test_files(trained, tmp_path):
    trained.save(tmp_path / "model.safetensors")
    model = drnn.load(tmp_path / "model.safetensors")
    assert (model.task, model.info["answers"]["names"]) == ("series", ["y"])
    np.testing.assert_array_equal(model.predict(table())["y"], trained.predict(table())["y"])
    again = tmp_path / "again.safetensors"
    model.save(again)
    assert again.read_bytes() == (tmp_path / "model.safetensors").read_bytes()
    assert drnn.Stream(model.model).push([0.5]) is None
    with pytest.raises(FileNotFoundError):
        drnn.load("no-such-model")


def test_a_network_without_a_task(tmp_path):
    net = drnn.Model.init(drnn.NetSpec("gru", inputs=2, units=4, outputs=3))
    net.save(tmp_path / "plain.safetensors")
    x = np.random.default_rng(0).normal(size=(9, 2)).astype("f")
    found = drnn.load(tmp_path / "plain.safetensors").predict(x)
    np.testing.assert_allclose(found, net.run(x)[0], atol=1e-6)


@pytest.mark.parametrize(
    "wrong, error",
    [
        ({"z": np.zeros(3)}, "no column 'x' among z"),
        ({}, "no column 'x'"),
        ({"x": np.zeros((3, 2))}, "expected one axis"),
        ({"x": [1.0], "z": [1.0, 2.0]}, "differ in their lengths"),
        ({"x": ["a", "b"]}, "a"),
        ({"x": [1.0, np.inf]}, "finite"),
        ({"x": [1.0, np.nan]}, "missing"),
        (np.zeros((3, 2)), "2 columns, expected 1: x"),
        ("text", "expected a dict"),
        (None, "expected a dict"),
    ],
)
def test_bad_tables(trained, wrong, error):
    with pytest.raises((ValueError, TypeError), match=error):
        trained.predict(wrong)


def test_an_empty_table(trained):
    assert trained.predict({"x": np.zeros(0)})["y"].shape == (0,)
