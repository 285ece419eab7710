"""What was seen: the calls, and what they say together."""

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path
from typing import Any

import torch
from jaxtyping import Float
from rich.table import Table
from torch import Tensor, nn

from regard.watching.call import Call
from regard.watching.doctor import Finding, examine

Tokens = Sequence[str] | Mapping[str, Sequence[str] | tuple[Sequence[str], Sequence[str]]] | None


@dataclass
class Seen:
    """The calls of one run, in order."""

    model: nn.Module = field(repr=False)
    calls: list[Call] = field(default_factory=list)
    left_out: int = 0  # calls not recorded because of max_calls

    def __getitem__(self, which: int | str) -> Call:
        """A call by its number, or by the path of its module (the last one, where it called several times)."""
        self._something()
        if isinstance(which, int):
            return self.calls[which]
        found = [call for call in self.calls if call.name == which]
        if not found:
            names = ", ".join(dict.fromkeys(call.name for call in self.calls))
            raise KeyError(f"no call was made by {which!r}; calls were made by {names}")
        return found[-1]

    def __len__(self) -> int:
        return len(self.calls)

    def _something(self) -> None:
        if not self.calls:
            raise ValueError(nothing_seen(self.model))

    def summary(self) -> list[dict[str, Any]]:
        """A row for every head of every call: mean entropy, distance, spread, sink mass, share of empty rows.

        Where queries and keys are the same tokens, also the mean weight on the previous, the own and the next one.
        """
        self._something()
        rows = []
        for call in self.calls:
            facts = call.statistics
            neighbours = (
                {}
                if call.kept or call.shape[2] != call.shape[3]
                else {name: call.beside(offset) for name, offset in (("previous", -1), ("own", 0), ("next", 1))}
            )
            for head in range(call.shape[1]):
                seen = ~facts.empty[:, head]
                count = max(1, int(seen.sum()))
                rows.append(
                    {
                        "call": call.name,
                        "head": head,
                        "entropy": float(facts.entropy[:, head].sum() / count),
                        "distance": float(facts.distance[:, head].sum() / count),
                        "spread": float(facts.spread[:, head].sum() / count),
                        "sink": float(facts.sink[:, head].sum() / count),
                        "empty": float((~seen).float().mean()),
                        **{name: float(beside[:, head].sum() / count) for name, beside in neighbours.items()},
                    }
                )
        return rows

    def table(self) -> Table:
        """The summary to be printed."""
        rows = self.summary()
        shared, names = short_names(self.calls)
        table = Table(title=f"What each head attends to, on average ({shared})", title_justify="left")
        table.add_column("*" if "*" in shared else "call")
        for column in ("head", "entropy", "distance", "spread", "first", "previous", "own", "next"):
            table.add_column(column, justify="right", no_wrap=True)
        some_empty = any(row["empty"] for row in rows)
        if some_empty:
            table.add_column("empty rows", justify="right")
        place = iter(rows)
        for name, call in zip(names, self.calls, strict=True):
            for head in range(call.shape[1]):
                row = next(place)
                figures = [f"{row[key]:.2f}" for key in ("entropy", "distance", "spread")]
                shares = [_share(row.get(key)) for key in ("sink", "previous", "own", "next")]
                empty = [f"{row['empty']:.0%}" if row["empty"] else ""] if some_empty else []
                table.add_row(name if head == 0 else "", str(head), *figures, *shares, *empty)
            table.add_section()
        return table

    def save(
        self,
        file: str | os.PathLike[str],
        tokens: Tokens = None,
        *,
        batch: int = 0,
        title: str | None = None,
        theme: str = "light",
    ) -> Path:
        """Write what was seen of one batch item, as the ending says, and return the path.

        .html               a page with every head of every call: zoom, exact values, no network
        .png, .svg, .pdf    the overview of calls × heads: mean entropy, and the weights small

        tokens      names of the tokens; where calls are over different ones, a dict from patterns of module paths
                    to names, or to a pair of names for the queries and the keys:
                    {"encoder.*": source, "decoder.*.self_attn": target, "*.cross_attn": (target, source)}
        """
        self._something()
        return _pictures().save_seen(self, file, tokens, batch=batch, title=title, theme=theme)

    def _repr_html_(self) -> str | None:
        return _pictures().inline_seen(self) if self.calls else None

    def check(self, *, padding: Any = None, causal: bool = False) -> list[Finding]:
        """What looks wrong: see `regard.watching.doctor`."""
        self._something()
        return examine(self.calls, padding=padding, causal=causal)

    def rollout(self, *, residual: float = 0.5) -> Float[Tensor, "b l s"]:
        """Attention composed over the layers: how much of each input token reaches each output token.

        The mean of the heads of each layer, mixed with the residual stream and multiplied up. It is the one question
        here whose answer is an S×S matrix.
        """
        self._something()
        total: Tensor | None = None
        for call in self.calls:
            if call.shape[2] != call.shape[3]:
                raise ValueError(
                    f"rollout composes self-attention; {call.name!r} has L={call.shape[2]}, S={call.shape[3]}"
                )
            mean = torch.stack([call.weights(head=head) for head in range(call.shape[1])]).mean(0)
            mixed = residual * torch.eye(call.shape[2]) + (1 - residual) * mean
            total = mixed if total is None else mixed @ total
        assert total is not None
        return total

    def compare(self, other: "Seen") -> list[dict[str, Any]]:
        """Which heads changed between two runs, the most changed first: difference of the means of each statistic."""
        mine, theirs = self.summary(), other.summary()
        if [(row["call"], row["head"]) for row in mine] != [(row["call"], row["head"]) for row in theirs]:
            raise ValueError("the two runs made different calls; compare runs of the same model")
        rows = []
        for a, b in zip(mine, theirs, strict=True):
            change = {key: b[key] - a[key] for key in ("entropy", "distance", "spread", "sink")}
            rows.append({"call": a["call"], "head": a["head"], **change})
        return sorted(rows, key=lambda row: -abs(row["entropy"]) - abs(row["sink"]))


