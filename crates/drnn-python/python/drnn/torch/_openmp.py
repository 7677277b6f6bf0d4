"""torch's idle threads.

After each parallel region, torch's OpenMP threads wait for the next one in a busy loop, for some
milliseconds. Until they give up they compete with drnn's threads for the cores, which can double
the time of a pass. `omp_pause_resource`, of OpenMP 5.0, ends the idle threads of the calling
thread; torch's next parallel region starts new ones, in some 30 microseconds each.

Nothing is done where torch uses another library than libgomp, where the busy loop is switched off
(OMP_WAIT_POLICY=PASSIVE), or where DRNN_OPENMP_THREADS=keep.
"""

from __future__ import annotations

import ctypes
import os
import sys
from functools import lru_cache

_SOFT = 1  # omp_pause_soft: thread numbers and other settings stay


@lru_cache(maxsize=None)
def _pause():
    """The function and the number of the host, or None."""
    keeps = os.environ.get("DRNN_OPENMP_THREADS") == "keep"
    if keeps or os.environ.get("OMP_WAIT_POLICY", "").upper() == "PASSIVE":
        return None
    if not sys.platform.startswith("linux"):
        return None
    try:
        with open("/proc/self/maps") as maps:
            mapped = {line.split(None, 5)[-1].strip() for line in maps if "libgomp" in line}
        if len(mapped) != 1:
            return None
        library = ctypes.CDLL(mapped.pop())
        return library.omp_pause_resource, library.omp_get_initial_device()
    except (OSError, AttributeError):
        return None


def end_idle_threads() -> None:
    """Ends the OpenMP threads that wait for work of the calling thread."""
    found = _pause()
    if found is not None:
        pause, host = found
        pause(_SOFT, host)
