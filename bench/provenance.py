"""What results say of their making."""

import os
import shlex
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))


def command_line():
    """The one that runs, without folders that are only on this machine."""
    words = [os.path.basename(word) if os.path.isabs(word) else word for word in sys.argv[1:]]
    return shlex.join(["python", f"bench/{os.path.basename(sys.argv[0])}", *words])


def commit(folder=HERE):
    """Of the clone that a folder lies in, "-dirty" if it has changes; None outside of one."""
    describe = ["git", "describe", "--always", "--dirty", "--abbrev=40", "--match="]
    done = subprocess.run(describe, cwd=folder, capture_output=True, text=True)
    return done.stdout.strip() or None
