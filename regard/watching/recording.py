"""The recorded calls of one run of a model, and what is computed from all of them together."""

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
from regard.watching.doctor.examination import examine
from regard.watching.doctor.findings import Findings
from regard.watching.generation import group_steps
from regard.watching.readers.eager_softmax import WRONG_AXIS

Tokens = Sequence[str] | Mapping[str, Sequence[str] | tuple[Sequence[str], Sequence[str]]] | None


@dataclass(frozen=True)
class Unseen:
    """A module that attends, or seems to, but made no call that could be recorded."""

    module: str
    reason: str

    def __str__(self) -> str:
        return f"{self.module or 'the model'}: {self.reason}"


@dataclass
class Recording:
    """The calls recorded by `regard.watch`, in the order in which they were made.

    >>> import regard, torch
    >>> layer = regard.nn.MultiHeadAttention(16, 2, causal=True)
    >>> with regard.watch(layer) as seen:
    ...     _ = layer(torch.randn(1, 5, 16))
    >>> seen[0]
    Call('', B=1 H=2 L=5 S=5, regard.attend, mask=causal())
    >>> [round(row["next"], 6) for row in seen.summary()]       # no weight on the next token
    [0.0, 0.0]
    >>> seen.check(causal=True)
    []
    """

    model: nn.Module = field(repr=False)
    calls: list[Call] = field(default_factory=list)
    skipped: int = 0  # calls not recorded because of max_calls
    unseen: list[Unseen] = field(default_factory=list)  # what attends but was not recorded
    notes: list[str] = field(default_factory=list)  # how the model ran differently from an unwatched run
    selective: bool = field(default=False, repr=False)  # whether only= restricts what is recorded

    def __getitem__(self, which: int | str) -> Call:
        """Return a call by its number, or by the path of its module (its last call, if it made several)."""
        self._check_not_empty()
        if isinstance(which, int):
            return self.calls[which]
        calls = [call for call in self.calls if call.name == which]
        if not calls:
            names = ", ".join(dict.fromkeys(call.name for call in self.calls))
            raise KeyError(f"module {which!r} made no attention call; these modules did: {names}")
        return calls[-1]

    def __len__(self) -> int:
        return len(self.calls)

    def _check_not_empty(self) -> None:
        if not self.calls:
            raise ValueError(explain_no_calls(self.model))

    def summary(self) -> list[dict[str, Any]]:
        """Return one row per head: mean entropy, distance, spread, weight on the first key, share of empty rows.

        Where the positions of the queries are known also the mean weight on the previous token, the token itself and
        the next one; otherwise the distance is None.
        """
        self._check_not_empty()
        rows = []
        for call in self.calls:
            stats = call.statistics
            columns = {"entropy": stats.entropy, "distance": None, "spread": stats.spread, "sink": stats.sink}
            if call.positions is not None:
                columns["distance"] = call.distance()
                if call.stored_statistics is None:
                    columns |= {name: call.at_offset(n) for name, n in (("previous", -1), ("own", 0), ("next", 1))}
            counts = (~stats.empty).sum((0, 2)).clamp_min(1)
            empty = stats.empty.float().mean((0, 2)).tolist()
            means = {
                name: [None] * len(empty) if values is None else (values.sum((0, 2)) / counts).tolist()
                for name, values in columns.items()
            }
            for head in range(call.shape[1]):
                of_head = {name: values[head] for name, values in means.items()}
                rows.append({"call": call.name, "head": head, **of_head, "empty": empty[head]})
        return rows

    def table(self) -> Table:
        """Return the summary as a table for the terminal."""
        rows = self.summary()
        pattern, names = abbreviate_call_names([call.name for call in self.calls])
        table = Table(title=f"What each head attends to, on average ({pattern})", title_justify="left")
        table.add_column("*" if "*" in pattern else "call")
        for column in ("head", "entropy", "distance", "spread", "first", "previous", "own", "next"):
            table.add_column(column, justify="right", no_wrap=True)
        some_empty = any(row["empty"] for row in rows)
        if some_empty:
            table.add_column("empty rows", justify="right")
        remaining_rows = iter(rows)
        for name, call in zip(names, self.calls, strict=True):
            for head, row in zip(range(call.shape[1]), remaining_rows, strict=False):
                means = ["?" if row[key] is None else f"{row[key]:.2f}" for key in ("entropy", "distance", "spread")]
                weights = [_format_weight(row.get(key)) for key in ("sink", "previous", "own", "next")]
                empty = [f"{row['empty']:.0%}" if row["empty"] else ""] if some_empty else []
                table.add_row(name if head == 0 else "", str(head), *means, *weights, *empty)
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
        """Draw the attention of one batch item into a file, and return its path. The extension selects the format.

        .html               page with every head of every call: zoom, exact values, works offline
        .png, .svg, .pdf    overview of calls × heads: mean entropy and thumbnails of the weights

        tokens      names of the tokens; where calls have different tokens, a dict from patterns of module paths
                    to names, or to a pair of names for queries and keys:
                    {"encoder.*": source, "decoder.*.self_attn": target, "*.cross_attn": (target, source)}
        """
        self._check_not_empty()
        return _pictures().save_seen(self, file, tokens, batch=batch, title=title, theme=theme)

    def _repr_html_(self) -> str | None:
        return _pictures().inline_seen(self) if self.calls else None

    def check(self, *, padding: Any = None, causal: Any = False, documents: Any = None) -> Findings:
        """Return what looks wrong in the calls, with what was checked and what could not be; see `doctor`.

        padding     real tokens, (B, S): booleans, 1 and 0 as tokenizers return them, or numbers to add to the scores
                    (0 = real); or lengths (B,). In an encoder-decoder model, those of the source. Queries that are
                    padding are not checked.
        causal      whether the model should be causal: True applies to self-attention outside of encoders; a pattern
                    of module paths, or several, to these modules
        documents   document number of each token of packed sequences, (B, S), or the lengths of the documents

        `padding` and `documents` may be dicts from patterns of module paths to masks.

        >>> import regard, torch
        >>> layer = torch.nn.TransformerEncoderLayer(16, 2, batch_first=True).eval()
        >>> with torch.no_grad(), regard.watch(layer) as seen:
        ...     _ = layer(torch.randn(2, 5, 16))                       # the padding mask is forgotten
        >>> [finding.what for finding in seen.check(padding=[[1, 1, 1, 1, 1], [1, 1, 1, 0, 0]])]
        ['attends to padding']
        """
        unseen = [(x.module, x.reason) for x in self.unseen]
        if not any(reason == WRONG_AXIS for _, reason in unseen):
            self._check_not_empty()
        arguments = {"padding": padding, "causal": causal, "documents": documents}
        complete = not (self.skipped or self.selective)
        return examine(self.model, self.calls, **arguments, unseen=unseen, complete=complete)

    def generation(self, number: int | None = None) -> "Generation":
        """Return one call per module for all steps of a generation: prompt and continuation together.

        Its methods are those of a recording: `table`, `save` (one picture of prompt and continuation), `check`, ….
        `steps` holds the step of each query, 0 for the prompt.

        number      which generation of the recording, counted from 0; needed if there are several
        """
        self._check_not_empty()
        grouped = group_steps(self, number)
        return Generation(
            self.model, grouped.calls, self.skipped, self.unseen, self.notes, self.selective, grouped.steps
        )

    def rollout(self, *, residual: float = 0.5) -> Float[Tensor, "batch queries keys"]:
        """Return attention rollout: how much of each input token reaches each output token.

        It is the product over the layers of the mean over heads, mixed with the identity for the residual stream.
        The result is an S×S matrix for each batch item.
        """
        self._check_not_empty()
        total: Tensor | None = None
        for call in self.calls:
            length, size = call.shape[2:]
            if length != size:
                raise ValueError(f"rollout needs self-attention, but call {call.name!r} has L={length} and S={size}")
            mean = torch.stack([call.weights(head=head) for head in range(call.shape[1])]).mean(0)
            mixed = residual * torch.eye(length, device=mean.device) + (1 - residual) * mean
            total = mixed if total is None else mixed @ total
        assert total is not None
        return total

    def compare(self, other: "Recording") -> list[dict[str, Any]]:
        """Return the change of each head's mean statistics from this recording to another, largest changes first."""
        rows, other_rows = self.summary(), other.summary()
        if [(row["call"], row["head"]) for row in rows] != [(row["call"], row["head"]) for row in other_rows]:
            raise ValueError("the two recordings have different calls; compare two runs of the same model")
        changes = []
        for a, b in zip(rows, other_rows, strict=True):
            keys = [key for key in ("entropy", "distance", "spread", "sink") if a[key] is not None is not b[key]]
            change = {key: b[key] - a[key] for key in keys}
            changes.append({"call": a["call"], "head": a["head"], **change})
        return sorted(changes, key=lambda row: -abs(row["entropy"]) - abs(row["sink"]))


