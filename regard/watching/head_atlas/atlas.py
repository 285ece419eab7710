"""`regard.atlas`: a table of all heads of a model with what they do, each label confirmed by ablation."""

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path
from typing import Any

import torch
from rich.console import Console
from rich.progress import track
from rich.table import Table
from torch import Tensor, nn

from regard.watching.head_atlas.confirmation import Effects
from regard.watching.head_atlas.detectors import KINDS, score_heads
from regard.watching.head_atlas.model_runs import default_run, record
from regard.watching.head_atlas.test_inputs import make_inputs, vocabulary_of
from regard.watching.head_table import COMPACT, ModulePath, abbreviate_call_names

# Several heads share what depends on the tokens, and a head with even weights has a score of 1 / tokens.
BY_TOKENS = dict.fromkeys(("duplicate token", "induction", "retrieval"), 0.1)
THRESHOLDS = {**dict.fromkeys(KINDS, 0.4), **BY_TOKENS, "positional": 0.8}
TESTS = ("repeated", "duplicates", "needles")


@dataclass(frozen=True)
class Head:
    """One head of the atlas.

    scores      mean weight on the place that each kind looks at, by kind, from 0 to 1
    labels      kinds whose score reaches the threshold
    effects     of each label: what ablating the head changes, as a share; see `head_atlas.confirmation`
    confirmed   labels that the ablation confirms
    """

    call: int
    module: str
    head: int
    scores: dict[str, float]
    effects: dict[str, float] = field(default_factory=dict)
    confirmed: tuple[str, ...] = ()

    @property
    def labels(self) -> tuple[str, ...]:
        return tuple(self.effects)


@dataclass(frozen=True)
class Atlas:
    """What the heads of a model do; returned by `regard.atlas`.

    heads       one `Head` for each head of each call, in the order of the calls
    length      number of tokens of the tests

    >>> import regard
    >>> model = regard.models.Decoder(regard.models.DecoderConfig(20, d_model=16, heads=2, layers=1))
    >>> result = regard.atlas(model.eval(), length=16, items=2, progress=False)
    >>> [(head.call, head.head) for head in result.heads]
    [(0, 0), (0, 1)]
    """

    heads: list[Head]
    length: int

    def labelled(self, kind: str) -> list[tuple[int, int]]:
        """Return the heads whose label of this kind is confirmed, as pairs (call, head)."""
        if kind not in KINDS:
            raise ValueError(f"kind must be one of {', '.join(map(repr, KINDS))}, got {kind!r}")
        return [(one.call, one.head) for one in self.heads if kind in one.confirmed]

    def rows(self) -> list[dict[str, Any]]:
        """Return one row for each head, for JSON."""
        return [
            {"call": x.module, "head": x.head, "labels": list(x.labels), "confirmed": list(x.confirmed)}
            | {"scores": x.scores, "effects": x.effects}
            for x in self.heads
        ]

    def table(self) -> Table:
        """Return a table for the terminal; labels that ablation does not confirm are in brackets."""
        modules = list(dict.fromkeys(x.module for x in self.heads))
        pattern, names = abbreviate_call_names(modules)
        short = dict(zip(modules, names, strict=True))
        table = Table(title=f"What each head does ({self.length} tokens; weight in percent)", **COMPACT)
        table.add_column(pattern if pattern != "*" else "module", overflow="fold")
        for column in ("head", *KINDS):
            table.add_column(column, justify="right")
        table.add_column("labels")
        for x in self.heads:
            if x.head == 0:
                table.add_section()
            cells = [
                f"[bold]{100 * x.scores[k]:.0f}[/bold]" if k in x.labels else f"{100 * x.scores[k]:.0f}" for k in KINDS
            ]
            labels = ", ".join(k if k in x.confirmed else f"({k})" for k in x.labels)
            table.add_row(ModulePath(short[x.module]) if x.head == 0 else "", f"{x.call}:{x.head}", *cells, labels)
        return table

    def picture(self, *, title: str | None = None, theme: str = "light") -> Any:
        """Return a `regard.pictures.Picture` of all heads and their scores."""
        return import_module("regard.pictures.results.head_atlas").head_atlas(self, title=title, theme=theme)

    def save(self, file: str | os.PathLike[str], *, title: str | None = None, theme: str = "light") -> Path:
        """Write the picture (.png, .svg, .pdf), or a page with the picture and all numbers (.html); return the path."""
        pictures = import_module("regard.pictures.results.head_atlas")
        path: Path = pictures.save_atlas(self, file, title=title, theme=theme)
        return path

    def _repr_html_(self) -> str:
        return str(self.picture()._repr_html_())


