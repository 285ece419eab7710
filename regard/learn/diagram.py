"""The diagram of self-attention, put together by the learner from its pieces.

An arrangement is a list of arrows (from, to), or just the pieces in an order. It is not compared with one right
picture: what flows along the arrows is followed from piece to piece, and the first piece that is given something it
cannot take is named. So every valid way is accepted: the queries scaled before the product or the scores after it, the
mask before or after the scaling, keys scaled instead of queries.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from regard.languages import LANGUAGES, Bilingual, bilingual

Edge = tuple[str, str]
Kind = Literal["x", "q", "k", "v", "scores", "weights", "context", "merged", "output"]

CALLED: Mapping[Kind, Bilingual] = {
    "x": bilingual("the input X", "输入 X"),
    "q": bilingual("queries Q", "查询 Q"),
    "k": bilingual("keys K", "键 K"),
    "v": bilingual("values V", "值 V"),
    "scores": bilingual("scores", "分数"),
    "weights": bilingual("weights", "权重"),
    "context": bilingual("the weighted sums", "加权和"),
    "merged": bilingual("the merged heads", "合并后的多头"),
    "output": bilingual("the output", "输出"),
}


@dataclass(frozen=True)
class Flowing:
    """What comes along an arrow."""

    kind: Kind
    split: bool = False
    scaled: bool = False
    masked: bool = False


@dataclass(frozen=True)
class Piece:
    """A box of the diagram: how many arrows go in, and what it makes of what they bring."""

    name: str
    label: Bilingual
    arrows: int
    apply: Callable[["Diagram", Sequence[Flowing]], Flowing]


@dataclass(frozen=True)
class Diagram:
    """The pieces that belong to a diagram, and one right arrangement of them."""

    name: str
    title: Bilingual
    pieces: Mapping[str, Piece]
    answer: tuple[Edge, ...]

    @property
    def splits(self) -> bool:
        """Whether there are heads to split into."""
        return "split_q" in self.pieces


@dataclass(frozen=True)
class DiagramResult:
    """Right, or the first thing wrong: what it is, and the piece where it shows."""

    correct: bool
    message: Bilingual
    piece: str | None = None


class Misplaced(ValueError):
    """A piece was given what it cannot take."""

    def __init__(self, en: str, zh: str) -> None:
        super().__init__(en)
        self.message = bilingual(en, zh)


def check_edges(diagram: Diagram, edges: Sequence[Edge]) -> DiagramResult:
    """Follow the arrows from the input on.

    >>> check_edges(DIAGRAMS["self-attention"], DIAGRAMS["self-attention"].answer).correct
    True
    """
    into: dict[str, list[str]] = {name: [] for name in diagram.pieces}
    for start, end in edges:
        for name in (start, end):
            if name not in diagram.pieces:
                raise ValueError(f"the pieces are {', '.join(diagram.pieces)}, got {name!r}")
        if start in into[end]:
            return _wrong(end, "There are two arrows from {0} to {1}.", "从{0}到{1}画了两个箭头。", diagram, start, end)
        into[end].append(start)
    made: dict[str, Flowing] = {}
    waiting = list(diagram.pieces)
    while waiting:
        ready = [name for name in waiting if all(source in made for source in into[name])]
        if not ready:
            circle = _circle(into, waiting)
            shown = [" → ".join(diagram.pieces[name].label[language] for name in circle) for language in LANGUAGES]
            return DiagramResult(
                False, bilingual(f"It goes round in a circle: {shown[0]}.", f"绕成了一个圈：{shown[1]}。"), circle[0]
            )
        name = ready[0]
        waiting.remove(name)
        try:
            made[name] = _flow(diagram, name, [made[source] for source in into[name]])
        except Misplaced as error:
            return DiagramResult(False, error.message, name)
    used = {source for sources in into.values() for source in sources}
    for name in diagram.pieces:
        if name not in used and name != "output":
            return _wrong(name, "Nothing takes what comes out of {0}.", "{0}的结果没有接到任何地方。", diagram, name)
    return DiagramResult(True, bilingual("Right: that is how attention flows.", "正确：注意力就是这样计算的。"))


def check_order(diagram: Diagram, order: Sequence[str]) -> DiagramResult:
    """The pieces one after another; each takes the latest thing before it that it could be meant to take.

    >>> order = ["input", "w_q", "w_k", "w_v", "product", "scale", "softmax", "mask", "sum", "output"]
    >>> check_order(DIAGRAMS["self-attention"], order).piece
    'softmax'
    """
    if sorted(order) != sorted(diagram.pieces):
        missing = [name for name in diagram.pieces if name not in order]
        extra = [name for name in order if name not in diagram.pieces or list(order).count(name) > 1]
        raise ValueError(f"an order has every piece once; missing: {missing or 'none'}, too many: {extra or 'none'}")
    made: dict[str, Flowing] = {}
    for name in order:
        try:
            made[name] = _flow(diagram, name, _meant_for(diagram.pieces[name], made))
        except Misplaced as error:
            return DiagramResult(False, error.message, name)
    return DiagramResult(True, bilingual("Right: that is how attention flows.", "正确：注意力就是这样计算的。"))


WANTS: Mapping[str, tuple[tuple[Kind, ...], ...]] = {  # for an order: what each arrow would like, the best last
    "w_q": (("x",),),
    "w_k": (("x",),),
    "w_v": (("x",),),
    "split_q": (("q",),),
    "split_k": (("k",),),
    "split_v": (("v",),),
    "product": (("q",), ("k",)),
    "scale": (("q", "scores", "weights"),),
    "mask": (("scores", "weights"),),
    "softmax": (("scores",),),
    "sum": (("scores", "weights"), ("v",)),
    "merge": (("weights", "context"),),
    "w_o": (("context", "merged"),),
    "output": (("weights", "context", "merged", "output"),),
}


def _meant_for(piece: Piece, made: Mapping[str, Flowing]) -> list[Flowing]:
    latest: dict[Kind, Flowing] = {flowing.kind: flowing for flowing in made.values()}
    found = []
    for kinds in WANTS.get(piece.name, ()):
        best = [latest[kind] for kind in kinds if kind in latest]
        if best:
            found.append(best[-1])
    return found


def _flow(diagram: Diagram, name: str, given: Sequence[Flowing]) -> Flowing:
    piece = diagram.pieces[name]
    if len(given) < piece.arrows:
        if not given:
            raise Misplaced(
                f"Nothing that {piece.label['en']} needs comes before it.", f"{piece.label['zh']}之前没有它需要的东西。"
            )
        got = CALLED[given[0].kind]
        raise Misplaced(
            f"{_capital(piece)} needs two things, and has only {got['en']}.",
            f"{piece.label['zh']}需要两个输入，现在只有{got['zh']}。",
        )
    if len(given) > piece.arrows:
        en, zh = (", ".join(CALLED[g.kind][language] for g in given) for language in LANGUAGES)
        count = ("nothing", "one thing", "two things")[piece.arrows]
        raise Misplaced(
            f"{_capital(piece)} takes {count}, and is given {en}.",
            f"{piece.label['zh']}只接 {piece.arrows} 个输入，却接了{zh}。",
        )
    return piece.apply(diagram, given)


def _capital(piece: Piece) -> str:
    return piece.label["en"][0].upper() + piece.label["en"][1:]


def _projection(kind: Kind) -> Callable[[Diagram, Sequence[Flowing]], Flowing]:
    def apply(diagram: Diagram, given: Sequence[Flowing]) -> Flowing:
        _need(given[0], "x", f"W_{kind}", "projects the input X", "是对输入 X 的投影")
        return Flowing(kind)

    return apply


def _split(kind: Kind) -> Callable[[Diagram, Sequence[Flowing]], Flowing]:
    def apply(diagram: Diagram, given: Sequence[Flowing]) -> Flowing:
        capital = kind.upper()
        _need(given[0], kind, f"Split {capital}", f"cuts {capital} into heads", f"把 {capital} 拆成多头")
        return replace(given[0], split=True)

    return apply


def _product(diagram: Diagram, given: Sequence[Flowing]) -> Flowing:
    kinds = sorted(flowing.kind for flowing in given)
    if "v" in kinds:
        raise Misplaced(
            "Scores compare queries with keys; the values take no part in them.",
            "分数是查询与键的比较，值不参与打分。",
        )
    if kinds != ["k", "q"]:
        got = [", ".join(CALLED[flowing.kind][language] for flowing in given) for language in LANGUAGES]
        raise Misplaced(f"Q·Kᵀ takes queries and keys, and is given {got[0]}.", f"Q·Kᵀ 需要查询和键，却接了{got[1]}。")
    if diagram.splits and not all(flowing.split for flowing in given):
        raise Misplaced(
            "Split Q and K into heads before the product: each head makes scores of its own.",
            "要先把 Q 和 K 拆成多头再相乘：每个头各算各的分数。",
        )
    if all(flowing.scaled for flowing in given):
        raise Misplaced("It is scaled twice.", "缩放了两次。")
    return Flowing("scores", split=given[0].split, scaled=any(flowing.scaled for flowing in given))


def _scale(diagram: Diagram, given: Sequence[Flowing]) -> Flowing:
    if given[0].kind in ("weights", "context", "merged"):
        raise Misplaced(
            "The scaling comes before softmax: it keeps softmax from saturating.",
            "缩放要在 softmax 之前：它的作用就是防止 softmax 饱和。",
        )
    if given[0].kind not in ("q", "k", "scores"):
        got = CALLED[given[0].kind]
        raise Misplaced(
            f"÷√d_k shrinks the scores (or the queries before the product), not {got['en']}.",
            f"÷√d_k 缩小的是分数（或相乘之前的查询），不是{got['zh']}。",
        )
    if given[0].scaled:
        raise Misplaced("It is scaled twice.", "缩放了两次。")
    return replace(given[0], scaled=True)


def _mask(diagram: Diagram, given: Sequence[Flowing]) -> Flowing:
    if given[0].kind in ("weights", "context"):
        raise Misplaced(
            "The mask comes before softmax: −∞ in the scores gives weights of exactly 0 that still add up to 1.",
            "掩码要在 softmax 之前：分数填 −∞，权重才恰好为 0，而且每行之和仍为 1。",
        )
    _need(given[0], "scores", "The mask", "hides pairs, so it needs scores", "遮住的是成对的位置，需要的是分数")
    return replace(given[0], masked=True)


def _softmax(diagram: Diagram, given: Sequence[Flowing]) -> Flowing:
    _need(given[0], "scores", "Softmax", "turns scores into weights", "把分数变成权重")
    if not given[0].masked:
        raise Misplaced(
            "The mask comes before softmax, and these scores are not masked yet.",
            "掩码要在 softmax 之前，而这里的分数还没有加掩码。",
        )
    if not given[0].scaled:
        raise Misplaced(
            "The scaling comes before softmax, and these scores are not scaled yet.",
            "缩放要在 softmax 之前，而这里的分数还没有缩放。",
        )
    return Flowing("weights", split=given[0].split)


def _sum(diagram: Diagram, given: Sequence[Flowing]) -> Flowing:
    kinds = sorted(flowing.kind for flowing in given)
    if "scores" in kinds:
        raise Misplaced(
            "Scores are not weights yet: softmax comes before the weighted sum.",
            "分数还不是权重：加权求和之前要先做 softmax。",
        )
    if kinds == ["k", "weights"]:
        raise Misplaced(
            "K and V are mixed up: the weights average the values, not the keys.",
            "K 和 V 弄混了：权重是对值加权平均，不是对键。",
        )
    if kinds != ["v", "weights"]:
        got = [", ".join(CALLED[flowing.kind][language] for flowing in given) for language in LANGUAGES]
        raise Misplaced(f"×V takes weights and values, and is given {got[0]}.", f"×V 需要权重和值，却接了{got[1]}。")
    if diagram.splits and not all(flowing.split for flowing in given):
        raise Misplaced("Split V into heads before the weighted sum.", "加权求和之前要先把 V 拆成多头。")
    return Flowing("context", split=given[0].split)


def _merge(diagram: Diagram, given: Sequence[Flowing]) -> Flowing:
    _need(given[0], "context", "Merge", "puts the heads' weighted sums side by side", "把各个头的加权和并排拼起来")
    return Flowing("merged")


def _w_o(diagram: Diagram, given: Sequence[Flowing]) -> Flowing:
    if given[0].kind == "context":
        raise Misplaced(
            "Merge the heads before W_o: it mixes what they found.", "先合并多头再乘 W_o：它把各个头的结果混合起来。"
        )
    _need(given[0], "merged", "W_o", "mixes the merged heads", "混合的是合并后的多头")
    return Flowing("output")


def _output(diagram: Diagram, given: Sequence[Flowing]) -> Flowing:
    _need(given[0], "output" if diagram.splits else "context", "The output", "is what comes last", "是最后的结果")
    return given[0]


def _need(given: Flowing, kind: Kind, who: str, en: str, zh: str) -> None:
    if given.kind != kind:
        got = CALLED[given.kind]
        zh_who = {"The mask": "掩码", "The output": "输出", "Softmax": "softmax", "Merge": "合并"}.get(who, who)
        zh_who = f"拆分 {who[-1]}" if who.startswith("Split") else zh_who
        raise Misplaced(f"{who} {en}, and is given {got['en']}.", f"{zh_who}{zh}，却接了{got['zh']}。")


def _circle(into: Mapping[str, Sequence[str]], waiting: Sequence[str]) -> list[str]:
    path = [waiting[0]]
    while True:
        before = next(source for source in into[path[-1]] if source in waiting)
        if before in path:
            return [before, *reversed(path[path.index(before) :])]
        path.append(before)


def _wrong(piece: str, en: str, zh: str, diagram: Diagram, *names: str) -> DiagramResult:
    labels = [diagram.pieces[name].label for name in names]
    said = bilingual(en.format(*(label["en"] for label in labels)), zh.format(*(label["zh"] for label in labels)))
    return DiagramResult(False, said, piece)


PIECES = {
    piece.name: piece
    for piece in (
        Piece("input", bilingual("the input X", "输入 X"), 0, lambda diagram, given: Flowing("x")),
        Piece("w_q", bilingual("W_q", "W_q"), 1, _projection("q")),
        Piece("w_k", bilingual("W_k", "W_k"), 1, _projection("k")),
        Piece("w_v", bilingual("W_v", "W_v"), 1, _projection("v")),
        Piece("split_q", bilingual("split Q into heads", "拆分 Q"), 1, _split("q")),
        Piece("split_k", bilingual("split K into heads", "拆分 K"), 1, _split("k")),
        Piece("split_v", bilingual("split V into heads", "拆分 V"), 1, _split("v")),
        Piece("product", bilingual("Q·Kᵀ", "Q·Kᵀ"), 2, _product),
        Piece("scale", bilingual("÷√d_k", "÷√d_k"), 1, _scale),
        Piece("mask", bilingual("the mask", "掩码"), 1, _mask),
        Piece("softmax", bilingual("softmax", "softmax"), 1, _softmax),
        Piece("sum", bilingual("×V", "×V"), 2, _sum),
        Piece("merge", bilingual("merge heads", "合并多头"), 1, _merge),
        Piece("w_o", bilingual("W_o", "W_o"), 1, _w_o),
        Piece("output", bilingual("the output", "输出"), 1, _output),
    )
}


def _diagram(name: str, title: Bilingual, arrows: str) -> Diagram:
    edges = tuple(
        (start, end)
        for chain in arrows.split(",")
        for start, end in zip(chain.split()[:-1], chain.split()[1:], strict=True)
    )
    used = {piece for edge in edges for piece in edge}
    return Diagram(name, title, {key: piece for key, piece in PIECES.items() if key in used}, edges)


DIAGRAMS: Mapping[str, Diagram] = {
    diagram.name: diagram
    for diagram in (
        _diagram(
            "self-attention",
            bilingual("Self-attention, one head", "单头自注意力"),
            "input w_q product scale mask softmax sum output, input w_k product, input w_v sum",
        ),
        _diagram(
            "multi-head",
            bilingual("Multi-head attention", "多头注意力"),
            "input w_q split_q product scale mask softmax sum merge w_o output, "
            "input w_k split_k product, input w_v split_v sum",
        ),
    )
}
