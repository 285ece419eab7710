"""Checkpoints: everything a stopped run needs to continue, written atomically.

    checkpoints/00000400/state.safetensors     weights and optimizer state, by parameter name
    checkpoints/00000400/state.json            step, best evaluation, time spent

A checkpoint is written under a temporary name, flushed to the disk and renamed; only then is the previous one removed.
So a complete checkpoint exists at every moment, whenever the process ends. No pickle is involved.
"""

import errno
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from regard.files import explain_damage, read_json, sync_folder, write_atomic, write_json
from regard.models.model_files import check_shapes
from regard.models.tensor_files import pack_tensors, read_shapes, read_tensors

TENSORS, STATE = "state.safetensors", "state.json"


def collect_tensors(model: nn.Module, optimizer: torch.optim.Optimizer) -> dict[str, Tensor]:
    """Return the tensors of model and optimizer by name, on the CPU."""
    parameters = dict(model.named_parameters())
    tensors = {f"weights.{name}": value.detach() for name, value in parameters.items()}
    tensors |= {f"buffers.{name}": value for name, value in persistent_buffers(model).items()}
    for name, parameter in parameters.items():
        for key, value in optimizer.state.get(parameter, {}).items():
            tensors[f"optimizer.{key}.{name}"] = torch.as_tensor(value)
    return {name: value.cpu().contiguous() for name, value in tensors.items()}


def restore_tensors(tensors: dict[str, Tensor], model: nn.Module, optimizer: torch.optim.Optimizer) -> None:
    """Copy tensors that `collect_tensors` returned back into model and optimizer."""
    parameters, buffers = dict(model.named_parameters()), persistent_buffers(model)
    expected = {f"weights.{name}" for name in parameters} | {f"buffers.{name}" for name in buffers}
    names = {name for name in tensors if not name.startswith("optimizer.")}
    if names != expected:
        raise ValueError(
            f"the checkpoint is of another model: only one of them has {', '.join(sorted(names ^ expected)[:3])}"
        )
    with torch.no_grad():
        for full_name, value in tensors.items():
            kind, _, name = full_name.partition(".")
            key, name = name.split(".", 1) if kind == "optimizer" else ("", name)
            target = buffers[name] if kind == "buffers" else parameters[name]
            if key == "step":
                optimizer.state[parameters[name]][key] = value.clone()
                continue
            if target.shape != value.shape:
                shapes = f"{tuple(value.shape)}, the model has {tuple(target.shape)}"
                raise ValueError(f"the checkpoint is of another model: {name} has shape {shapes}")
            if kind == "optimizer":
                # A fused optimizer step pairs values by their place in memory, so its state needs the parameter's
                # memory format, which may be channels last.
                target = optimizer.state[parameters[name]][key] = torch.empty_like(target)
            target.copy_(value)


def persistent_buffers(model: nn.Module) -> dict[str, Tensor]:
    """Return the buffers that belong to the model's state dict."""
    names = set(model.state_dict())
    return {name: value for name, value in model.named_buffers() if name in names}


def save_checkpoint(folder: Path, step: int, tensors: dict[str, Tensor], state: dict[str, Any]) -> Path:
    """Write the checkpoint of a step and remove earlier ones."""
    final, part = folder / f"{step:08d}", folder / f".{step:08d}.part"
    if not final.exists():
        folder.mkdir(parents=True, exist_ok=True)
        shutil.rmtree(part, ignore_errors=True)
        try:
            part.mkdir()
            content, checksum = pack_tensors(tensors)
            write_atomic(part / TENSORS, content)
            write_json(part / STATE, {**state, "step": step, "tensors": checksum})
            sync_folder(part)
            part.rename(final)
            sync_folder(folder)
        except BaseException:
            shutil.rmtree(part, ignore_errors=True)
            raise
    for other in folder.iterdir():
        if other != final:
            shutil.rmtree(other, ignore_errors=True)
    return final


def latest_checkpoint(folder: Path) -> Path | None:
    """Return the folder of the newest checkpoint, or None if there is none."""
    paths = sorted(path for path in folder.glob("[0-9]*") if path.is_dir())
    return paths[-1] if paths else None


def load_checkpoint(path: Path) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """Return the tensors and the state of a checkpoint."""
    explanation = path, "a checkpoint", "remove it to use an older one, or start a new run"
    with explain_damage(*explanation):
        state = read_json(path / STATE, *explanation[1:], "step")
        if state["step"] != int(path.name):
            raise ValueError(f"expected the state of step {int(path.name)}, got {state['step']!r}")
        return read_tensors(path / TENSORS, checksum=state.pop("tensors", None)), state


def check_checkpoint(folder: Path, cls: Any, config: Any) -> None:
    """Raise an error if the newest checkpoint of a run is of another model than its run.json describes.

    This needs no memory for the model, whose sizes may be damaged.
    """
    if (path := latest_checkpoint(folder / "checkpoints")) is None:
        return
    file = path / TENSORS
    with explain_damage(file, "a file of tensors", "remove the checkpoint to use an older one, or start a new run"):
        shapes = {name: shape for name, shape in read_shapes(file).items() if name.startswith(("weights.", "buffers."))}
    shapes = {name.partition(".")[2]: shape for name, shape in shapes.items()}
    check_shapes(file, shapes, cls, config, "run.json")


@contextmanager
def explain_disk_errors(folder: Path) -> Iterator[None]:
    """Extend the message of an OSError: which checkpoint of the run is intact, and how to resume."""
    try:
        yield
    except OSError as error:
        full = error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
        advice = "free disk space, then resume" if full else "resume"
        raise OSError(f"{error}; {intact_checkpoint(folder)}; {advice} the run with --resume {folder}") from error


def intact_checkpoint(folder: Path) -> str:
    """Return which checkpoint of a run exists, as a part of an error message."""
    path = latest_checkpoint(folder / "checkpoints")
    return f"the checkpoint of step {int(path.name)} is intact" if path else "no checkpoint was written yet"
