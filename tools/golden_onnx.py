#!/usr/bin/env python3
"""Makes crates/drnn/tests/golden/onnx_*: graphs of other exporters, with ONNX Runtime's outputs.

    python tools/golden_onnx.py torch graphs     needs torch, onnx, onnxscript, onnxruntime, safetensors
    python tools/golden_onnx.py keras            needs tensorflow, tf2onnx, onnxruntime, safetensors

Each `onnx_NAME.onnx` comes with `onnx_NAME.safetensors`: `x` [T, B, q] or `tokens` [T, B], and `y`,
[T, B, m], or [B, m] where the graph has outputs for the last step only.
"""

import sys
import warnings
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
from onnx import TensorProto, helper, numpy_helper
from safetensors.numpy import save_file

FOLDER = Path(__file__).resolve().parent.parent / "crates/drnn/tests/golden"
T, B = 6, 2
RANDOM = np.random.default_rng(3)


def expected(name, batch_first, tokens, width=3, output=0):
    """Runs the graph, and stores what went in and came out as drnn has it, time first."""
    path = FOLDER / f"onnx_{name}.onnx"
    session = onnxruntime.InferenceSession(path.read_bytes())
    x = RANDOM.integers(0, 9, (T, B)) if tokens else RANDOM.standard_normal((T, B, width)).astype(np.float32)
    fed = np.ascontiguousarray(x.swapaxes(0, 1)) if batch_first else x
    kinds = {"tensor(int32)": np.int32, "tensor(int64)": np.int64, "tensor(double)": np.float64}
    first = session.get_inputs()[0]
    feeds = {first.name: fed.astype(kinds.get(first.type, np.float32))}
    for state in session.get_inputs()[1:]:
        feeds[state.name] = np.zeros([n if isinstance(n, int) else B for n in state.shape], np.float32)
    y = session.run(None, feeds)[output].astype(np.float32)
    if batch_first and y.ndim == 3:
        y = y.swapaxes(0, 1)
    key = "tokens" if tokens else "x"
    stored = {key: x.astype(np.float32), "y": np.ascontiguousarray(y)}
    save_file(stored, FOLDER / f"onnx_{name}.safetensors")


def torch_exports():
    """What PyTorch's two exporters write."""
    import torch
    from torch import nn

    class Net(nn.Module):
        def __init__(self, kind, take="all", words=True, **options):
            super().__init__()
            self.embedding = nn.Embedding(9, 3) if words else nn.Identity()
            self.rnn = getattr(nn, kind)(3, 4, **options)
            self.fc = nn.Linear(8 if options.get("bidirectional") else 4, 5)
            self.take, self.batch_first = take, options.get("batch_first")

        def forward(self, x):
            y, last = self.rnn(self.embedding(x))
            if self.take == "last":
                y = y[:, -1] if self.batch_first else y[-1]
            if self.take == "final":
                y = (last[0] if isinstance(last, tuple) else last)[-1]
            return self.fc(y)

    class Two(nn.Module):
        """An encoder, whose states a layer normalises, and a decoder."""

        def __init__(self):
            super().__init__()
            self.encoder, self.norm = nn.GRU(3, 4, num_layers=2), nn.LayerNorm(4)
            self.decoder, self.head = nn.GRU(4, 2), nn.Sequential(nn.Linear(2, 3), nn.ReLU(), nn.Linear(3, 2))

        def forward(self, x):
            return self.head(self.decoder(self.norm(self.encoder(x)[0]))[0])

    torch.manual_seed(4)
    both = dict(num_layers=2, bidirectional=True, batch_first=True)
    nets = dict(
        lstm=Net("LSTM"),
        bigru=Net("GRU", **both),
        relu=Net("RNN", take="last", batch_first=True, nonlinearity="relu"),
        final=Net("LSTM", take="final", words=False, num_layers=2, bias=False),
        two=Two(),
    )
    for name, net in nets.items():
        words, batch_first = isinstance(getattr(net, "embedding", None), nn.Embedding), getattr(net, "batch_first", False)
        x = torch.randint(0, 9, (T, B)) if words else torch.randn(T, B, 3)
        if batch_first:
            x = x.transpose(0, 1).contiguous()
        path = FOLDER / f"onnx_torch_{name}.onnx"
        axes = {"x": {0: "a", 1: "b"}}
        torch.onnx.export(net.eval(), (x,), path, dynamo=False, dynamic_axes=axes, input_names=["x"])
        expected(f"torch_{name}", batch_first, words)
        if name in ("relu", "two"):  # the newer exporter writes a plain RNN out in simple operators
            continue
        sizes = ({0: torch.export.Dim("a"), 1: torch.export.Dim("b")},)
        path = FOLDER / f"onnx_dynamo_{name}.onnx"
        program = torch.onnx.export(net.eval(), (x,), dynamo=True, dynamic_shapes=sizes, verbose=False)
        program.save(path, external_data=False)
        strip(path)
        expected(f"dynamo_{name}", batch_first, words)


