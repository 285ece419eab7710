"""Checkpoints: all that is needed to go on as if nothing had happened, in a folder that is there whole or not at all.

    checkpoints/00000400/state.safetensors     weights and the optimizer's state, by parameter
    checkpoints/00000400/state.json            the step, the best evaluation, the time spent

A folder is written under another name, put on the disk and then renamed; only then is the one before it removed. So
at every moment there is a whole one, whatever happens to the process. No pickle anywhere.
"""

import json
import shutil
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load as tensors_of
from safetensors.torch import save as bytes_of
from torch import Tensor, nn

from regard.files import sync_folder, write_atomic

TENSORS, STATE = "state.safetensors", "state.json"


def gather(model: nn.Module, optimizer: torch.optim.Optimizer) -> dict[str, Tensor]:
    """The model's tensors and the optimizer's, each by the parameter's name."""
    named = dict(model.named_parameters())
    tensors = {f"weights.{name}": value.detach() for name, value in named.items()}
    tensors |= {f"buffers.{name}": value for name, value in kept_buffers(model).items()}
    for name, parameter in named.items():
        for key, value in optimizer.state.get(parameter, {}).items():
            tensors[f"optimizer.{key}.{name}"] = torch.as_tensor(value)
    return {name: value.cpu().contiguous() for name, value in tensors.items()}


def spread(tensors: dict[str, Tensor], model: nn.Module, optimizer: torch.optim.Optimizer) -> None:
    """Put what `gather` returned back into its places."""
    named, buffers = dict(model.named_parameters()), kept_buffers(model)
    expected = {f"weights.{name}" for name in named} | {f"buffers.{name}" for name in buffers}
    found = {name for name in tensors if not name.startswith("optimizer.")}
    if found != expected:
        odd = sorted(found ^ expected)
        raise ValueError(f"the checkpoint is of another model: it differs in {', '.join(odd[:3])}")
    with torch.no_grad():
        for full, value in tensors.items():
            kind, _, name = full.partition(".")
            key, name = name.split(".", 1) if kind == "optimizer" else ("", name)
            place = buffers[name] if kind == "buffers" else named[name]
            if key == "step":
                optimizer.state[named[name]][key] = value.clone()
                continue
            if place.shape != value.shape:
                shapes = f"{tuple(value.shape)}, the model has {tuple(place.shape)}"
                raise ValueError(f"the checkpoint is of another model: {name} is {shapes}")
            if kind == "optimizer":
                # A fused step runs through memory: what it remembers must lie there as the parameter does, which may
                # have its channels last.
                place = optimizer.state[named[name]][key] = torch.empty_like(place)
            place.copy_(value)


def kept_buffers(model: nn.Module) -> dict[str, Tensor]:
    """The buffers that belong to the model's state (tables that can be computed again do not)."""
    names = set(model.state_dict())
    return {name: value for name, value in model.named_buffers() if name in names}


def save_checkpoint(folder: Path, step: int, tensors: dict[str, Tensor], state: dict[str, Any]) -> Path:
    """Write the checkpoint of a step and remove those before it."""
    final, part = folder / f"{step:08d}", folder / f".{step:08d}.part"
    if not final.exists():
        folder.mkdir(parents=True, exist_ok=True)
        shutil.rmtree(part, ignore_errors=True)
        try:
            part.mkdir()
            write_atomic(part / TENSORS, bytes_of(tensors))
            write_atomic(part / STATE, json.dumps({"step": step, **state}, indent=1).encode())
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


def latest(folder: Path) -> Path | None:
    """The newest checkpoint, if there is one."""
    found = sorted(path for path in folder.glob("[0-9]*") if path.is_dir())
    return found[-1] if found else None


def load_checkpoint(path: Path) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """The tensors and the state that were saved."""
    try:
        return tensors_of((path / TENSORS).read_bytes()), json.loads((path / STATE).read_text(encoding="utf-8"))
    except (SafetensorError, json.JSONDecodeError) as error:
        raise ValueError(f"{path} is damaged ({error}); remove it to go on from an older one, or start anew") from None
