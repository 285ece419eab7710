"""Files of tensors (safetensors) with a checksum over names, types, shapes and values; damage is found when reading."""

import hashlib
from collections.abc import Callable, Mapping
from pathlib import Path

import torch
from safetensors import safe_open
from safetensors.torch import save
from torch import Tensor

CHECKSUM = "checksum"


def tensors_checksum(tensors: Mapping[str, Tensor]) -> str:
    """Return a checksum of tensors: their names, types, shapes and bits."""
    result = hashlib.sha256()
    for name, value in sorted(tensors.items()):
        result.update(f"{name} {value.dtype} {tuple(value.shape)}\n".encode())
        if value.numel():  # torch cannot view an empty tensor as bytes
            result.update(value.detach().cpu().contiguous().reshape(-1).view(torch.uint8).numpy().data)
    return result.hexdigest()[:32]


def pack_tensors(tensors: dict[str, Tensor]) -> tuple[bytes, str]:
    """Return the content of a file of tensors, and their checksum, which is also stored in the file."""
    checksum = tensors_checksum(tensors)
    return save(tensors, {CHECKSUM: checksum}), checksum


def read_shapes(file: Path) -> dict[str, tuple[tuple[int, ...], str]]:
    """Return the shape and type of each tensor of a file, without reading the tensors."""
    with safe_open(file, framework="pt", device="cpu") as stream:
        slices = {name: stream.get_slice(name) for name in stream.keys()}  # noqa: SIM118
        return {name: (tuple(part.get_shape()), part.get_dtype()) for name, part in slices.items()}


def read_tensors(
    file: Path, *, device: str = "cpu", checksum: str | None = None,
    check: Callable[[dict[str, tuple[tuple[int, ...], str]]], None] = lambda shapes: None,
) -> dict[str, Tensor]:  # fmt: skip
    """Return the tensors of a file; raise an error if they do not match the checksum in the file or the one given.

    `check` gets the shape and type of each tensor from the header, before any tensor is read. A file without a
    checksum was written by an earlier version.
    """
    check(shapes := read_shapes(file))
    with safe_open(file, framework="pt", device="cpu") as stream:
        # Cloned, because the next save may not overwrite a file that is mapped into memory.
        tensors = {name: stream.get_tensor(name).clone() for name in shapes}
        checksums = {value for value in ((stream.metadata() or {}).get(CHECKSUM), checksum) if value is not None}
    if checksums and checksums != {tensors_checksum(tensors)}:
        raise ValueError("the tensors do not match their checksum")
    return {name: value.to(device) for name, value in tensors.items()}
