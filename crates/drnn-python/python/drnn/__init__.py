"""Delayed recurrent networks: RNN, LSTM and GRU, run, streamed and trained.

>>> import drnn
>>> spec = drnn.NetSpec("lstm", inputs=1, units=16, delay=3, outputs=1)
>>> model = drnn.Model.init(spec, seed=1)
>>> y, state = model.run([[0.5], [0.1], [-0.3], [0.8]])
>>> y.shape
(4, 1)

`drnn.torch` has modules in place of PyTorch's; it is imported on its own, with PyTorch.
"""

from drnn._drnn import Model, NetSpec, Stream, StreamBatch, StreamId, __version__
from drnn._tasks import TaskModel, load
from drnn._training import Sweep, Training, sweep, train_series

__all__ = [
    "Model",
    "NetSpec",
    "Stream",
    "StreamBatch",
    "StreamId",
    "Sweep",
    "TaskModel",
    "Training",
    "__version__",
    "load",
    "sweep",
    "train_series",
]
