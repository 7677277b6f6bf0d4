"""Delayed recurrent networks: RNN, LSTM and GRU, run, streamed and trained."""

from drnn._drnn import __version__

__all__ = ["__version__"]
