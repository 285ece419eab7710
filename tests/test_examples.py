"""The notebooks and scripts in `examples/` run, and notebooks are stored without outputs."""

import subprocess
import sys
from pathlib import Path

import nbformat
import pytest
from nbclient import NotebookClient

EXAMPLES = Path(__file__).parents[1] / "examples"
NOTEBOOKS = sorted(file.name for file in EXAMPLES.glob("*.ipynb"))
SCRIPTS = sorted(file.name for file in EXAMPLES.glob("*.py"))
MOST_LINES = 60  # of a script


@pytest.mark.parametrize("name", NOTEBOOKS)
@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # of jupyter_client, about folders and event loops
def test_the_notebook_runs(name: str) -> None:
    notebook = nbformat.read(EXAMPLES / name, as_version=4)
    assert not any(cell.get("outputs") or cell.get("execution_count") for cell in notebook.cells)
    NotebookClient(notebook, timeout=300, kernel_name="python3", resources={"metadata": {"path": EXAMPLES}}).execute()


@pytest.mark.parametrize("name", SCRIPTS)
def test_the_script_runs(name: str) -> None:
    assert len((EXAMPLES / name).read_text(encoding="utf-8").splitlines()) <= MOST_LINES
    done = subprocess.run([sys.executable, str(EXAMPLES / name)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip()
