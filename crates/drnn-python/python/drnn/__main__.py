"""The program ``drnn``, which the package installs: ``drnn --help``, or ``python -m drnn --help``."""

import os
import signal
import sys


def main() -> None:
    # More hardware queues of a GPU, for trainings side by side; CUDA reads it when it starts.
    os.environ.setdefault("CUDA_DEVICE_MAX_CONNECTIONS", "32")
    # Ctrl-C is the program's own business: it stops trainings after a checkpoint.
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    from drnn._drnn import run_program

    sys.exit(run_program(["drnn", *sys.argv[1:]]))


if __name__ == "__main__":
    main()
