"""The notebook docs/delay.ipynb runs and shows what its text says."""

import json
import pathlib
import subprocess
import sys

NOTEBOOK = pathlib.Path(__file__).parents[3] / "docs" / "delay.ipynb"
MAX_BYTES = 200_000

# In a process of its own: where ipykernel has been imported, drnn takes itself to be in a notebook.
EXECUTE = """
import sys
import nbclient, nbformat
notebook = nbformat.read(sys.argv[1], as_version=4)
nbformat.validate(notebook)
notebook.cells.append(nbformat.v4.new_code_cell(sys.argv[2]))
nbclient.NotebookClient(notebook, timeout=300, kernel_name="python3").execute()
(printed,) = notebook.cells[-1].outputs
print(printed.text)
"""

SHOWN = """
import json
print(json.dumps({
    "rows": {row["delay"]: row["mean"] for row in found.rows},
    "optimal": {delay: float(optimal(delay)) for delay in delays},
    "recommended": found.recommended,
    "test": rmse,
    "latency": latency,
    "rest": len(rest),
    "difference": float(difference),
}))
"""


def test_the_notebook_shows_what_a_delay_does(matplotlib, nbclient):
    command = [sys.executable, "-c", EXECUTE, str(NOTEBOOK), SHOWN]
    done = subprocess.run(command, capture_output=True, text=True, timeout=400)
    assert done.returncode == 0, done.stderr[-4000:]
    shown = json.loads(done.stdout)
    delay, rows = shown["recommended"], shown["rows"]
    assert 1 <= delay <= 8
    assert rows[str(delay)] < 0.9 * rows["0"]
    assert shown["test"]["d"] < 0.9 * shown["test"]["0"]
    assert all(0.99 < rows[d] / optimum < 1.1 for d, optimum in shown["optimal"].items())
    assert shown["latency"] == shown["rest"] == delay
    assert shown["difference"] < 1e-4


def test_the_stored_notebook_is_small_and_has_plots():
    assert NOTEBOOK.stat().st_size < MAX_BYTES
    cells = json.loads(NOTEBOOK.read_text(encoding="utf-8"))["cells"]
    outputs = [output for cell in cells for output in cell.get("outputs", [])]
    assert sum("image/png" in output.get("data", {}) for output in outputs) == 3
    assert not any(output["output_type"] == "error" for output in outputs)
