"""LSTM, GRU and RNN with the interface of torch.nn's."""

from __future__ import annotations

import warnings

import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import PackedSequence

from . import _cuda, _cuda_function
from ._config import Config, Inputs
from ._function import is_transformed, recurrence
from ._passes import shape_of
from ._reference import reference

_WARNED: set[str] = set()
# torch.amp.is_autocast_available cannot be compiled by older versions of torch.
_AUTOCAST_DEVICES = tuple(
    kind for kind in ("cpu", "cuda", "xpu", "mps") if torch.amp.is_autocast_available(kind)
)
_COMPUTED_IN_FLOAT32 = (torch.float32, torch.bfloat16, torch.float16)
_VMAP, _GRAD = torch._C._functorch.TransformType.Vmap, torch._C._functorch.TransformType.Grad
_HAS_ONEDNN = torch.backends.mkldnn.is_available()


def _warn(reason: str) -> None:
    if torch.compiler.is_compiling() or reason in _WARNED:
        return
    _WARNED.add(reason)
    warnings.warn(f"drnn.torch: {reason}; torch's own operator is used", stacklevel=4)


def _autocast(x: Tensor) -> bool:
    kind = x.device.type
    return kind in _AUTOCAST_DEVICES and torch.is_autocast_enabled(kind)


def _transforms() -> list:
    """Those of ``torch.func`` that the call stands in."""
    stack = torch._C._functorch.get_interpreter_stack() or []
    return [interpreter.key() for interpreter in stack]


def _has_higher_derivatives() -> bool:
    """Whether the call is differentiated forward, or more than once by ``torch.func``."""
    if torch.compiler.is_compiling():
        return False
    if torch.autograd.forward_ad._current_level >= 0:
        return True
    kinds = _transforms()
    return kinds.count(_GRAD) > 1 or any(kind not in (_VMAP, _GRAD) for kind in kinds)


# Multiply-adds from which drnn's inference of an LSTM is faster than torch's at any width: 1.1 to 1.9
# times. Below, torch's was 1.0 to 1.6 times as fast from 128 units on.
_LONG_PASS = 3_000_000_000


def _torch_is_faster(config: Config, x: Tensor, batch_sizes: Tensor | None) -> bool:
    """Whether torch has a kernel for inference that is as fast: its fused LSTM (oneDNN), which needs
    padded sequences."""
    fused = _HAS_ONEDNN and config.mode == "LSTM" and config.proj_size == 0
    plain = batch_sizes is None and config.delay == 0 and not config.connections
    if not fused or not plain or config.hidden_size < 128 or is_transformed():
        return False
    return x.numel() // config.input_size * config.multiply_adds() < _LONG_PASS


