"""The recorded calls of one run of a model, and what is computed from all of them together."""

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path
from typing import Any

from jaxtyping import Float
from rich.table import Table
from torch import Tensor, nn

from regard.watching.attribution.importance import head_importance
from regard.watching.attribution.relevance import token_relevance
from regard.watching.attribution.rollout import rollout_matrix, rollout_row
from regard.watching.attribution.token_streams import SOURCE
from regard.watching.call import Call
from regard.watching.doctor.examination import examine
from regard.watching.doctor.findings import Findings
from regard.watching.generation import group_steps
from regard.watching.head_table import head_table
from regard.watching.readers.eager.trails import WRONG_AXIS

Names = Sequence[str]
Tokens = Names | Sequence[Names] | Mapping[str, Names | tuple[Names, Names]] | None


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

    model       the model that was watched
    calls       the recorded calls
    skipped     number of calls that were not recorded because of max_calls
    unseen      what attends but was not recorded
    notes       how the model ran differently from an unwatched run
    selective   whether `only` restricts what is recorded

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
    skipped: int = 0
    unseen: list[Unseen] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    selective: bool = field(default=False, repr=False)

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
            raise ValueError("; ".join([explain_no_calls(self.model), *self.remarks()]))

    def remarks(self) -> list[str]:
        """Return what the recording does not contain and how the run differed from an unwatched one, one line each."""
        lines = [f"Not seen: {unseen}" for unseen in self.unseen] + [f"Note: {note}" for note in self.notes]
        if self.skipped:
            lines.append(f"Not recorded because of max_calls: {self.skipped} call{'s' * (self.skipped != 1)}")
        return lines

    def summary(self, *, batch: int | None = None) -> list[dict[str, Any]]:
        """Return one row per head: means of entropy, distance, spread and weights over the queries.

        sink        weight on the first key
        no_key      share of the softmax that goes to no key (a sink of the model)
        empty       share of the queries that see no key
        distance    None where the positions of the queries are not known; otherwise the row has the weights on the
                    `previous` token, the `own` token and the `next` one

        batch       mean over one batch item only; default: over all
        """
        self._check_not_empty()
        items = slice(None) if batch is None else slice(batch, batch + 1)
        rows = []
        for call in self.calls:
            stats = call.statistics
            columns = {"entropy": stats.entropy, "distance": None, "spread": stats.spread, "sink": stats.sink}
            columns["no_key"] = call.sink()
            if call.positions is not None:
                columns["distance"] = call.distance()
                if call.stored_statistics is None:
                    columns |= {name: call.at_offset(n) for name, n in (("previous", -1), ("own", 0), ("next", 1))}
            counts = (~stats.empty[items]).sum((0, 2)).clamp_min(1)
            empty = stats.empty[items].float().mean((0, 2)).tolist()
            means = {
                name: [None] * len(empty) if values is None else (values[items].sum((0, 2)) / counts).tolist()
                for name, values in columns.items()
            }
            for head in range(call.shape[1]):
                of_head = {name: values[head] for name, values in means.items()}
                rows.append({"call": call.name, "head": head, **of_head, "empty": empty[head]})
        return rows

    def table(self) -> Table:
        """Return the summary as a table for the terminal, with what was not seen and notes below it.

        Heads are numbered CALL:HEAD; `seen.calls[CALL]` is the call.
        """
        return head_table([call.name for call in self.calls], self.summary(), self.remarks())

    def save(
        self,
        file: str | os.PathLike[str],
        tokens: Tokens = None,
        *,
        batch: int | Sequence[int] | None = None,
        title: str | None = None,
        theme: str = "light",
        findings: Findings | None = None,
        other: "Recording | None" = None,
        other_tokens: Tokens = None,
        other_findings: Findings | None = None,
    ) -> Path:
        """Draw the recorded attention into a file, and return its path. The extension selects the format.

        .html               page with every head of every call: zoom, exact values, statistics, what the doctor found
                            and what was not seen; works offline
        .png, .svg, .pdf    overview of calls × heads of one batch item: mean entropy and thumbnails of the weights

        tokens      names of the tokens; where calls have different tokens, a dict from patterns of module paths
                    to names, or to a pair of names for queries and keys:
                    {"encoder.*": source, "decoder.*.self_attn": target, "*.cross_attn": (target, source)}
                    or, where the items of a batch have different tokens, one list for each item
        batch       batch item to draw, or several for a page to choose from; default: the first and, on a page, those
                    after it as long as the page holds at most two million weights
        findings    result of `check`, to show on the page; default: `check()`
        other       recording of another run of the same model, to show beside this one on a page, with its
                    `other_tokens` (default: `tokens`) and `other_findings`
        """
        self._check_not_empty()
        return _pictures().save_seen(
            self, file, tokens, batch=batch, title=title, theme=theme, findings=findings, other=other,
            other_tokens=other_tokens, other_findings=other_findings,
        )  # fmt: skip

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
        calls, steps = group_steps(self.calls, number)
        return Generation(self.model, calls, self.skipped, self.unseen, self.notes, self.selective, steps)

    def rollout(self, *, residual: float = 0.5, query: int | None = None) -> Float[Tensor, "batch *queries keys"]:
        """Return attention rollout: how much of each input token reaches each output token.

        It is the product over the layers of the mean over heads, mixed with the identity for the residual stream.

        residual    share of the identity
        query       return the row of this token only, (B, S), with memory linear in length; default: the S×S matrix
                    of each batch item

        >>> import regard, torch
        >>> layer = regard.nn.MultiHeadAttention(16, 2, causal=True)
        >>> with regard.watch(layer) as seen:
        ...     _ = layer(torch.randn(1, 5, 16))
        >>> seen.rollout(query=0)                                   # the first token sees itself only
        tensor([[1., 0., 0., 0., 0.]])
        """
        self._check_not_empty()
        if query is None:
            return rollout_matrix(self.calls, residual)
        return rollout_row(self.calls, query, residual)

    def importance(self, loss: Tensor, *, per_item: bool = False) -> Float[Tensor, "calls *_ heads"]:
        """Return the importance of every head for a loss, (calls, H): its gradient with respect to a gate on the head.

        The gate is 1 and multiplies the head's output. To first order, removing the head changes the loss by minus
        this number. One backward pass gives all; the graph is kept. NaN where a call has fewer heads than others.

        loss        number computed from the output of the run, which must have had gradients
        per_item    return (calls, B, H): one gate for each batch item

        >>> import regard, torch
        >>> layer = regard.nn.MultiHeadAttention(16, 2, bias=False)
        >>> with regard.watch(layer) as seen:
        ...     out = layer(torch.randn(1, 5, 16))
        >>> total = seen.importance(out.sum()).sum()                # the output is linear in its heads
        >>> torch.allclose(total, out.sum(), atol=1e-5)
        True
        """
        self._check_not_empty()
        return head_importance(self.calls, loss, per_item=per_item)

    def relevance(
        self, target: Tensor, *, query: int | None = None, source: bool = False
    ) -> Float[Tensor, "batch tokens"]:
        """Return the relevance of every token for a target: gradient × attention through all layers (Chefer et al.).

        Memory is linear in length on fused attention. One backward pass is made; the graph is kept.

        target  number computed from the output of the run, which must have had gradients; or one for each batch item
        query   token at which the target is read; default: the tokens of the last layer that it depends on, evenly
        source  return the relevance of the tokens of the encoder, in a model with cross-attention

        >>> import regard, torch
        >>> layer = regard.nn.MultiHeadAttention(16, 2, causal=True)
        >>> with regard.watch(layer) as seen:
        ...     out = layer(torch.randn(1, 5, 16))
        >>> relevance = seen.relevance(out[0, 2, 0])                # read at token 2, which does not see the later ones
        >>> relevance.shape, relevance[0, 3:]
        (torch.Size([1, 5]), tensor([0., 0.]))
        """
        self._check_not_empty()
        relevance = token_relevance(self.calls, target, query=query)
        name = SOURCE if source else ""
        if name not in relevance:
            raise ValueError("relevance(source=True): the model has no cross-attention, so that there is no source")
        return relevance[name]

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


def _pictures() -> Any:
    """Return the module that draws recordings. It imports this package, so it is imported only when needed."""
    return import_module("regard.pictures.weights.recorded_heads")


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
