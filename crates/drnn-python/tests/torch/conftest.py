"""Fixtures of tests without a GPU, where a stand-in for the kernels takes their place, and on one."""

from on_hopper import passes  # noqa: F401
from stand_in import on_gpu, operators, stand_in  # noqa: F401