class _Recurrent(nn.RNNBase):
    """What the modules share. Parameters, their initial values and ``state_dict`` are RNNBase's."""

    delay: int
    padding: str

    def _set_delay(self, delay: int, padding: str) -> None:
        if isinstance(delay, bool) or not isinstance(delay, int) or delay < 0:
            raise ValueError(f"delay must be a number of steps, 0 or more, got {delay!r}")
        if padding not in ("null", "look-ahead"):
            raise ValueError(f'padding must be "null" or "look-ahead", got {padding!r}')
        self.delay, self.padding = delay, padding
        if delay:
            shape_of(self._config())  # raises where a delay makes no sense

    def _config(self) -> Config:
        sizes = self.input_size, self.hidden_size, self.num_layers
        delay = self.delay, self.delay > 0 and self.padding == "look-ahead"
        return Config(self.mode, *sizes, bool(self.bidirectional), self.proj_size, *delay)

    def extra_repr(self) -> str:
        text = super().extra_repr()
        return f"{text}, delay={self.delay}, padding={self.padding}" if self.delay else text

    def forward(self, input, hx=None, reset=None):
        """Outputs and last states, as torch.nn's modules return them.

        Arguments:
            input: (T, B, q), (B, T, q) with ``batch_first``, (T, q), or a ``PackedSequence``.
            hx: start states, h_0 or for an LSTM (h_0, c_0); zeros if None.
            reset: a mask (T, B), or as the input lies. Where it is true, states are zero before
                that element is read: the beginning of another episode.
        """
        config = self._config()
        x, batch_sizes, order, original_order = input, None, None, None
        batched = True
        if isinstance(input, PackedSequence):
            x, batch_sizes, order, original_order = input
        else:
            if x.dim() not in (2, 3):
                raise ValueError(
                    f"{type(self).__name__}: Expected input to be 2D or 3D, got {x.dim()}D instead"
                )
            batched = x.dim() == 3
            if not batched:
                x = x.unsqueeze(1)
            elif self.batch_first:
                x = x.transpose(0, 1)
        weights = [getattr(self, name) for name in config.names(self.bias)]
        self._check_input(x, weights, batch_sizes)
        if batch_sizes is None:
            rows = x.size(1)
        elif order is not None:
            rows = order.size(0)
        else:
            rows = int(batch_sizes[0])
        h0, c0 = self._start(config, x, hx, batched, rows)
        if order is not None and h0 is not None:
            h0 = h0.index_select(1, order)
            c0 = None if c0 is None else c0.index_select(1, order)
        if reset is not None:
            output, h, c = self._run_episodes(config, x, weights, h0, c0, batch_sizes, reset)
        else:
            output, h, c = self._run(config, x, weights, h0, c0, batch_sizes, rows)

        if batch_sizes is not None:
            batch_sizes = batch_sizes[config.ahead :]
            output = PackedSequence(output, batch_sizes, order, original_order)
            if original_order is not None:
                h = h.index_select(1, original_order)
                c = None if c is None else c.index_select(1, original_order)
        elif not batched:
            output, h, c = output.squeeze(1), h.squeeze(1), None if c is None else c.squeeze(1)
        elif self.batch_first:
            output = output.transpose(0, 1)
        return output, (h if c is None else (h, c))

    def _check_input(self, x: Tensor, weights: list[Tensor], batch_sizes: Tensor | None) -> None:
        if x.dtype != weights[0].dtype and not _autocast(x):
            raise ValueError(
                f"RNN input dtype ({x.dtype}) does not match weight dtype ({weights[0].dtype}). "
                f"Convert the input, input.to({weights[0].dtype}), or the module, .to({x.dtype})"
            )
        expected = 3 if batch_sizes is None else 2
        if x.dim() != expected:
            raise RuntimeError(f"input must have {expected} dimensions, got {x.dim()}")
        if x.size(-1) != self.input_size:
            raise RuntimeError(
                f"input.size(-1) must be equal to input_size. Expected {self.input_size}, got "
                f"{x.size(-1)}"
            )

    def _start(self, config: Config, x: Tensor, hx, batched: bool, rows: int):
        """h_0 and c_0 (layers * directions, B, n); c_0 of an LSTM only. None for zeros, if nobody
        needs them as tensors."""
        count = self.num_layers * config.directions
        sizes = [(count, rows, config.state_size), (count, rows, config.hidden_size)]
        lstm = config.has_cell_state
        if hx is None:
            return None, None
        states = list(hx) if lstm else [hx]
        if len(states) != 1 + lstm:
            raise RuntimeError(f"expected (h_0, c_0), got {len(states)} states")
        expected = 3 if batched else 2
        for i, (state, size) in enumerate(zip(states, sizes)):
            if state.dim() != expected:
                batch = "batched 3-D" if batched else "unbatched 2-D"
                raise RuntimeError(
                    f"For {batch} input, hx should also be {expected}-D but got "
                    f"{state.dim()}-D tensor"
                )
            state = state if batched else state.unsqueeze(1)
            if tuple(state.size()) != size:
                name = f"hidden[{i}]" if lstm else "hidden"
                raise RuntimeError(f"Expected {name} size {size}, got {list(state.size())}")
            states[i] = state
        return states[0], states[1] if lstm else None

    def _result_type(self, x: Tensor) -> torch.dtype:
        """That of torch.nn's results: of a GRU under autocast on the CPU it is float32."""
        if not _autocast(x):
            return x.dtype
        if self.mode == "GRU" and not x.is_cuda:
            return torch.float32
        return torch.get_autocast_dtype(x.device.type)

    def _zeros(self, config: Config, x: Tensor, rows: int):
        """Start states where none are given."""
        count = self.num_layers * config.directions
        h0 = torch.zeros(count, rows, config.state_size, dtype=x.dtype, device=x.device)
        if not config.has_cell_state:
            return h0, None
        return h0, torch.zeros(count, rows, config.hidden_size, dtype=x.dtype, device=x.device)

    def _obstacle_on_gpu(
        self, config: Config, x: Tensor, weights, h0, c0, batch_sizes, rows: int, dtype
    ) -> str | None:
        """Why drnn's kernels for GPUs cannot be used; empty where nothing is lost by it."""
        compiling = torch.compiler.is_compiling()
        tensors = [x, *weights, *(state for state in (h0, c0) if state is not None)]
        unusual = self._unusual(x)
        if unusual is not None:
            return unusual
        found = _cuda.obstacle(config, x, tensors, dtype, _autocast(x), compiling)
        if found is not None or compiling:
            return found
        steps = x.size(0) if batch_sizes is None else batch_sizes.size(0)
        elements = steps * rows if batch_sizes is None else x.size(0)
        # torch's operator cannot be mapped.
        if not is_transformed() and _cuda.is_better_by_torch(config, elements, steps, rows):
            return ""
        return _cuda.too_large(x.device.index, config, steps, rows)

    def _obstacle(self, x: Tensor, tensors) -> str | None:
        """Why drnn's kernels cannot be used; empty where nothing is lost by it."""
        for tensor in tensors:
            if tensor.device.type != "cpu":
                return f"there is no kernel for device {tensor.device.type} yet"
            if tensor.dtype not in _COMPUTED_IN_FLOAT32:
                return f"there is no kernel for {tensor.dtype}"
            if tensor.layout != torch.strided:
                return f"there is no kernel for layout {tensor.layout}"
        return self._unusual(x)

    def _unusual(self, x: Tensor) -> str | None:
        """The same for what no kernel does."""
        if _has_higher_derivatives():
            return "there are no forward-mode and no higher derivatives of torch.func"
        if self.dropout >= 1 and self.training:
            return "everything is dropped"
        if x.numel() == 0 or self.hidden_size == 0 or self.num_layers > 1000:
            return ""
        if torch.jit.is_tracing() or torch.onnx.is_in_onnx_export():
            return ""
        return None

    def _run(self, config: Config, x, weights, h0, c0, batch_sizes, rows: int):
        """Outputs, h_n and c_n; h_0 and c_0 may be None, which are zeros."""
        dropout = float(self.dropout) if self.training and self.num_layers > 1 else 0.0
        obstacle = None
        if _cuda.is_on_gpu(x):
            dtype = self._result_type(x)
            given = config, x, weights, h0, c0, batch_sizes
            obstacle = self._obstacle_on_gpu(*given, rows, dtype)
            if obstacle is None:
                compiling = torch.compiler.is_compiling()
                transformed = not compiling and is_transformed()
                if h0 is None and (compiling or transformed):
                    h0, c0 = self._zeros(config, x, rows)  # whose size a graph has to know
                if transformed and not self.bias:
                    weights = self._with_biases(config, weights)
                given = config, x, weights, h0, c0, batch_sizes
                return _cuda_function.run(*given, dtype, dropout)
        if h0 is None:
            h0, c0 = self._zeros(config, x, rows)
        tensors = [*weights, x, h0] if c0 is None else [*weights, x, h0, c0]
        if obstacle is None:
            obstacle = self._obstacle(x, tensors)
        if obstacle is not None:
            if not torch.compiler.is_compiling() and _VMAP in _transforms():
                raise RuntimeError(
                    f"drnn.torch: {obstacle or 'empty input'}, and torch's own operator cannot be "
                    "mapped by torch.vmap; use float32 on the CPU, or one network after another"
                )
            if obstacle:
                _warn(obstacle)
            how = self.dropout, self.training
            return reference(config, x, weights, self.bias, h0, c0, batch_sizes, *how)
        save = torch.is_grad_enabled() and any(tensor.requires_grad for tensor in tensors)
        if not save and dropout == 0 and _torch_is_faster(config, x, batch_sizes):
            return reference(config, x, weights, self.bias, h0, c0, batch_sizes, 0.0, False)
        if _autocast(x) or any(tensor.dtype != torch.float32 for tensor in tensors):
            return self._run_in_float32(config, x, weights, h0, c0, batch_sizes)
        if not self.bias:
            weights = self._with_biases(config, weights)
        seed = torch.randint(2**62, ()) if dropout > 0 else None
        inputs = Inputs(x, weights, h0, c0, batch_sizes, seed, dropout)
        output, h, c = recurrence(config, inputs, save)
        return output, h, None if c0 is None else c

    def _run_in_float32(self, config: Config, x, weights, h0, c0, batch_sizes):
        """Input, parameters and states of 16 bits, or autocast to them: computed with 32. Results
        have the type of torch.nn's, which for a GRU under autocast is float32."""
        dtype = self._result_type(x)
        with torch.autocast("cpu", enabled=False):
            x, h0, c0 = (None if t is None else t.float() for t in (x, h0, c0))
            weights = [weight.float() for weight in weights]
            results = self._run(config, x, weights, h0, c0, batch_sizes, h0.size(1))
        return tuple(None if result is None else result.to(dtype) for result in results)

    def _with_biases(self, config: Config, weights: list[Tensor]) -> list[Tensor]:
        """The weights of a module without biases, and zeros for them."""
        zeros = torch.zeros(config.bias_size, device=weights[0].device)
        each = len(weights) // (1 if config.connections else self.num_layers * config.directions)
        layers = (weights[i : i + each] for i in range(0, len(weights), each))
        return [weight for w in layers for weight in (w[0], w[1], zeros, zeros, *w[2:])]

    def _run_episodes(self, config: Config, x, weights, h0, c0, batch_sizes, reset):
        """Cuts each sequence where its states are reset; the pieces are one packed batch."""
        if batch_sizes is not None or config.bidirectional or config.delay:
            raise ValueError(
                "reset needs a padded input and a module without delay that is not bidirectional"
            )
        steps, rows = x.shape[:2]
        if reset.dim() == 1 and rows == 1:
            reset = reset.unsqueeze(1)
        elif self.batch_first:
            reset = reset.transpose(0, 1)
        if tuple(reset.shape) != (steps, rows):
            raise RuntimeError(
                f"Expected reset for {steps} steps of {rows} sequences, got {list(reset.shape)}"
            )
        reset = reset.to(device=x.device, dtype=torch.bool)
        if reset.numel() == 0:
            return self._run(config, x, weights, h0, c0, None, rows)
        if h0 is None:
            h0, c0 = self._zeros(config, x, rows)
        # Pieces, sequence after sequence: where each begins, and how long it is.
        begins = reset.t().clone()
        begins[:, 0] = True
        starts = begins.reshape(-1).nonzero().squeeze(1)
        row, step = starts // steps, starts % steps
        ends = torch.cat([starts[1:], starts.new_tensor([rows * steps])])
        lengths, order = torch.sort(ends - starts, descending=True, stable=True)
        row, step = row[order], step[order]
        # Elements in packed order, as rows of x (T * B, q).
        time = torch.arange(int(lengths[0]), device=x.device).unsqueeze(1)
        alive = time < lengths
        index = ((step + time) * rows + row)[alive]
        sizes = alive.sum(1).cpu()
        # The first piece of a sequence has its start state, unless that is reset too.
        keeps = ((step == 0) & ~reset[0, row]).to(x.dtype).view(1, -1, 1)
        h0, c0 = (None if s is None else s.index_select(1, row) * keeps for s in (h0, c0))
        packed = x.reshape(steps * rows, -1).index_select(0, index)
        output, h, c = self._run(config, packed, weights, h0, c0, sizes, h0.size(1))
        place = torch.empty_like(index)
        place[index] = torch.arange(index.numel(), device=x.device)
        output = output.index_select(0, place).view(steps, rows, -1)
        is_last = (step + lengths == steps).nonzero().squeeze(1)
        last = is_last[torch.argsort(row[is_last])]
        return output, h.index_select(1, last), None if c is None else c.index_select(1, last)