@dataclass
class Generation(Recording):
    """The calls of a generation, one per module, and the step of each query; see `Recording.generation`."""

    steps: list[int] = field(default_factory=list)


def abbreviate_call_names(names: Sequence[str]) -> tuple[str, list[str]]:
    """Return the common pattern of the calls' names, with * where they differ, and the differing part of each.

    >>> abbreviate_call_names(["model.layers.0.attn", "model.layers.1.attn", "model.layers.1.attn"])
    ('model.layers.*.attn', ['0', '1', '1 #2'])
    >>> abbreviate_call_names(["encoder.attn", "decoder.attn"])
    ('*.attn', ['encoder', 'decoder'])
    """
    paths = [name.split(".") if name else ["model"] for name in names]
    shortest = min(map(len, paths))
    prefix = _common_prefix(paths, shortest)
    suffix = _common_prefix([path[::-1] for path in paths], shortest - prefix)
    counts: dict[str, int] = {}
    short_names = []
    for path in paths:
        name = ".".join(path[prefix : len(path) - suffix]) or path[-1]
        counts[name] = counts.get(name, 0) + 1
        short_names.append(name if counts[name] == 1 else f"{name} #{counts[name]}")
    middle = [] if prefix + suffix == max(map(len, paths)) else ["*"]
    return ".".join([*paths[0][:prefix], *middle, *paths[0][len(paths[0]) - suffix :]]), short_names


