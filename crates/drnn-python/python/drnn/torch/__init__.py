"""Recurrent modules for PyTorch that run on drnn's kernels.

Three lines speed up the training of an existing model::

    import drnn.torch
    model = MyModel()                # has nn.LSTM, nn.GRU or nn.RNN somewhere inside
    drnn.torch.replace(model)        # the same parameters, outputs and gradients

``LSTM``, ``GRU`` and ``RNN`` have the constructor, the call, the parameter names and the
``state_dict`` of ``torch.nn``'s, and two more options: with ``delay=d`` the output for element t is
the hidden state d steps later, ``y_t = h_{t+d}``, so that it has seen the d elements that follow.
``padding`` says what is read after the end of a sequence: ``"null"``, vectors of zeros, or with
``"look-ahead"`` the last d elements of the input itself, which then have no outputs.

float32 on the CPU runs on drnn's kernels, and what docs/PYTHON.md says on GPUs. Everything else
uses torch's own operator, with a warning.
"""

try:
    import torch as _torch  # noqa: F401
except ImportError as error:
    raise ImportError("drnn.torch needs PyTorch: pip install torch") from error

from ._ensemble import Ensemble
from ._flatten import Flattened, flatten, unflatten
from ._modules import GRU, LSTM, RNN, DelayedGRU, DelayedLSTM, DelayedRNN
from ._passes import empty_cache
from ._replace import replace

__all__ = [
    "LSTM",
    "GRU",
    "RNN",
    "DelayedLSTM",
    "DelayedGRU",
    "DelayedRNN",
    "Ensemble",
    "Flattened",
    "flatten",
    "unflatten",
    "replace",
    "empty_cache",
]
