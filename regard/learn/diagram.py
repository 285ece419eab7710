"""The diagram of self-attention, which the learner assembles from boxes.

An arrangement is a list of arrows (from, to), or the boxes in an order. It is not compared with one solution. The
values are followed along the arrows from box to box, and the first box that gets an input it cannot use is reported.
So every valid arrangement is accepted: queries scaled before the product or scores after it, the mask before or after
the scaling or left out, keys scaled instead of queries. A step on the wrong side of softmax is reported before anything
else.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path
from typing import Literal

from regard.languages import LANGUAGES, Bilingual, bilingual, fill_in, read_texts

TEXTS = read_texts(Path(__file__).with_suffix(".toml"))

Edge = tuple[str, str]
Kind = Literal["x", "q", "k", "v", "scores", "weights", "context", "merged", "output"]


@dataclass(frozen=True)
class Value:
    """Value that an arrow carries: its kind (queries, keys, scores, …), and which operations were applied."""

    kind: Kind
    split: bool = False
    scaled: bool = False


@dataclass(frozen=True)
class Piece:
    """A box of the diagram: its number of inputs, and the function from input values to the result."""

    name: str
    arrows: int
    apply: Callable[["Diagram", Sequence[Value]], Value]

    @property
    def label(self) -> Bilingual:
        """Return the text on the box."""
        label: Bilingual = TEXTS["label"][self.name]
        return label


@dataclass(frozen=True)
class Diagram:
    """The boxes of a diagram, and one correct arrangement of them.

    name, title     name of the diagram, and title in both languages
    pieces          the boxes by name
    answer          arrows (from, to) of one correct arrangement

    >>> diagram = DIAGRAMS["self-attention"]
    >>> diagram.title["en"], diagram.answer[:3]
    ('Self-attention, one head', (('input', 'w_q'), ('w_q', 'product'), ('product', 'scale')))
    """

    name: str
    title: Bilingual
    pieces: Mapping[str, Piece]
    answer: tuple[Edge, ...]

    @property
    def splits(self) -> bool:
        """Return whether the diagram splits queries, keys and values into heads."""
        return "split_q" in self.pieces


@dataclass(frozen=True)
class DiagramResult:
    """Whether an arrangement is correct; if not, the first error and the box at which it occurs."""

    correct: bool
    message: Bilingual
    piece: str | None = None


class InvalidInput(ValueError):
    """A box of the diagram got an input that it cannot use."""

    def __init__(self, key: str, **values: object) -> None:
        self.message = _message(key, **values)
        super().__init__(self.message["en"])


def check_edges(diagram: Diagram, edges: Sequence[Edge]) -> DiagramResult:
    """Return whether the arrows compute attention.

    diagram     the diagram to assemble
    edges       the learner's arrows (from, to)

    >>> check_edges(DIAGRAMS["self-attention"], DIAGRAMS["self-attention"].answer).correct
    True
    """
    for name in (name for edge in edges for name in edge):
        if name not in diagram.pieces:
            raise ValueError(f"the pieces are {', '.join(diagram.pieces)}, got {name!r}")
    late = next((name for name in AFTER_SOFTMAX if _is_after_softmax(edges, name)), None)
    if late is not None:
        return DiagramResult(False, _message(AFTER_SOFTMAX[late]), late)
    used = {name for edge in edges for name in edge}
    pieces = {name: piece for name, piece in diagram.pieces.items() if name in used or name not in OPTIONAL}
    sources: dict[str, list[str]] = {name: [] for name in pieces}
    for start, end in edges:
        if start in sources[end]:
            message = _message("two-arrows", start=pieces[start].label, end=pieces[end].label)
            return DiagramResult(False, message, end)
        sources[end].append(start)
    values: dict[str, Value] = {}
    waiting = list(pieces)
    while waiting:
        ready = [name for name in waiting if all(source in values for source in sources[name])]
        if not ready:
            cycle = _find_cycle(sources, waiting)
            labels = {language: " → ".join(pieces[name].label[language] for name in cycle) for language in LANGUAGES}
            return DiagramResult(False, _message("cycle", cycle=labels), cycle[0])
        name = ready[0]
        waiting.remove(name)
        try:
            values[name] = _apply(diagram, name, [values[source] for source in sources[name]])
        except InvalidInput as error:
            return DiagramResult(False, error.message, name)
    starts = {start for start, _ in edges}
    for name in pieces:
        if name not in starts and name != "output":
            return DiagramResult(False, _message("unused", label=pieces[name].label), name)
    return DiagramResult(True, _message("correct"))


def check_order(diagram: Diagram, order: Sequence[str]) -> DiagramResult:
    """Return whether the boxes in this order compute attention; each box takes the latest suitable values before it.

    diagram     the diagram to assemble
    order       names of the boxes in the learner's order

    >>> order = ["input", "w_q", "w_k", "w_v", "product", "scale", "softmax", "mask", "sum", "output"]
    >>> check_order(DIAGRAMS["self-attention"], order).piece
    'mask'
    """
    if sorted({*order, *OPTIONAL}) != sorted(diagram.pieces) or len(set(order)) < len(order):
        missing = [name for name in diagram.pieces if name not in (*order, *OPTIONAL)]
        extra = [name for name in order if name not in diagram.pieces or list(order).count(name) > 1]
        raise ValueError(f"an order has every piece once; missing: {missing or 'none'}, too many: {extra or 'none'}")
    late = next((name for name in AFTER_SOFTMAX if name in order[order.index("softmax") :]), None)
    if late is not None:
        return DiagramResult(False, _message(AFTER_SOFTMAX[late]), late)
    latest: dict[Kind, Value] = {}
    for name in order:
        try:
            candidates = [[latest[kind] for kind in kinds if kind in latest] for kinds in ACCEPTED_KINDS.get(name, ())]
            value = _apply(diagram, name, [values[-1] for values in candidates if values])
        except InvalidInput as error:
            return DiagramResult(False, error.message, name)
        latest[value.kind] = value
    return DiagramResult(True, _message("correct"))


def _is_after_softmax(edges: Sequence[Edge], name: str) -> bool:
    """Return whether arrows lead from softmax to the box, and none lead back."""

    def reachable(start: str) -> set[str]:
        found: set[str] = set()
        waiting = [start]
        while waiting:
            ends = {end for begin, end in edges if begin == waiting[-1]} - found
            waiting.pop()
            found |= ends
            waiting.extend(ends)
        return found

    return name in reachable("softmax") and "softmax" not in reachable(name)


AFTER_SOFTMAX = {
    "scale": "scale-late",
    "mask": "mask-late",
}  # boxes before softmax, and the message if they are after it
OPTIONAL = ("mask",)  # boxes that a diagram may leave out
PROJECTED: tuple[Kind, ...] = ("q", "k", "v")
# For an order of boxes: the kinds that each input accepts, the preferred kind last.
ACCEPTED_KINDS: Mapping[str, tuple[tuple[Kind, ...], ...]] = {
    **{f"w_{kind}": (("x",),) for kind in PROJECTED},
    **{f"split_{kind}": ((kind,),) for kind in PROJECTED},
    "product": (("q",), ("k",)),
    "scale": (("q", "scores", "weights"),),
    "mask": (("scores", "weights"),),
    "softmax": (("scores",),),
    "sum": (("scores", "weights"), ("v",)),
    "merge": (("weights", "context"),),
    "w_o": (("context", "merged"),),
    "output": (("weights", "context", "merged", "output"),),
}


def _apply(diagram: Diagram, name: str, inputs: Sequence[Value]) -> Value:
    piece = diagram.pieces[name]
    label = _capitalize(piece.label)
    if len(inputs) < piece.arrows and not inputs:
        raise InvalidInput("no-input", label=piece.label)
    if len(inputs) < piece.arrows:
        raise InvalidInput("one-input", Label=label, value=_value_text(inputs[0].kind))
    if len(inputs) > piece.arrows:
        count = TEXTS["count"][str(piece.arrows)]
        raise InvalidInput("too-many", Label=label, count=count, values=_value_texts(inputs))
    return piece.apply(diagram, inputs)


def _projection(kind: Kind) -> Callable[[Diagram, Sequence[Value]], Value]:
    def apply(diagram: Diagram, inputs: Sequence[Value]) -> Value:
        _require(inputs[0], "x", "projection", Label=f"W_{kind}")
        return Value(kind)

    return apply


def _split(kind: Kind) -> Callable[[Diagram, Sequence[Value]], Value]:
    def apply(diagram: Diagram, inputs: Sequence[Value]) -> Value:
        label = _capitalize(TEXTS["label"][f"split_{kind}"])
        _require(inputs[0], kind, "split", Label=label, wanted=_value_text(kind))
        return replace(inputs[0], split=True)

    return apply


def _product(diagram: Diagram, inputs: Sequence[Value]) -> Value:
    kinds = sorted(value.kind for value in inputs)
    if "v" in kinds:
        raise InvalidInput("product-values")
    if kinds != ["k", "q"]:
        raise InvalidInput("product", values=_value_texts(inputs))
    if diagram.splits and not all(value.split for value in inputs):
        raise InvalidInput("product-split")
    if all(value.scaled for value in inputs):
        raise InvalidInput("scaled-twice")
    return Value("scores", split=inputs[0].split, scaled=any(value.scaled for value in inputs))


def _scale(diagram: Diagram, inputs: Sequence[Value]) -> Value:
    if inputs[0].kind in ("weights", "context", "merged"):
        raise InvalidInput("scale-late")
    if inputs[0].kind not in ("q", "k", "scores"):
        raise InvalidInput("scale", value=_value_text(inputs[0].kind))
    if inputs[0].scaled:
        raise InvalidInput("scaled-twice")
    return replace(inputs[0], scaled=True)


def _mask(diagram: Diagram, inputs: Sequence[Value]) -> Value:
    if inputs[0].kind in ("weights", "context"):
        raise InvalidInput("mask-late")
    _require(inputs[0], "scores", "mask")
    return inputs[0]


def _softmax(diagram: Diagram, inputs: Sequence[Value]) -> Value:
    _require(inputs[0], "scores", "softmax")
    if not inputs[0].scaled:
        raise InvalidInput("softmax-unscaled")
    return Value("weights", split=inputs[0].split)


def _sum(diagram: Diagram, inputs: Sequence[Value]) -> Value:
    kinds = sorted(value.kind for value in inputs)
    if "scores" in kinds:
        raise InvalidInput("sum-scores")
    if kinds == ["k", "weights"]:
        raise InvalidInput("sum-keys")
    if kinds != ["v", "weights"]:
        raise InvalidInput("sum", values=_value_texts(inputs))
    if diagram.splits and not all(value.split for value in inputs):
        raise InvalidInput("sum-split")
    return Value("context", split=inputs[0].split)


def _merge(diagram: Diagram, inputs: Sequence[Value]) -> Value:
    _require(inputs[0], "context", "merge")
    return Value("merged")


def _w_o(diagram: Diagram, inputs: Sequence[Value]) -> Value:
    if inputs[0].kind == "context":
        raise InvalidInput("w_o-unmerged")
    _require(inputs[0], "merged", "w_o")
    return Value("output")


def _output(diagram: Diagram, inputs: Sequence[Value]) -> Value:
    kind: Kind = "output" if diagram.splits else "context"
    _require(inputs[0], kind, "output", wanted="W_o" if diagram.splits else "×V")
    return inputs[0]


def _require(value: Value, kind: Kind, key: str, **values: object) -> None:
    if value.kind != kind:
        raise InvalidInput(key, value=_value_text(value.kind), **values)


def _find_cycle(sources: Mapping[str, Sequence[str]], waiting: Sequence[str]) -> list[str]:
    path = [waiting[0]]
    while True:
        source = next(source for source in sources[path[-1]] if source in waiting)
        if source in path:
            return [source, *reversed(path[path.index(source) :])]
        path.append(source)


def _message(key: str, **values: object) -> Bilingual:
    return fill_in(TEXTS["message"][key], **values)


def _value_text(kind: Kind) -> Bilingual:
    text: Bilingual = TEXTS["value"][kind]
    return text


def _value_texts(inputs: Sequence[Value]) -> Bilingual:
    texts = [_value_text(value.kind) for value in inputs]
    return bilingual(", ".join(text["en"] for text in texts), "、".join(text["zh"] for text in texts))


def _capitalize(label: Bilingual) -> Bilingual:
    return bilingual(label["en"][0].upper() + label["en"][1:], label["zh"])


PIECES = {
    piece.name: piece
    for piece in (
        Piece("input", 0, lambda diagram, inputs: Value("x")),
        *(Piece(f"w_{kind}", 1, _projection(kind)) for kind in PROJECTED),
        *(Piece(f"split_{kind}", 1, _split(kind)) for kind in PROJECTED),
        Piece("product", 2, _product),
        Piece("scale", 1, _scale),
        Piece("mask", 1, _mask),
        Piece("softmax", 1, _softmax),
        Piece("sum", 2, _sum),
        Piece("merge", 1, _merge),
        Piece("w_o", 1, _w_o),
        Piece("output", 1, _output),
    )
}


def _diagram(name: str, *chains: str) -> Diagram:
    edges = tuple(edge for chain in chains for edge in pairwise(chain.split()))
    names = {piece for edge in edges for piece in edge}
    return Diagram(name, TEXTS["title"][name], {key: piece for key, piece in PIECES.items() if key in names}, edges)


DIAGRAMS: Mapping[str, Diagram] = {
    diagram.name: diagram
    for diagram in (
        _diagram(
            "self-attention",
            "input w_q product scale mask softmax sum output",
            "input w_k product",
            "input w_v sum",
        ),
        _diagram(
            "multi-head",
            "input w_q split_q product scale mask softmax sum merge w_o output",
            "input w_k split_k product",
            "input w_v split_v sum",
        ),
    )
}
