"""Depth: what residuals and layer norms do for the gradient, and whether a deep stack can be trained without them."""

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from regard.claims.charts.chart import Chart
from regard.claims.charts.from_rows import chart, level, lines
from regard.claims.charts.labels import chinese_label as zh
from regard.claims.claim import Claim, Conclusion, Row, Settings
from regard.claims.source_documents import TRANSFORMER
from regard.claims.statistics.rows import figure, over_seeds, values, where
from regard.claims.statistics.timing import threads
from regard.claims.tasks.fit import fit
from regard.languages import bilingual as words
from regard.nn import MultiHeadAttention

VOCABULARY, LENGTH = 8, 8
CHANCE = float(torch.tensor(float(VOCABULARY)).log())
WAYS = ("neither", "residual only", "norm only", "post-norm", "pre-norm")
BOTH = ("post-norm", "pre-norm")


class Block(nn.Module):
    """Attention and feed-forward, with or without residuals and norms."""

    def __init__(self, width: int, way: str) -> None:
        super().__init__()
        self.way = way
        feed = nn.Sequential(nn.Linear(width, 2 * width), nn.ReLU(), nn.Linear(2 * width, width))
        self.parts = nn.ModuleList([MultiHeadAttention(width, 2), feed])
        self.norms = nn.ModuleList([nn.LayerNorm(width), nn.LayerNorm(width)])

    def forward(self, x: Tensor) -> Tensor:
        for part, norm in zip(self.parts, self.norms, strict=True):
            if self.way == "neither":
                x = part(x)
            elif self.way == "residual only":
                x = x + part(x)
            elif self.way == "norm only":
                x = norm(part(x))
            elif self.way == "post-norm":
                x = norm(x + part(x))
            else:
                x = x + part(norm(x))
        return x


class Stack(nn.Module):
    """Token ids (B, L) → scores (B, L, V) through `depth` blocks."""

    def __init__(self, width: int, depth: int, way: str) -> None:
        super().__init__()
        self.tokens = nn.Embedding(VOCABULARY, width)
        self.places = nn.Parameter(torch.randn(LENGTH, width))
        self.blocks = nn.ModuleList(Block(width, way) for _ in range(depth))
        self.norm = nn.LayerNorm(width) if way == "pre-norm" else nn.Identity()
        self.out = nn.Linear(width, VOCABULARY)

    def forward(self, tokens: Tensor) -> Tensor:
        x = self.tokens(tokens) + self.places
        for block in self.blocks:
            x = block(x)
        scores: Tensor = self.out(self.norm(x))
        return scores

    def loss(self, batch: int) -> Tensor:
        """Each place is to name the token before it (the first, the last)."""
        tokens = torch.randint(VOCABULARY, (batch, LENGTH))
        return F.cross_entropy(self(tokens).flatten(0, 1), tokens.roll(1, 1).flatten())


def parts(settings: Settings) -> list[Settings]:
    return [{"depth": depth, "way": way} for depth in settings["depths"] for way in WAYS]


def measure(settings: Settings, part: Settings, seed: int) -> list[Row]:
    with threads(1):  # the matrices are so small that a second thread costs more than it brings
        return measured(settings, part, seed)


def measured(settings: Settings, part: Settings, seed: int) -> list[Row]:
    model = Stack(settings["width"], part["depth"], part["way"])
    model.loss(settings["batch"]).backward()
    norms = [float(torch.stack([p.grad.norm() for p in block.parameters() if p.grad is not None]).norm())
             for block in model.blocks]  # fmt: skip
    rows: list[Row] = [
        {"what": "gradient", "layer": n + 1, "gradient": norm}
        for n, norm in enumerate(norms)
        if part["depth"] == max(settings["depths"])
    ]
    # Every stack gets its choice of learning rates: none fails for want of the right one.
    losses = []
    for rate in settings["rates"]:
        torch.manual_seed(seed)
        model = Stack(settings["width"], part["depth"], part["way"])
        fit(model, lambda _, model=model: model.loss(settings["batch"]), settings["steps"], learning_rate=rate)  # type: ignore[misc]
        with torch.no_grad():
            losses.append(float(model.loss(512)))
    ratio = norms[0] / norms[-1] if norms[-1] else None
    best = min((loss for loss in losses if loss == loss), default=CHANCE)
    return [*rows, {"what": "end", "first_over_last": ratio, "loss": best}]