def strip(path):
    """Removes what exporters note about themselves: stack traces with their folders."""
    model = onnx.load(path)
    for node in model.graph.node:
        del node.metadata_props[:]
        node.doc_string = ""
    for value in [*model.graph.input, *model.graph.output, *model.graph.value_info, *model.graph.initializer]:
        del value.metadata_props[:]
        value.doc_string = ""
    del model.graph.value_info[:], model.metadata_props[:], model.graph.metadata_props[:]
    onnx.save(model, path)


def keras_exports():
    """What tf2onnx writes."""
    import tensorflow as tf
    import tf2onnx
    from tensorflow import keras

    layers = keras.layers
    keras.utils.set_random_seed(5)
    random = dict(bias_initializer="uniform")
    models = dict(
        lstm=[layers.LSTM(4, return_sequences=True, **random), layers.LSTM(4, return_sequences=True, **random),
              layers.Dense(5, **random)],
        words=[layers.Embedding(9, 3), layers.LSTM(4, return_sequences=True), layers.Dense(5, activation="softmax")],
        both=[layers.Bidirectional(layers.LSTM(4, return_sequences=True, **random)), layers.Dense(5, **random)],
        last=[layers.LSTM(4, **random), layers.Dense(5, activation="sigmoid", **random)],
    )
    for name, stack in models.items():
        words = name == "words"
        shape, kind = ((None,), tf.int32) if words else ((None, 3), tf.float32)
        model = keras.Sequential([keras.Input(shape=shape, dtype=kind), *stack])
        signature = (tf.TensorSpec((None, *shape), kind, name="x"),)
        function = tf.function(lambda x: model(x, training=False), input_signature=signature)
        path = FOLDER / f"onnx_keras_{name}.onnx"
        tf2onnx.convert.from_function(function, input_signature=signature, opset=15, output_path=str(path))
        expected(f"keras_{name}", True, words)


def weights(operator, directions=1, q=3, n=4, dtype=np.float32, suffix=""):
    gates = dict(LSTM=4, GRU=3, RNN=1)[operator]
    draw = lambda *shape: (RANDOM.standard_normal(shape) / 2).astype(dtype)
    arrays = dict(W=draw(directions, gates * n, q), R=draw(directions, gates * n, n), B=draw(directions, 2 * gates * n))
    return [numpy_helper.from_array(array, key + suffix) for key, array in arrays.items()]


def save(name, nodes, initializers, inputs, outputs, batch_first=False, tokens=False, opset=14):
    graph = helper.make_graph(nodes, "g", inputs, outputs, initializers)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], producer_name="by hand")
    model.ir_version = 8
    onnx.checker.check_model(model)
    onnx.save(model, FOLDER / f"onnx_{name}.onnx")
    expected(name, batch_first, tokens)