def short_names(calls: Sequence[Call]) -> tuple[str, list[str]]:
    """What the names of the calls share, with * where they differ, and for each call what differs.

    >>> from types import SimpleNamespace as Named
    >>> short_names([Named(name=f"model.layers.{i}.attn") for i in (0, 1, 1)])
    ('model.layers.*.attn', ['0', '1', '1 #2'])
    >>> short_names([Named(name="encoder.attn"), Named(name="decoder.attn")])
    ('*.attn', ['encoder', 'decoder'])
    """
    split = [call.name.split(".") if call.name else ["model"] for call in calls]
    shortest = min(map(len, split))
    before = _shared(split, shortest)
    after = _shared([parts[::-1] for parts in split], shortest - before)
    counts: dict[str, int] = {}
    names = []
    for parts in split:
        name = ".".join(parts[before : len(parts) - after]) or parts[-1]
        counts[name] = counts.get(name, 0) + 1
        names.append(name if counts[name] == 1 else f"{name} #{counts[name]}")
    middle = [] if before + after == max(map(len, split)) else ["*"]
    return ".".join([*split[0][:before], *middle, *split[0][len(split[0]) - after :]]), names


def _shared(split: list[list[str]], most: int) -> int:
    """How many parts at the beginning are the same in all."""
    count = 0
    while count < most and len({parts[count] for parts in split}) == 1:
        count += 1
    return count


def _pictures() -> Any:
    """The room that draws. It knows this one, not the other way round, so it is asked by name when needed."""
    return import_module("regard.pictures")


def _share(value: float | None) -> str:
    """A share of the weight; half and more stands out, also without colour."""
    if value is None:
        return ""
    return f"[bold]{value:.2f} ◂[/bold]" if value >= 0.5 else f"{value:.2f}  "


def nothing_seen(model: nn.Module) -> str:
    """Why no call may have been recorded, and what to do."""
    compiled = any("OptimizedModule" in type(module).__name__ for module in model.modules())
    reasons = [
        "nothing was run inside the with-block",
        "the model makes attention with a kernel of its own (flash-attn, xformers, a CUDA extension)",
        "eager attention whose softmax is hidden in a custom function",
        "only= chose no module that attends, or another thread ran the model",
    ]
    if compiled:
        reasons.insert(0, "the model is compiled (torch.compile): watch the model it was made from, model._orig_mod")
    return "no attention call was seen. Likely reasons: " + "; ".join(reasons)
