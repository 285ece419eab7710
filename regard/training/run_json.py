"""The file run.json: configuration, versions and results of a run."""

import platform
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch

import regard
from regard.files import read_json, write_json

FORMAT = 1
RESTORE = "restore a copy of the file, or start a new run"


def write_run_file(folder: Path, content: dict[str, Any], results: dict[str, Any] | None = None) -> None:
    """Write run.json with the versions of regard, torch and Python; `results` are None until the run is finished."""
    versions = {"regard": regard.__version__, "torch": torch.__version__, "python": platform.python_version()}
    content = {"format": FORMAT, **content, "results": results, "versions": versions}
    write_json(folder / "run.json", content)


def read_run_file(folder: Path, keys: Sequence[str], command: str) -> dict[str, Any]:
    """Return the content of run.json, which must have these keys; errors name `command`, which writes such files."""
    file = folder / "run.json"
    if not file.is_file():
        raise ValueError(f"{folder} is no run of {command}: it has no run.json; give the folder of a run")
    content = read_json(file, f"a run of {command}", RESTORE, *keys, "results")
    if (version := content.get("format")) != FORMAT:
        raise ValueError(f"{file} has format {version!r}; this version of regard reads {FORMAT}; {RESTORE}")
    return content


def remove_temporary_files(path: Path) -> None:
    """Remove the temporary files of a process that was killed; the caller holds the lock of the run."""
    for file in path.glob(".*"):
        if file.name != ".lock" and file.is_file():
            file.unlink(missing_ok=True)


def require_free_folder(path: Path) -> None:
    """Raise an error if the folder of a new run has content already.

    What a process leaves that was killed before it wrote run.json does not count.
    """
    if path.is_dir() and all(entry.name == "tokenizer.json" or entry.name.startswith(".") for entry in path.iterdir()):
        return
    if path.exists():
        raise ValueError(f"{path} exists already; resume it with --resume {path}, or choose another folder with --out")
