"""A model on disk: a folder with `model.safetensors` (the numbers) and `model.json` (what they are the numbers of).

Both are written under another name first and then renamed, the numbers last: until then a model that is saved again
stays what it was. Nothing is ever unpickled. Tied weights are one parameter in the model, so one tensor in the file.
"""

import json
import os
from dataclasses import asdict, fields
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save as serialised
from torch import Tensor, nn

from regard.files import write_atomic
from regard.models.board.config import BoardConfig
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

Model = Decoder | Encoder | Seq2Seq | Recurrent | BoardNet


def save(model: nn.Module, folder: str | os.PathLike[str]) -> None:
    """Write a model of this room into a folder, which is made if need be.

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
    place = Path(folder)
    place.mkdir(parents=True, exist_ok=True)
    weights = {name: value.detach().contiguous() for name, value in model.state_dict().items()}
    said = {"format": FORMAT, "kind": kind, "config": asdict(model.config)}
    numbers, words = place / "model.safetensors", place / "model.json"
    temporary = [path.with_name(f".{path.name}.{os.getpid()}.tmp") for path in (numbers, words)]
    try:
        write_atomic(temporary[0], serialised(weights))
        write_atomic(temporary[1], json.dumps(said, indent=1) + "\n")
        temporary[1].replace(words)
        temporary[0].replace(numbers)
    finally:
        for path in temporary:
            path.unlink(missing_ok=True)


def load(folder: str | os.PathLike[str], *, device: torch.device | str = "cpu") -> Model:
    """The model that `save` wrote, in eval mode."""
    place = Path(folder)
    cls, config = _read_words(place / "model.json")
    path = place / "model.safetensors"
    weights = _read_numbers(path, str(device))
    with torch.random.fork_rng(devices=[]):  # what it starts from is drawn only to be replaced: nobody should notice
        model: Model = cls(config)
    _check(path, weights, model.state_dict())
    model.load_state_dict(weights, assign=True)
    for parameter in model.parameters():
        parameter.requires_grad_()
    return model.eval()


def _read_words(path: Path) -> tuple[Any, Any]:
    """The class of the model and its configuration."""
    if not path.exists():
        there = sorted(entry.name for entry in path.parent.iterdir()) if path.parent.is_dir() else None
        has = "does not exist" if there is None else f"holds {', '.join(there[:5]) or 'nothing'}"
        raise ValueError(f"{path} is missing, so {path.parent} is no saved model: the folder {has}")
    try:
        said = json.loads(path.read_text(encoding="utf-8"))
    except (json.JSONDecodeError, UnicodeDecodeError) as error:
        raise ValueError(f"{path} is no valid JSON ({error}); it is damaged, or was not written by save()") from None
    if not isinstance(said, dict) or not isinstance(said.get("config"), dict) or "kind" not in said:
        raise ValueError(f'{path} must hold an object with "kind" and "config"; it was not written by save()')
    if said.get("format") != FORMAT:
        raise ValueError(f"{path} has format {said.get('format')!r}, and this version of regard reads {FORMAT}")
    if said["kind"] not in KINDS:
        raise ValueError(f"{path} is of kind {said['kind']!r}, but the kinds are {', '.join(KINDS)}")
    cls, config = KINDS[said["kind"]]
    known = {field.name for field in fields(config)}
    if unknown := sorted(set(said["config"]) - known):
        raise ValueError(f"{path}: {config.__name__} has no {', '.join(unknown)}; a newer version of regard wrote it")
    try:
        return cls, config(**said["config"])
    except (TypeError, ValueError) as error:
        raise ValueError(f"{path} holds a configuration that cannot be: {error}") from None


def _read_numbers(path: Path, device: str) -> dict[str, Tensor]:
    if not path.exists():
        raise ValueError(f"{path} is missing: its model.json is there, the numbers are not")
    try:
        with safe_open(path, framework="pt", device=device) as file:
            # Copied, since a file that is mapped into memory must not be overwritten by the next save.
            return {name: file.get_tensor(name).clone() for name in file.keys()}  # noqa: SIM118
    except SafetensorError as error:
        raise ValueError(
            f"{path} cannot be read ({error}): it is cut off or damaged ({path.stat().st_size} bytes)"
        ) from None


def _check(path: Path, found: dict[str, Tensor], wanted: dict[str, Tensor]) -> None:
    """Raise unless the tensors are those of the model."""
    if missing := sorted(set(wanted) - set(found)):
        raise ValueError(
            f"{path} lacks {_few(missing)}, which model.json asks for; the two files do not belong together"
        )
    if surplus := sorted(set(found) - set(wanted)):
        raise ValueError(f"{path} holds {_few(surplus)}, which model.json knows nothing of")
    for name, value in wanted.items():
        if found[name].shape != value.shape:
            raise ValueError(
                f"{path}: {name} has shape {tuple(found[name].shape)}, but model.json makes it {tuple(value.shape)}"
            )
        if not found[name].dtype.is_floating_point:
            raise ValueError(f"{path}: {name} holds {found[name].dtype}, but weights are floating point numbers")


def _few(names: list[str]) -> str:
    return ", ".join(names[:3]) + (f" and {len(names) - 3} more" if len(names) > 3 else "")