def atlas(
    model: nn.Module,
    vocabulary: Any = None,
    *,
    length: int | None = None,
    items: int = 4,
    run: Callable[[nn.Module, Tensor], Any] | None = None,
    prefix: Sequence[int] | None = None,
    thresholds: dict[str, float] | None = None,
    seed: int = 0,
    progress: bool = True,
) -> Atlas:
    """Return what each head of a model does: previous token, duplicate token, induction, retrieval, sink, positional.

    vocabulary  tokenizer, number of tokens, or list of token ids to draw from; default: what the model shows
    length      tokens of each test; default: 128, or the model's context if that is shorter
    items       sequences of each test
    run         function of model and token ids (B, length) that runs the model and returns scores of the next token or
                vectors (B, length, …); default: call the model with the ids
    prefix      token ids that begin every test; default: the first token of the tokenizer's texts, if there is one
    thresholds  scores from which heads get a label, by kind; default: 0.4; 0.8 for "positional"; 0.1 for "duplicate
                token", "induction" and "retrieval"
    seed        seed of the tokens
    progress    show the progress on stderr, if that is a terminal

    Every label is tested by ablating the head where its kind acts; see `regard.watching.head_atlas.confirmation`.

    >>> import regard, torch
    >>> torch.manual_seed(0)                                                        # doctest: +ELLIPSIS
    <...>
    >>> config = regard.models.DecoderConfig(50, d_model=16, heads=2, layers=1)
    >>> result = regard.atlas(regard.models.Decoder(config).eval(), length=32)      # random weights do nothing
    >>> len(result.heads), result.labelled("induction")
    (2, [])
    """
    if not isinstance(model, nn.Module):
        raise TypeError(f"atlas expects an nn.Module, got {type(model).__name__}")
    limits = {**THRESHOLDS, **(thresholds or {})}
    if unknown := sorted(set(limits) - set(KINDS)):
        raise ValueError(f"thresholds: no kind {unknown[0]!r}; the kinds are {', '.join(KINDS)}")
    ids, first = vocabulary_of(model, vocabulary)
    first = first if prefix is None else list(prefix)
    length = _default_length(model) if length is None else length
    if length < 16 + len(first) or items < 2:
        raise ValueError(
            f"the tests need at least {16 + len(first)} tokens and 2 sequences, got length={length} and items={items}"
        )
    inputs = make_inputs(ids, first, length, items, seed)
    run = run or default_run
    was_training = model.training
    model.eval()
    try:
        runs = {name: record(model, getattr(inputs, name).to(_device(model)), run) for name in TESTS}
        recordings = {name: seen for name, (seen, _) in runs.items()}
        scores = score_heads(recordings, inputs)
        heads = [
            Head(number, call.name, head, {kind: round(float(scores[kind][number][head]), 4) for kind in KINDS})
            for number, call in enumerate(recordings["repeated"].calls)
            for head in range(call.shape[1])
        ]
        effects = Effects(model, run, inputs, recordings, {name: out for name, (_, out) in runs.items()})
        console = Console(stderr=True)
        hidden = not (progress and console.is_terminal)
        steps = track(heads, "ablating heads", console=console, transient=True, disable=hidden)
        confirmed = [_confirm(head, limits, effects) for head in steps]
    finally:
        model.train(was_training)
    return Atlas(confirmed, inputs.repeated.shape[1])


def _confirm(head: Head, limits: dict[str, float], effects: Effects) -> Head:
    """Return a head with its labels, and what ablating it does."""
    labels = [kind for kind in KINDS if head.scores[kind] >= limits[kind]]
    if "positional" in labels and {"sink", "previous token"} & set(labels):
        labels.remove("positional")
    measured = {kind: round(effects.effect(head.call, head.head, kind), 4) for kind in labels}
    confirmed = tuple(kind for kind, effect in measured.items() if effects.is_confirmed(kind, effect))
    return Head(head.call, head.module, head.head, head.scores, measured, confirmed)


def _default_length(model: nn.Module) -> int:
    config: Any = getattr(model, "config", None)
    names = ("context", "max_position_embeddings", "n_positions", "n_ctx")
    sizes = [size for name in names if isinstance(size := getattr(config, name, None), int) and size > 0]
    return min([128, *sizes])


def _device(model: nn.Module) -> torch.device:
    return next((parameter.device for parameter in model.parameters()), torch.device("cpu"))