def _common_prefix(paths: list[list[str]], limit: int) -> int:
    """Return how many parts at the start are the same in all paths, at most `limit`."""
    count = 0
    while count < limit and len({path[count] for path in paths}) == 1:
        count += 1
    return count


def _pictures() -> Any:
    """Return the module that draws recordings. It imports this package, so it is imported only when needed."""
    return import_module("regard.pictures.weights.recorded_heads")


def _format_weight(weight: float | None) -> str:
    """Format a mean weight; 0.5 and more is bold and marked, to be visible without colour too."""
    if weight is None:
        return ""
    return f"[bold]{weight:.2f} ◂[/bold]" if weight >= 0.5 else f"{weight:.2f}  "


def explain_no_calls(model: nn.Module) -> str:
    """Return an error message with the likely reasons why no call was recorded."""
    reasons = [
        "nothing was run inside the with-block",
        "the model computes attention with a kernel of its own (flash-attn, xformers, a CUDA extension)",
        "it computes eager attention with its softmax inside a custom function",
        "only= selected no module that attends",
        "the model ran in another thread",
    ]
    if any("OptimizedModule" in type(module).__name__ for module in model.modules()):
        reasons.insert(0, "the model is compiled (torch.compile): watch the original model, model._orig_mod")
    return "no attention call was recorded. Likely reasons: " + "; ".join(reasons)