class LSTM(_Recurrent):
    """``torch.nn.LSTM`` on drnn's kernels, with an optional delay.

    >>> import torch, drnn.torch
    >>> lstm = drnn.torch.LSTM(8, 16, num_layers=2, batch_first=True)
    >>> output, (h, c) = lstm(torch.randn(4, 10, 8))
    >>> output.shape
    torch.Size([4, 10, 16])
    """

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        num_layers: int = 1,
        bias: bool = True,
        batch_first: bool = False,
        dropout: float = 0.0,
        bidirectional: bool = False,
        proj_size: int = 0,
        device=None,
        dtype=None,
        *,
        delay: int = 0,
        padding: str = "null",
    ):
        sizes = input_size, hidden_size, num_layers, bias, batch_first, dropout, bidirectional
        super().__init__("LSTM", *sizes, proj_size, device, dtype)
        self._set_delay(delay, padding)


class GRU(_Recurrent):
    """``torch.nn.GRU`` on drnn's kernels, with an optional delay."""

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        num_layers: int = 1,
        bias: bool = True,
        batch_first: bool = False,
        dropout: float = 0.0,
        bidirectional: bool = False,
        device=None,
        dtype=None,
        *,
        delay: int = 0,
        padding: str = "null",
    ):
        sizes = input_size, hidden_size, num_layers, bias, batch_first, dropout, bidirectional
        super().__init__("GRU", *sizes, 0, device, dtype)
        self._set_delay(delay, padding)


