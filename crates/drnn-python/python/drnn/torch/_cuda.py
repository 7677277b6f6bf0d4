"""Which calls drnn's kernels for GPUs take, and their plans.

The kernels that run all time steps in one launch need a GPU of the Hopper generation and 16-bit
input: modules of that type, or autocast. DRNN_TORCH_CUDA=0 in the environment switches them off.
"""

from __future__ import annotations

import contextlib
import importlib.util
import os
from functools import lru_cache

import torch
from torch import Tensor

from drnn._drnn import CudaRecurrence, add_cuda_library_folders

from ._config import Config

_ENABLED = os.environ.get("DRNN_TORCH_CUDA") != "0"
_FORMATS = {torch.float16: "float16", torch.bfloat16: "bfloat16"}
_CONVERTED = (torch.float32, torch.float16, torch.bfloat16)
# Steps of all layers and directions: cuDNN takes some microseconds for each, and a call of drnn as
# many as for about 48 of them, to submit its work.
_FEWEST_STEPS = 48
# Values: kernels index arrays with padding, to 32 columns or more, with 32 bits.
_LARGE_BATCH = 1 << 27
_MOST_PADDING = 8  # times the elements of a packed batch
SIDE_STREAMS = 4  # for networks that run side by side
_SAME_DEVICE = contextlib.nullcontext()


def _library_folders() -> list[str]:
    """Where NVIDIA's packages of this Python environment have NVRTC and cuBLAS: those of torch."""
    found = importlib.util.find_spec("nvidia")
    roots = [] if found is None else list(found.submodule_search_locations or [])
    major = (torch.version.cuda or "").split(".")[0]
    inside = [f"cu{major}", "cuda_nvrtc", "cublas"]
    folders = [os.path.join(root, folder, "lib") for root in roots for folder in inside]
    return [folder for folder in folders if os.path.isdir(folder)]


@lru_cache(maxsize=1)
def _find_libraries() -> None:
    add_cuda_library_folders(_library_folders())  # those of DRNN_CUDA_LIB come before them


def _new_plan(device: int, config: Config, steps: int, rows: int, format: str, training: bool):
    _find_libraries()
    mode, q, n, layers, both, *_ = config
    return CudaRecurrence(device, mode, q, n, layers, both, steps, rows, format, training)


@lru_cache(maxsize=256)
def _refusal(device: int, config: Config) -> str | None:
    """Why there is no fast kernel for a network."""
    try:
        plan = _new_plan(device, config, 1, 1, "float16", True)
    except (RuntimeError, ValueError) as error:
        return str(error)
    if plan.is_persistent:
        return None
    return f"there is no kernel for {config.mode} of {config.hidden_size} units on this GPU"


def _refusal_of(device: int, text: str) -> str | None:
    """The same for an encoded configuration."""
    return _refusal(device, Config.decode(text))


# As torch.compiler.assume_constant_result, which would import all of the compiler: the result is a
# constant of the compiled code.
_refusal_of._dynamo_marked_constant = True


@lru_cache(maxsize=256)
def _refusal_of_batch(device: int, config: Config, steps: int, rows: int) -> str | None:
    try:
        _new_plan(device, config, steps, rows, "float16", True)
    except (RuntimeError, ValueError) as error:
        return str(error)
    return None


def too_large(device: int, config: Config, steps: int, rows: int) -> str | None:
    """Why a batch is too large for a network that has kernels; computed for large ones only."""
    steps += 0 if config.look_ahead else config.delay
    if steps * rows * max(config.output_size, config.input_size) < _LARGE_BATCH:
        return None
    return _refusal_of_batch(device, undelayed(config), steps, rows)


def is_better_by_torch(config: Config, elements: int, steps: int, rows: int) -> bool:
    """Whether cuDNN's operator has ended before drnn's work is submitted, or the padded batch, which
    kernels read, takes far more memory than the packed elements."""
    is_short = steps * config.num_layers * config.directions < _FEWEST_STEPS
    return is_short or steps * rows > _MOST_PADDING * elements


@lru_cache(maxsize=256)
def loaded_plan(
    device: int, config: Config, steps: int, rows: int, dtype: torch.dtype, training: bool
):
    """The kernels for batches of one shape, compiled and loaded, so that calls may be captured in a
    CUDA graph."""
    if is_capturing():
        raise RuntimeError(
            f"drnn.torch: the kernels for {steps} steps of {rows} sequences are not loaded; run "
            "the module once before it is captured in a CUDA graph"
        )
    plan = _new_plan(device, config, steps, rows, _FORMATS[dtype], training)
    with device_guard(device):
        plan.warm_up()
    return plan


def is_on_gpu(x: Tensor) -> bool:
    return x.is_cuda


def is_capturing() -> bool:
    return torch.cuda.is_current_stream_capturing()


def raw_stream(device: int) -> int:
    """torch's current stream, as a `cudaStream_t`."""
    return torch._C._cuda_getCurrentRawStream(device)


@lru_cache(maxsize=64)
def _side_streams_of(device: int, current: int) -> list[torch.cuda.Stream]:
    """Each current stream has its own: it may be captured while another thread's is not."""
    return [torch.cuda.Stream(device) for _ in range(SIDE_STREAMS)]


@contextlib.contextmanager
def side_streams(device: int, count: int):
    """Up to SIDE_STREAMS streams for work that begins after that of the current stream, and that the
    current stream waits for; one is the current stream."""
    if count == 1:
        yield [raw_stream(device)]
        return
    current = torch.cuda.current_stream(device)
    streams = _side_streams_of(device, current.cuda_stream)[:count]
    for stream in streams:
        stream.wait_stream(current)
    try:
        yield [stream.cuda_stream for stream in streams]
    finally:
        for stream in streams:
            current.wait_stream(stream)


def device_guard(device: int):
    """drnn makes the device current for the thread; this restores the one before."""
    return _SAME_DEVICE if torch.cuda.current_device() == device else torch.cuda.device(device)


def undelayed(config: Config) -> Config:
    return config._replace(delay=0, look_ahead=False)


def obstacle(
    config: Config,
    x: Tensor,
    tensors: list[Tensor],
    dtype: torch.dtype,
    autocast: bool,
    compiling: bool,
) -> str | None:
    """Why these kernels cannot be used for `tensors`, x among them, computed as `dtype`; None if
    they can, empty where torch has an error to report."""
    if not _ENABLED:
        return "the kernels for CUDA are switched off (DRNN_TORCH_CUDA=0)"
    if not (compiling or torch.backends.cudnn.enabled):  # so that it can be differentiated twice
        return "cuDNN is switched off (torch.backends.cudnn.enabled)"
    if dtype not in _FORMATS:
        return f"there is no kernel for {dtype} on CUDA; use autocast"
    if config.proj_size or config.connections:
        return "there is no kernel for projections and connected blocks on CUDA"
    device, own = x.device, x.dtype
    for tensor in tensors:
        if tensor.device != device or not (autocast or tensor.dtype == own):
            return ""
        if tensor.dtype not in _CONVERTED:
            return f"there is no kernel for {tensor.dtype} on CUDA"
    config = undelayed(config) if config.delay else config
    if compiling:
        return _refusal_of(device.index, config.encode())
    return _refusal(device.index, config)