def judge(rows: list[Row]) -> Conclusion:
    ends = where(rows, what="end")
    depths = sorted(values(ends, "depth"))
    deep, half = depths[-1], CHANCE / 2
    losses = {(way, depth): over_seeds(ends, "loss", way=way, depth=depth) for way in WAYS for depth in depths}
    figures = (
        *(
            figure(words(f"loss at depth {deep}, {way}", f"深度 {deep} 的损失,{zh(way)}"), losses[way, deep])
            for way in WAYS
        ),
        *(
            figure(
                words(
                    f"gradient of the first block over the last at depth {deep}, {way}",
                    f"首末层梯度之比,{zh(way)}",
                ),
                over_seeds(ends, "first_over_last", way=way, depth=deep),
            )
            for way in WAYS
            if any(r["first_over_last"] is not None for r in where(ends, way=way, depth=deep))
        ),
        figure(words("loss of guessing", "随机猜测的损失"), CHANCE),
    )
    learns = {way: [depth for depth in depths if losses[way, depth].high < half] for way in WAYS}
    with_both = [way for way in BOTH if deep in learns[way]]
    without = [way for way in WAYS if way not in BOTH and deep in learns[way]]
    reach = {way: max(learns[way], default=0) for way in WAYS}
    told = "; ".join(f"{way} to depth {reach[way]}" if reach[way] else f"{way} at no depth" for way in WAYS)
    told_zh = ";".join(f"{zh(way)}至 {reach[way]} 层" if reach[way] else f"{zh(way)}均不能" for way in WAYS)
    if len(with_both) == 2 and not without:
        sentence = words(
            f"Only with both does a stack of {deep} learn ({told}).", f"两者皆备才能训练 {deep} 层({told_zh})。"
        )
        return Conclusion("holds", sentence, figures)
    if with_both:
        sentence = words(
            f"At depth {deep} {' and '.join([*with_both, *without])} "
            f"learn{'' if len(with_both + without) > 1 else 's'}; learned within these updates: {told}.",
            f"深度 {deep} 时能训练的是{'、'.join(map(zh, [*with_both, *without]))};在此训练量内:{told_zh}。",
        )
        return Conclusion("holds when", sentence, figures)
    sentence = words(f"With both, {deep} blocks do not learn: {told}.", f"两者皆备时 {deep} 层也未学会:{told_zh}。")
    return Conclusion("does not hold here", sentence, figures)


def draw(rows: list[Row]) -> Chart:
    some = [row for row in where(rows, what="gradient") if row["gradient"]]
    gradients = lines(
        some, "layer", "gradient", "way", log="y", x_label=words("block", "块"),
        title=words("norm of the gradient at the start", "训练开始时的梯度范数"),
    )  # fmt: skip
    losses = lines(
        where(rows, what="end"), "depth", "loss", "way", log="xy", x_label=words("depth", "深度"),
        title=words("loss after training", "训练后的损失"),
        reference_lines=(level(CHANCE, words("guessing", "猜测")), level(CHANCE / 2, words("learned", "已学会"))),
    )  # fmt: skip
    return chart(words("Residuals and layer norms in deep stacks", "深层堆叠中的残差与层归一化"), gradients, losses)


CLAIM = Claim(
    name="residual-norm",
    title=words("Residuals and layer norm", "残差与层归一化"),
    statement=words(
        "Residual connections and layer normalisation keep the gradient alive and make deep stacks trainable.",
        "残差连接与层归一化使梯度不消失，深层网络得以训练。",
    ),
    source=(TRANSFORMER,),
    experiment=words(
        "Stacks of attention and feed-forward blocks with neither, one of them, and both (post- and pre-norm), all "
        "else equal: the gradient's norm by block at the start, and the loss after training on naming the token "
        "before, with the better of the learning rates tried.",
        "同样的注意力与前馈块，分别不带、只带其一、两者皆带(post/pre-norm):初始各层梯度范数，以及训练后的损失(取较优学习"
        "率)。",
    ),
    rule=words(
        "A stack learns if the upper end of its loss's interval is under half the loss of guessing. *holds* if at the "
        "greatest depth post- and pre-norm learn and nothing else does; *holds when* if one of these two learns; else "
        "*does not hold here*.",
        "损失区间上端低于随机猜测的一半即为学会。最大深度下仅 post-norm 与 pre-norm 学会则成立；二者之一学会则有条件成"
        "立；否则不成立。",
    ),
    sizes={
        "tiny": {"seeds": 2, "width": 8, "depths": (1, 2), "steps": 2, "batch": 4, "rates": (1e-3,)},
        "default": {"seeds": 3, "width": 32, "depths": (2, 8, 32), "steps": 160, "batch": 32, "rates": (2e-3,)},
        "full": {
            "seeds": 5,
            "width": 64,
            "depths": (2, 4, 8, 16, 32),
            "steps": 1000,
            "batch": 64,
            "rates": (1e-4, 3e-4, 1e-3, 3e-3),
        },
    },
    parts=parts,
    measure=measure,
    judge=judge,
    draw=draw,
)
