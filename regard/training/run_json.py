"""The file run.json: configuration, versions and results of a run."""

import json
import platform
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch

import regard
from regard.files import read_json, write_atomic

RESTORE = "restore a copy of the file, or start a new run"


def write_run_file(folder: Path, content: dict[str, Any], results: dict[str, Any] | None = None) -> None:
    """Write run.json with the versions of regard, torch and Python; `results` are None until the run is finished."""
    versions = {"regard": regard.__version__, "torch": torch.__version__, "python": platform.python_version()}
    content = {"format": 1, **content, "results": results, "versions": versions}
    write_atomic(folder / "run.json", json.dumps(content, indent=1, ensure_ascii=False) + "\n")


def read_run_file(folder: Path, keys: Sequence[str], command: str) -> dict[str, Any]:
    """Return the content of run.json, which must have these keys; errors name `command`, which writes such files."""
    file = folder / "run.json"
    if not file.is_file():
        raise ValueError(f"{folder} is no run of {command}: it has no run.json; give the folder of a run")
    return read_json(file, f"a run of {command}", RESTORE, *keys)


def require_free_folder(path: Path) -> None:
    """Raise an error if the folder of a new run has content already."""
    if path.exists() and (not path.is_dir() or any(path.iterdir())):
        raise ValueError(f"{path} exists already; resume it with --resume {path}, or choose another folder with --out")
