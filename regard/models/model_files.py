"""Save and load models: a folder with `model.safetensors` (weights) and `model.json` (class and configuration).

Both files are written under temporary names and then renamed, the weights last, so an interrupted save leaves the
previous model intact. Nothing is ever unpickled. Tied weights are one parameter and therefore one tensor in the file.
"""

import json
import os
from dataclasses import asdict, fields
from pathlib import Path
from typing import Any

import torch
from safetensors import safe_open
from safetensors.torch import save as serialize
from torch import Tensor, nn

from regard.files import explain_damage, read_json, write_atomic
from regard.models.board.config import FIELD_NAMES, BoardConfig
from regard.models.board.network import BoardNet
from regard.models.recurrent import Recurrent
from regard.models.transformer.config import DecoderConfig, EncoderConfig, RecurrentConfig, Seq2SeqConfig
from regard.models.transformer.decoder import Decoder
from regard.models.transformer.encoder import Encoder
from regard.models.transformer.seq2seq import Seq2Seq

KINDS: dict[str, tuple[Any, Any]] = {
    "decoder": (Decoder, DecoderConfig),
    "encoder": (Encoder, EncoderConfig),
    "seq2seq": (Seq2Seq, Seq2SeqConfig),
    "recurrent": (Recurrent, RecurrentConfig),
    "board": (BoardNet, BoardConfig),
}
FORMAT = 1
TENSOR_NAMES = {"memory.table": "opening_table.table"}  # name in a file → name in the model, for renamed tensors

Model = Decoder | Encoder | Seq2Seq | Recurrent | BoardNet


def save(model: nn.Module, folder: str | os.PathLike[str]) -> None:
    """Write a model of `regard.models` into a folder, which is created if necessary.

    >>> import tempfile
    >>> from regard.models import Decoder, DecoderConfig
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     save(Decoder(DecoderConfig(10, d_model=16, heads=2, layers=1)), folder)
    ...     load(folder).config.d_model
    16
    """
    kind = next((name for name, (cls, _) in KINDS.items() if type(model) is cls), None)
    if kind is None or not isinstance(model, Model):
        raise TypeError(f"save takes a model of regard.models ({', '.join(KINDS)}), got {type(model).__name__}")
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    names_in_file = {name: stored for stored, name in TENSOR_NAMES.items()}
    weights = {names_in_file.get(name, name): x.detach().contiguous() for name, x in model.state_dict().items()}
    config = model.config.to_dict() if isinstance(model.config, BoardConfig) else asdict(model.config)
    description = {"format": FORMAT, "kind": kind, "config": config}
    weights_file, json_file = folder / "model.safetensors", folder / "model.json"
    temporary = [path.with_name(f".{path.name}.{os.getpid()}.tmp") for path in (weights_file, json_file)]
    try:
        write_atomic(temporary[0], serialize(weights))
        write_atomic(temporary[1], json.dumps(description, indent=1) + "\n")
        temporary[1].replace(json_file)
        temporary[0].replace(weights_file)
    finally:
        for path in temporary:
            path.unlink(missing_ok=True)


def load(folder: str | os.PathLike[str], *, device: torch.device | str = "cpu") -> Model:
    """Return the model that `save` wrote, in eval mode.

    >>> import tempfile
    >>> from regard.models import BoardNet
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     save(BoardNet("tiny"), folder)
    ...     type(load(folder)).__name__
    'BoardNet'
    """
    folder = Path(folder)
    cls, config = _read_description(folder / "model.json")
    path = folder / "model.safetensors"
    weights = _read_weights(path, str(device))
    with torch.random.fork_rng(devices=[]):  # creating the model must not change the caller's random state
        model: Model = cls(config)
    _check_weights(path, weights, model.state_dict())
    model.load_state_dict(weights, assign=True)
    for parameter in model.parameters():
        parameter.requires_grad_()
    return model.eval()


def _read_description(path: Path) -> tuple[Any, Any]:
    """Return the model's class and its configuration."""
    if not path.exists():
        entries = sorted(entry.name for entry in path.parent.iterdir()) if path.parent.is_dir() else None
        state = "does not exist" if entries is None else f"contains {', '.join(entries[:5]) or 'nothing'}"
        raise ValueError(f"{path} is missing, so {path.parent} is not a saved model: the folder {state}")
    advice = "restore a copy, or save the model again"
    description = read_json(path, "written by save()", advice, "kind", "config")
    kind, stored_config = str(description["kind"]), description["config"]
    if description.get("format") != FORMAT:
        raise ValueError(f"{path} has format {description.get('format')!r}; this version of regard reads {FORMAT}")
    if kind not in KINDS:
        raise ValueError(f"{path} has the kind {kind!r}; the known kinds are {', '.join(KINDS)}")
    cls, config = KINDS[kind]
    with explain_damage(path, f"a valid {config.__name__}", advice):
        known_names = {field.name for field in fields(config)} | set(FIELD_NAMES)
        if unknown := sorted(set(stored_config) - known_names):
            raise ValueError(f"{config.__name__} has no {', '.join(unknown)}; a newer version of regard wrote it")
        return cls, config.from_dict(stored_config) if config is BoardConfig else config(**stored_config)


def _read_weights(path: Path, device: str) -> dict[str, Tensor]:
    if not path.is_file():
        raise ValueError(f"{path} is missing: the folder has model.json but no weights; save the model again")
    kind, advice = "a file of weights", f"it has {path.stat().st_size} bytes; restore a copy, or save the model again"
    with explain_damage(path, kind, advice), safe_open(path, framework="pt", device=device) as file:
        # Cloned, because the next save may not overwrite a file that is mapped into memory.
        return {TENSOR_NAMES.get(name, name): file.get_tensor(name).clone() for name in file.keys()}  # noqa: SIM118


def _check_weights(path: Path, weights: dict[str, Tensor], expected: dict[str, Tensor]) -> None:
    """Raise unless names, shapes and types of the tensors are those of the model."""
    if missing := sorted(set(expected) - set(weights)):
        raise ValueError(
            f"{path} lacks {_first_names(missing)}, which model.json requires; the two files do not belong together"
        )
    if surplus := sorted(set(weights) - set(expected)):
        raise ValueError(f"{path} contains {_first_names(surplus)}, which the model of model.json does not have")
    for name, value in expected.items():
        shape = tuple(weights[name].shape)
        if shape != value.shape:
            raise ValueError(f"{path}: {name} has shape {shape}, but model.json requires {tuple(value.shape)}")
        if not weights[name].dtype.is_floating_point:
            raise ValueError(f"{path}: {name} must have a floating point type, got {weights[name].dtype}")


def _first_names(names: list[str]) -> str:
    return ", ".join(names[:3]) + (f" and {len(names) - 3} more" if len(names) > 3 else "")