def graphs():
    """Graphs of older exporters (keras2onnx, CNTK), by hand."""
    value = lambda name, *shape: helper.make_tensor_value_info(name, TensorProto.FLOAT, shape)
    table = numpy_helper.from_array(RANDOM.standard_normal((9, 3)).astype(np.float32), "embedding/embeddings:0")
    kernel = numpy_helper.from_array(RANDOM.standard_normal((4, 5)).astype(np.float32), "dense/kernel:0")
    bias = numpy_helper.from_array(RANDOM.standard_normal(5).astype(np.float32), "dense/bias:0")
    axis = numpy_helper.from_array(np.array([1]), "one")
    node = helper.make_node
    # Keras's GRU with its reset gate before the product.
    nodes = [
        node("Cast", ["x"], ["ids"], to=TensorProto.INT32),
        node("Gather", [table.name, "ids"], ["embedded"]),
        node("Transpose", ["embedded"], ["gru_X"], perm=[1, 0, 2]),
        node("GRU", ["gru_X", "W", "R", "B"], ["gru_Y"], name="gru", hidden_size=4, linear_before_reset=0,
             activations=["Sigmoid", "Tanh"]),
        node("Transpose", ["gru_Y"], ["moved"], perm=[2, 1, 0, 3]),
        node("Squeeze", ["moved", "one"], ["gru/y"]),
        node("MatMul", ["gru/y", kernel.name], ["product"], name="dense"),
        node("Add", ["product", bias.name], ["sum"]),
        node("Softmax", ["sum"], ["y"], axis=-1),
    ]
    save("gru_before", nodes, [*weights("GRU"), table, kernel, bias, axis], [value("x", "b", "t")],
         [value("sum", "b", "t", 5), value("y", "b", "t", 5)], batch_first=True, tokens=True)
    # Weights in 64 bits, cast; transposed; both directions joined by Concat.
    moved = [numpy_helper.from_array(np.ascontiguousarray(numpy_helper.to_array(t).astype(np.float64).T), t.name + "_T")
             for t in weights("LSTM", 2)]
    nodes = []
    for tensor in moved:
        nodes.append(node("Cast", [tensor.name], [tensor.name + "32"], to=TensorProto.FLOAT))
        nodes.append(node("Transpose", [tensor.name + "32"], [tensor.name[0]]))
    zero, two = (numpy_helper.from_array(np.array([i]), key) for i, key in ((0, "zero"), (2, "two")))
    nodes += [
        node("LSTM", ["x", "W", "R", "B"], ["Y"], direction="bidirectional", hidden_size=4),
        node("Slice", ["Y", "zero", "one", "one"], ["f"]),
        node("Slice", ["Y", "one", "two", "one"], ["b"]),
        node("Squeeze", ["f", "one"], ["f1"]),
        node("Squeeze", ["b", "one"], ["b1"]),
        node("Concat", ["f1", "b1"], ["y"], axis=2),
    ]
    save("both", nodes, [*moved, zero, axis, two], [value("x", "t", "b", 3)], [value("y", "t", "b", 8)])
    # The same network in both branches of an If, each with weights outside.
    branch = lambda key, w: helper.make_graph(
        [node("RNN", ["x", f"W{w}", f"R{w}", f"B{w}"], [f"Y{w}"], name=f"/{key}/RNN", hidden_size=4),
         node("Squeeze", [f"Y{w}", "one"], [f"y{w}"])],
        key, [], [value(f"y{w}", "t", "b", 4)])
    condition = numpy_helper.from_array(np.array(True), "condition")
    nodes = [node("If", ["condition"], ["y"], then_branch=branch("then", 1), else_branch=branch("else", 2))]
    save("branches", nodes, [*weights("RNN", suffix="1"), *weights("RNN", suffix="2"), axis, condition],
         [value("x", "t", "b", 3)], [value("y", "t", "b", 4)])


if __name__ == "__main__":
    warnings.filterwarnings("ignore")
    onnxruntime.set_default_logger_severity(3)
    parts = dict(torch=torch_exports, keras=keras_exports, graphs=graphs)
    for part in sys.argv[1:] or parts:
        parts[part]()
