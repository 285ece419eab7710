"""Save and load models: a folder with `model.safetensors` (weights) and `model.json` (class and configuration).

Both files are written under temporary names and then renamed, the weights last, so an interrupted save leaves the
previous model intact. Nothing is ever unpickled. Tied weights are one parameter and therefore one tensor in the file.
"""

import os
from collections.abc import Callable
from dataclasses import asdict, fields
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

from regard.files import DamagedFileError, dataclass_from_json, explain_damage, read_json, write_atomic, write_json
from regard.models.board.config import FIELD_NAMES, BoardConfig
from regard.models.board.network import BoardNet
from regard.models.recurrent import Recurrent
from regard.models.tensor_files import pack_tensors, read_tensors
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

Shapes = dict[str, tuple[tuple[int, ...], str]]  # shape and type of each tensor
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
        raise TypeError(
            f"save takes a model of regard.models ({', '.join(KINDS)}), got {type(model).__name__}, which only your "
            "own code can build again; save its weights with torch.save(model.state_dict(), FILE)"
        )
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    names_in_file = {name: stored for stored, name in TENSOR_NAMES.items()}
    weights = {names_in_file.get(name, name): x.detach().contiguous() for name, x in model.state_dict().items()}
    config = model.config.to_dict() if isinstance(model.config, BoardConfig) else asdict(model.config)
    description = {"format": FORMAT, "kind": kind, "config": config}
    weights_file, json_file = folder / "model.safetensors", folder / "model.json"
    temporary = [path.with_name(f".{path.name}.{os.getpid()}.tmp") for path in (weights_file, json_file)]
    try:
        write_atomic(temporary[0], pack_tensors(weights)[0])
        write_json(temporary[1], description)
        temporary[1].replace(json_file)
        temporary[0].replace(weights_file)
    finally:
        for path in temporary:
            path.unlink(missing_ok=True)


def load(folder: str | os.PathLike[str], *, device: torch.device | str = "cpu") -> Model:
    """Return the model that `save` wrote, in eval mode.

    folder      folder of the model
    device      where to put the weights

    Raises ValueError if the files are damaged or from a newer version.

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

    weights = _read_weights(path, str(device), lambda shapes: check_shapes(path, shapes, cls, config))
    with torch.random.fork_rng(devices=[]):  # creating the model must not change the caller's random state
        model: Model = cls(config)
    model.load_state_dict(weights, assign=True)
    for parameter in model.parameters():
        parameter.requires_grad_()
    return model.eval()


def check_shapes(path: Path, shapes: Shapes, cls: Any, config: Any, described_in: str = "model.json") -> None:
    """Raise an error unless names and shapes of the tensors in a file are those of the model `cls(config)`.

    The model is built on the meta device, so that a configuration of any size needs no memory.
    """
    _check_sizes(path, config, [shape for shape, _ in shapes.values()], described_in)
    with torch.device("meta"), _WithoutRandomNumbers():
        expected = cls(config).state_dict()
    shapes = {TENSOR_NAMES.get(name, name): shape for name, shape in shapes.items()}
    _check_weights(path, shapes, expected, described_in)


class _WithoutRandomNumbers(TorchFunctionMode):
    """Skip the random initialization of tensors.

    On the meta device it has no effect, but makes torch import its compiler, which takes a second.
    """

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        if func in (Tensor.normal_, Tensor.uniform_) or getattr(func, "__module__", "") == "torch.nn.init":
            return args[0] if args else kwargs["tensor"]
        return func(*args, **kwargs)


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
        return cls, config.from_dict(stored_config) if config is BoardConfig else dataclass_from_json(
            config, stored_config
        )


def _read_weights(path: Path, device: str, check: Callable[[Any], None]) -> dict[str, Tensor]:
    if not path.is_file():
        raise ValueError(f"{path} is missing: the folder has model.json but no weights; save the model again")
    kind, advice = "a file of weights", f"it has {path.stat().st_size} bytes; restore a copy, or save the model again"
    with explain_damage(path, kind, advice):
        weights = read_tensors(path, device=device, check=check)
        if invalid := [name for name, value in weights.items() if not value.isfinite().all()]:
            raise ValueError(f"{_first_names(invalid)} contains NaN or infinity")
    return {TENSOR_NAMES.get(name, name): value for name, value in weights.items()}


def _check_sizes(path: Path, config: Any, shapes: list[tuple[int, ...]], described_in: str) -> None:
    """Raise if the configuration is too large for the file: every layer has tensors, every width is an axis."""
    longest = max((axis for shape in shapes for axis in shape), default=0)
    for name, value in vars(config).items():
        if type(value) is not int or name == "context":
            continue
        if "layers" in name and value > len(shapes):
            raise DamagedFileError(f"{path} has {len(shapes)} tensors, too few for {value} {name}")
        if value > max(longest, 1000):
            raise DamagedFileError(f"{path} has no tensor as large as {name} {value} in {described_in}")
    if isinstance(config, BoardConfig) and (config.lines or 0) > 12:
        raise DamagedFileError(f"{described_in} beside {path} must have lines of at most 12 stones, got {config.lines}")


def _check_weights(path: Path, weights: Shapes, expected: dict[str, Tensor], described_in: str) -> None:
    """Raise unless names, shapes and types of the tensors in the file are those of the model."""
    if missing := sorted(set(expected) - set(weights)):
        raise DamagedFileError(
            f"{path} lacks {_first_names(missing)}, which {described_in} requires; the two files do not belong together"
        )
    if surplus := sorted(set(weights) - set(expected)):
        raise DamagedFileError(
            f"{path} contains {_first_names(surplus)}, which the model of {described_in} does not have"
        )
    for name, value in expected.items():
        shape, dtype = weights[name]
        if shape != value.shape:
            raise DamagedFileError(
                f"{path}: {name} has shape {shape}, but {described_in} requires {tuple(value.shape)}"
            )
        if not value.is_floating_point() and dtype != "U8":
            raise DamagedFileError(f"{path}: {name} must have the type U8, got {dtype}")
        if value.is_floating_point() and "F" not in dtype:  # F32, F16, BF16, F64
            raise DamagedFileError(f"{path}: {name} must have a floating point type, got {dtype}")


def _first_names(names: list[str]) -> str:
    return ", ".join(names[:3]) + (f" and {len(names) - 3} more" if len(names) > 3 else "")
