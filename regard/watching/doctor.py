"""The attention doctor: what looks wrong, where, and an example.

| finding | means |
|---|---|
| empty rows | queries that see nothing: their output is zero here, NaN elsewhere |
| attends to padding | weight on keys that are padding |
| sees the future | weight on keys after the query, in a model that should be causal |
| mask inverted | nearly all weight on padding, or on the future: the mask means its opposite |
| uniform head | the same weight on every visible key, for every query: the head does nothing |
| one-token head | all weight on one and the same key, for every query |
| not finite | NaN or infinity in queries or keys |
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from regard.watching.call import Call
from regard.watching.weights import Part

NOTABLE = 1e-4  # a weight that is no rounding


@dataclass(frozen=True)
class Finding:
    """One thing that looks wrong: in which call and head, and an example pair."""

    what: str
    call: str
    head: int | None
    query: int | None
    key: int | None
    said: str

    def __str__(self) -> str:
        where = self.call or "the model"
        return f"{self.what}: {where}" + (f", head {self.head}" if self.head is not None else "") + f": {self.said}"


def examine(calls: list[Call], *, padding: Any = None, causal: bool = False) -> list[Finding]:
    """Everything that looks wrong with the calls.

    padding     the real keys, as booleans (B, S), True = real, or as lengths (B,); None: not checked
    causal      whether the model should be causal
    """
    found: list[Finding] = []
    for call in calls:
        if _not_finite(call, found):
            continue
        _empty(call, found)
        if padding is not None:
            _padding(call, padding, found)
        if causal:
            _future(call, found)
        _idle(call, found)
    return found


def _not_finite(call: Call, found: list[Finding]) -> bool:
    named = {"weights": call.maps} if call.maps is not None else {"queries": call.q, "keys": call.k}
    for what, x in named.items():
        assert x is not None
        bad = (~x.isfinite()).nonzero()
        if len(bad):
            head, place = int(bad[0, 1]), int(bad[0, 2])
            found.append(
                Finding(
                    "not finite",
                    call.name,
                    head,
                    place if what != "keys" else None,
                    None,
                    f"{len(bad)} of the {what} are NaN or infinite, the first at place {place}",
                )
            )
            return True
    return False


def _empty(call: Call, found: list[Finding]) -> None:
    empty = call.statistics.empty
    if empty.any():
        b, h, i = (int(n) for n in empty.nonzero()[0])
        said = f"{int(empty.sum())} of {empty.numel()} queries see nothing, such as query {i} of item {b}"
        found.append(Finding("empty rows", call.name, h, i, None, said))


def _padding(call: Call, padding: Any, found: list[Finding]) -> None:
    real = torch.as_tensor(padding)
    if real.dim() == 1:
        real = torch.arange(call.shape[3]) < real[:, None]
    if real.shape != (call.shape[0], call.shape[3]):
        return  # a cross- or cached call over other keys
    hidden = (~real)[:, None, None]  # (B, 1, 1, S)
    _mass_on(call, lambda part: hidden[part.batch, :, :, part.keys], "attends to padding", "padding", found)


def _future(call: Call, found: list[Finding]) -> None:
    shift = call.shape[3] - call.shape[2]

    def later(part: Part) -> Tensor:
        place = torch.arange(part.rows.start, part.rows.stop)[:, None] + shift
        return torch.arange(part.keys.start, part.keys.stop) > place

    _mass_on(call, later, "sees the future", "keys after it", found)


def _mass_on(call: Call, wrong: Callable[[Part], Tensor], what: str, words: str, found: list[Finding]) -> None:
    """A finding for each head that puts notable weight where it should not, which `wrong` says for a part."""
    batch, heads, length, _ = call.shape
    mass = torch.zeros(batch, heads, length)
    possible = torch.zeros(batch, heads, length, dtype=torch.bool)  # whether the query has such keys at all
    examples: dict[int, tuple[float, int, int]] = {}
    for part in call.parts():
        here = (part.batch, part.heads, part.rows)
        forbidden = wrong(part).expand_as(part.weights)
        astray = part.weights * forbidden
        mass[here] += astray.sum(-1)
        possible[here] |= forbidden.any(-1)
        for head in range(*part.heads.indices(heads)):
            weights = astray[:, head - part.heads.start]
            _, i, j = (int(n) for n in torch.unravel_index(weights.argmax(), weights.shape))
            value = float(weights.max())
            if value > examples.get(head, (NOTABLE, 0, 0))[0]:
                examples[head] = value, part.rows.start + i, part.keys.start + j
    for head, (value, i, j) in examples.items():
        share = float(mass[:, head][possible[:, head]].mean())
        said = f"query {i} puts {value:.3f} on key {j}; {share:.0%} of the weight is on {words}"
        found.append(Finding("mask inverted" if share > 0.9 else what, call.name, head, i, j, said))


def _idle(call: Call, found: list[Finding]) -> None:
    """Heads that do nothing: even on all they see, or all on one key, for every query."""
    facts = call.statistics
    _, heads, length, size = call.shape
    if length < 2 or size < 3:
        return
    last = call.rows(slice(length - 1, length))
    visible = (last[:, :, 0] > 0).sum(-1).clamp_min(1).float()
    evenly = (facts.entropy[:, :, -1] - visible.log()).abs() < 1e-3
    for head in range(heads):
        if bool((evenly[:, head] & (visible[:, head] > 2)).all()) and _uniform_everywhere(call, head):
            said = "every query spreads its weight evenly over all it sees"
            found.append(Finding("uniform head", call.name, head, length - 1, None, said))
        elif float(facts.entropy[:, head].max()) < 0.01 and length > 2:
            place = (torch.arange(size - length, size) - facts.distance[:, head]).round()
            if bool((place == place[:, :1]).all()):
                key = int(place[0, 0])
                said = f"every query puts all its weight on key {key}"
                found.append(Finding("one-token head", call.name, head, 0, key, said))


def _uniform_everywhere(call: Call, head: int) -> bool:
    middle = call.weights(head=head, queries=[call.shape[2] // 2])[:, 0]
    seen = middle > 0
    return bool((middle.masked_fill(~seen, 0).amax(-1) - middle.masked_fill(~seen, 1).amin(-1) < 1e-4).all())
