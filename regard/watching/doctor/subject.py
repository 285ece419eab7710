"""The subject of a check: a call, its module, its role in the model, its real keys and its queries' positions."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from functools import cached_property
from typing import Any, Literal

import torch
from jaxtyping import Bool, Int
from torch import Tensor, nn

from regard.watching.call import Call
from regard.watching.doctor.arguments import documents_of, read_documents, read_padding, real_keys, select

Role = Literal["self", "cross", "encoder", "decoder", "tower"]

CROSS_NAMES = ("cross", "encoder_attn", "encdec", "enc_dec", "src_attn", "multihead_attn", "memory")
TOWER_NAMES = ("vision", "visual", "image", "audio", "speech")  # parts of a language model that are not causal


@dataclass
class Subject:
    """A call with everything that the checks need to know about it."""

    call: Call
    module: nn.Module | None
    role: Role
    config: Any = None  # the configuration of the model or of the module, if it has one
    real: Bool[Tensor, "batch keys"] | None = None  # None: padding is not known for this call
    documents: Int[Tensor, "batch keys"] | None = None
    unknown: dict[str, str] = field(default_factory=dict)  # check: why its argument does not apply to this call
    misfit: dict[str, str] = field(default_factory=dict)  # those of them where the shape does not fit

    @property
    def cross(self) -> bool:
        return self.role == "cross"

    @cached_property
    def has_weights(self) -> bool:
        """Whether weights can be computed; not with keep="statistics"."""
        return self.call.stored_statistics is None

    @cached_property
    def positions(self) -> Int[Tensor, "#batch queries"] | None:
        """Index of each query's own key, (B, L) or (1, L); None where queries are not among the keys, or unknown."""
        positions = None if self.cross else self.call.positions
        if positions is None:
            return None
        return positions if positions.dim() == 2 else positions[None]

    @cached_property
    def relevant(self) -> Bool[Tensor, "batch queries"]:
        """Which queries are checked: all but those whose own position is padding or belongs to no document."""
        batch, _, length, _ = self.call.shape
        relevant = torch.ones(batch, length, dtype=torch.bool, device=self.device)
        if self.positions is None:
            return relevant
        positions = self.positions.to(self.device).expand(batch, length)
        if self.real is not None:
            relevant &= self.real.gather(1, positions.clamp(0, self.real.shape[1] - 1))
        if self.documents is not None:
            relevant &= self.documents.gather(1, positions.clamp(0, self.documents.shape[1] - 1)) >= 0
        return relevant

    def exclude(self, queries: Bool[Tensor, "batch queries"]) -> None:
        """Leave queries out of the checks that follow, because a finding has named them."""
        self.__dict__["relevant"] = self.relevant & ~queries

    @cached_property
    def device(self) -> torch.device:
        statistics = self.call.stored_statistics
        return self.call.like.device if statistics is None else statistics.entropy.device

    @cached_property
    def is_eager(self) -> bool:
        return self.call.eager_weights is not None


def recorded(call: Call, name: str) -> Any:
    """Return a tensor of the call, or None if it was not recorded."""
    try:
        return getattr(call, name)
    except ValueError:
        return None


def make_subjects(model: nn.Module, calls: list[Call], padding: Any, documents: Any) -> list[Subject]:
    """Return the subjects of a recording."""
    modules = dict(model.named_modules())
    roles = find_roles(model, [call.name for call in calls])
    subjects = [
        Subject(call, modules.get(call.name), _role(call, roles[call.name]), _config(modules, call.name))
        for call in calls
    ]
    if padding is not None:
        _add_padding(subjects, padding)
    if documents is not None:
        _add_documents(subjects, documents)
    return subjects