class RNN(_Recurrent):
    """``torch.nn.RNN`` on drnn's kernels, with an optional delay."""

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        num_layers: int = 1,
        nonlinearity: str = "tanh",
        bias: bool = True,
        batch_first: bool = False,
        dropout: float = 0.0,
        bidirectional: bool = False,
        device=None,
        dtype=None,
        *,
        delay: int = 0,
        padding: str = "null",
    ):
        modes = {"tanh": "RNN_TANH", "relu": "RNN_RELU"}
        if nonlinearity not in modes:
            raise ValueError(
                f"Unknown nonlinearity '{nonlinearity}'. Select from 'tanh' or 'relu'."
            )
        sizes = input_size, hidden_size, num_layers, bias, batch_first, dropout, bidirectional
        super().__init__(modes[nonlinearity], *sizes, 0, device, dtype)
        self.nonlinearity = nonlinearity
        self._set_delay(delay, padding)


class DelayedLSTM(LSTM):
    """An LSTM whose output for element t is its hidden state d steps later.

    >>> import torch, drnn.torch
    >>> lstm = drnn.torch.DelayedLSTM(8, 16, delay=3)
    >>> output, (h, c) = lstm(torch.randn(10, 4, 8))
    >>> output.shape
    torch.Size([10, 4, 16])
    """

    def __init__(self, input_size: int, hidden_size: int, delay: int, **options):
        super().__init__(input_size, hidden_size, delay=delay, **options)


class DelayedGRU(GRU):
    """A GRU whose output for element t is its hidden state d steps later."""

    def __init__(self, input_size: int, hidden_size: int, delay: int, **options):
        super().__init__(input_size, hidden_size, delay=delay, **options)


class DelayedRNN(RNN):
    """An RNN whose output for element t is its hidden state d steps later."""

    def __init__(self, input_size: int, hidden_size: int, delay: int, **options):
        super().__init__(input_size, hidden_size, delay=delay, **options)
