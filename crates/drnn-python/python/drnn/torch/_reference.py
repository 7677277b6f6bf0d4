"""The same networks by torch's own operators, for what drnn's kernels do not compute."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn.utils.rnn import PackedSequence, pack_padded_sequence, pad_packed_sequence

_GATES = {"LSTM": 4, "GRU": 3, "RNN_TANH": 1, "RNN_RELU": 1}
_OPERATORS = {
    "LSTM": torch.lstm,
    "GRU": torch.gru,
    "RNN_TANH": torch.rnn_tanh,
    "RNN_RELU": torch.rnn_relu,
}


class Config(NamedTuple):
    """A stack of recurrent layers without its parameters."""

    mode: str
    input_size: int
    hidden_size: int
    num_layers: int
    bidirectional: bool
    proj_size: int
    delay: int
    look_ahead: bool

    def encode(self) -> str:
        """As an argument of the operators, whose arguments are tensors, numbers and text."""
        return " ".join([self.mode, *(str(int(field)) for field in self[1:])])

    @staticmethod
    def decode(text: str) -> Config:
        mode, q, n, layers, both, p, delay, ahead = text.split(" ")
        sizes = int(q), int(n), int(layers), both == "1", int(p), int(delay)
        return Config(mode, *sizes, ahead == "1")

    @property
    def directions(self) -> int:
        return 2 if self.bidirectional else 1

    @property
    def state_size(self) -> int:
        """Width of h."""
        return self.proj_size or self.hidden_size

    @property
    def output_size(self) -> int:
        return self.directions * self.state_size

    @property
    def has_cell_state(self) -> bool:
        return self.mode == "LSTM"

    @property
    def bias_size(self) -> int:
        return _GATES[self.mode] * self.hidden_size

    def shapes(self) -> list[tuple[int, ...]]:
        """Of all parameters with biases, in torch's order, which is drnn's too."""
        rows, shapes = self.bias_size, []
        for layer in range(self.num_layers):
            width = self.input_size if layer == 0 else self.output_size
            for _ in range(self.directions):
                shapes += [(rows, width), (rows, self.state_size), (rows,), (rows,)]
                if self.proj_size:
                    shapes.append((self.proj_size, self.hidden_size))
        return shapes

    def multiply_adds(self) -> int:
        """Of one step of one sequence."""
        return sum(shape[0] * shape[1] for shape in self.shapes() if len(shape) == 2)

    def names(self, bias: bool) -> list[str]:
        """Of the parameters, in the same order."""
        names = []
        for layer in range(self.num_layers):
            for suffix in ["", "_reverse"][: self.directions]:
                names += [f"weight_ih_l{layer}{suffix}", f"weight_hh_l{layer}{suffix}"]
                if bias:
                    names += [f"bias_ih_l{layer}{suffix}", f"bias_hh_l{layer}{suffix}"]
                if self.proj_size:
                    names.append(f"weight_hr_l{layer}{suffix}")
        return names

    def split(self, params: Tensor) -> list[Tensor]:
        """The flat vector of parameters as views."""
        shapes = self.shapes()
        sizes = [shape[0] * shape[1] if len(shape) == 2 else shape[0] for shape in shapes]
        return [part.view(shape) for part, shape in zip(params.split(sizes), shapes)]


def reference(
    config: Config,
    x: Tensor,
    weights: list[Tensor],
    has_biases: bool,
    h0: Tensor,
    c0: Tensor | None,
    batch_sizes: Tensor | None,
    dropout: float,
    train: bool,
) -> tuple[Tensor, Tensor, Tensor | None]:
    """Outputs, h_n and c_n of x (T, B, q), or (N, q) where `batch_sizes` says it is packed."""
    hx = h0 if c0 is None else (h0, c0)
    operator = _OPERATORS[config.mode]
    how = (has_biases, config.num_layers, dropout, train, config.bidirectional)
    delay = config.delay
    if batch_sizes is None:
        if delay and not config.look_ahead:
            x = torch.nn.functional.pad(x, (0, 0, 0, 0, 0, delay))
        if delay >= x.size(0):
            raise RuntimeError(
                f"{x.size(0)} elements, expected more than {delay}: the last are only looked at"
            )
        output, *last = operator(x, hx, weights, *how, False)
        return output[delay:], last[0], last[1] if c0 is not None else None
    lengths = None
    if delay:
        padded, lengths = pad_packed_sequence(PackedSequence(x, batch_sizes))
        if config.look_ahead and int(lengths.min()) <= delay:
            raise RuntimeError(
                f"every sequence needs more than {delay} elements: the last {delay} are only "
                "looked at"
            )
        if not config.look_ahead:
            padded = torch.nn.functional.pad(padded, (0, 0, 0, 0, 0, delay))
            lengths = lengths + delay
        x, batch_sizes = pack_padded_sequence(padded, lengths)[:2]
    output, *last = operator(x, batch_sizes, hx, weights, *how)
    if lengths is not None:
        padded, _ = pad_packed_sequence(PackedSequence(output, batch_sizes))
        output = pack_padded_sequence(padded[delay:], lengths - delay).data
    return output, last[0], last[1] if c0 is not None else None