def find_roles(model: nn.Module, names: Iterable[str]) -> dict[str, Role]:
    """Return the role of each module that attends, from its path and from the model."""
    names = list(dict.fromkeys(names))
    parts = {name: [part.lower() for part in name.split(".")] for name in names}
    cross = {name for name in names if any(word in part for part in parts[name][-2:] for word in CROSS_NAMES)}
    decoder = {name for name in names if any("decoder" in part for part in parts[name])}
    encoder = {name for name in names if any("encoder" in part for part in parts[name])} - decoder - cross
    towers = {name for name in names if any(word in part for part in parts[name] for word in TOWER_NAMES)}
    pair = bool(encoder and decoder) or bool(getattr(getattr(model, "config", None), "is_encoder_decoder", False))
    roles: dict[str, Role] = {}
    for name in names:
        if name in cross and (pair or "cross" in name.lower()):
            roles[name] = "cross"
        elif pair and name in encoder:
            roles[name] = "encoder"
        elif pair and name in decoder:
            roles[name] = "decoder"
        else:
            roles[name] = "tower" if name in towers and towers != set(names) else "self"
    return roles


def _role(call: Call, role: Role) -> Role:
    return "cross" if call.cross else role


def _config(modules: dict[str, nn.Module], name: str) -> Any:
    """Return the `config` of the module or of the closest module around it."""
    while True:
        config = getattr(modules.get(name), "config", None)
        if config is not None or not name:
            return config
        name = name.rpartition(".")[0]


def matches(argument: Any, name: str) -> bool:
    """Whether an argument that is a bool, a pattern of module paths or several of them applies to a module."""
    if isinstance(argument, bool):
        return argument
    patterns = [argument] if isinstance(argument, str) else argument
    return any(fnmatchcase(name, pattern) for pattern in patterns)


def _add_padding(subjects: list[Subject], padding: Any) -> None:
    masks: dict[int, Tensor] = {}
    first: dict[str, tuple[int, int]] = {}  # L and S of the first call of each module
    for subject in subjects:
        first.setdefault(subject.call.name, subject.call.shape[2:])
        argument = select(padding, subject.call.name)
        if argument is None:
            subject.unknown["padding"] = "no pattern of padding= fits this module"
            continue
        if id(argument) not in masks:
            masks[id(argument)] = read_padding(argument)
        mask = masks[id(argument)]
        if subject.role == "decoder" and argument is padding:
            reason = "padding= describes the source; for the target, give a dict such as {'*decoder*': target_mask}"
            subject.unknown["padding"] = reason
            continue
        real = _fit_padding(subject, mask, *first[subject.call.name])
        if isinstance(real, str):
            subject.unknown["padding"] = subject.misfit["padding"] = real
        else:
            subject.real = real


def _fit_padding(subject: Subject, mask: Tensor, first_length: int, first_keys: int) -> Tensor | str:
    """Return the real keys of a call, (B, S), or why the padding does not describe its keys.

    A model that generates adds keys after those that the padding describes. These are real.
    """
    batch, _, length, keys = subject.call.shape
    if subject.call.folded and len(mask) > 1:
        return "batch and heads share an axis and could not be separated"
    if len(mask) == 0 or batch % len(mask):
        return f"padding= has {len(mask)} items, the call {batch}"
    if mask.dim() == 1 and int(mask.max()) > keys:
        return f"padding= has a length of {int(mask.max())}, the call {keys} keys"
    real = real_keys(mask, keys if subject.cross else min(keys, max(first_length, int(mask.max())))).to(subject.device)
    if real.shape[1] > keys:
        return f"padding= describes {real.shape[1]} keys, the call has {keys}"
    if real.shape[1] < keys:
        if subject.cross or (length == keys and real.shape[1] != first_keys):
            return (
                f"padding= describes {real.shape[1]} keys, the call has {keys}, and where the others are is not known"
            )
        later = torch.ones(len(real), keys - real.shape[1], dtype=torch.bool, device=real.device)
        real = torch.cat([real, later], 1)
    return real.repeat_interleave(batch // len(mask), 0)


def _add_documents(subjects: list[Subject], documents: Any) -> None:
    for subject in subjects:
        if (argument := select(documents, subject.call.name)) is None:
            subject.unknown["documents"] = "no pattern of documents= fits this module"
            continue
        batch, _, _, keys = subject.call.shape
        rows = read_documents(argument)
        if subject.cross:
            subject.unknown["documents"] = "cross-attention: its keys are another sequence"
        elif (table := documents_of(rows, batch, keys)) is not None:
            subject.documents = table.to(subject.device)
        else:
            reason = f"documents= does not describe {batch} items of {keys} keys"
            subject.unknown["documents"] = subject.misfit["documents"] = reason
