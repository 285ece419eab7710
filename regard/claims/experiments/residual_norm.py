"""Residual connections and layer norm in deep stacks: gradients at the start, and whether the stack can be trained."""

import torch
from torch import Tensor, nn

from regard.claims.charts.chart import Chart
from regard.claims.charts.from_rows import lines
from regard.claims.charts.labels import label
from regard.claims.charts.panels import ReferenceLine
from regard.claims.claim import Conclusion, Row, Settings
from regard.claims.definition import Definition
from regard.claims.statistics.rows import figure, figures, per_seed, values, where
from regard.claims.statistics.statements import Reference, Statement, conclude
from regard.claims.statistics.timing import torch_threads
from regard.claims.tasks.fit import fit, token_loss
from regard.nn import MultiHeadAttention

VOCABULARY, LENGTH = 8, 8
CHANCE = float(torch.tensor(float(VOCABULARY)).log())
BOTH = ("post-norm", "pre-norm")
WARM_UP = "post-norm, long warm-up"
WAYS = ("neither", "residual only", "norm only", *BOTH, WARM_UP)
WARM_UP_SHARE = {WARM_UP: 0.4}  # share of the updates in which the learning rate rises; 5 % for all others
DEFINITION = Definition("residual-norm")
text = DEFINITION.text


class Block(nn.Module):
    """Attention and feed-forward network, with or without residual connections and layer norms."""

    def __init__(self, width: int, way: str) -> None:
        super().__init__()
        self.way = way
        feed_forward = nn.Sequential(nn.Linear(width, 2 * width), nn.ReLU(), nn.Linear(2 * width, width))
        self.parts = nn.ModuleList([MultiHeadAttention(width, 2), feed_forward])
        self.norms = nn.ModuleList([nn.LayerNorm(width), nn.LayerNorm(width)])

    def forward(self, x: Tensor) -> Tensor:
        for part, norm in zip(self.parts, self.norms, strict=True):
            if self.way == "neither":
                x = part(x)
            elif self.way == "residual only":
                x = x + part(x)
            elif self.way == "norm only":
                x = norm(part(x))
            elif self.way in ("post-norm", WARM_UP):
                x = norm(x + part(x))
            else:
                x = x + part(norm(x))
        return x


class Stack(nn.Module):
    """Model of `depth` blocks: token ids (B, L) → logits (B, L, V)."""

    def __init__(self, width: int, depth: int, way: str) -> None:
        super().__init__()
        self.tokens = nn.Embedding(VOCABULARY, width)
        self.positions = nn.Parameter(torch.randn(LENGTH, width))
        self.blocks = nn.Sequential(*(Block(width, way) for _ in range(depth)))
        self.norm = nn.LayerNorm(width) if way == "pre-norm" else nn.Identity()
        self.out = nn.Linear(width, VOCABULARY)

    def forward(self, tokens: Tensor) -> Tensor:
        logits: Tensor = self.out(self.norm(self.blocks(self.tokens(tokens) + self.positions)))
        return logits

    def loss(self, batch: int) -> Tensor:
        """Return the loss of predicting the previous token at each position (cyclic)."""
        tokens = torch.randint(VOCABULARY, (batch, LENGTH))
        return token_loss(self(tokens), tokens.roll(1, 1))


def parts(settings: Settings) -> list[Settings]:
    return [{"depth": depth, "way": way} for depth in settings["depths"] for way in WAYS]


def measure(settings: Settings, part: Settings, seed: int) -> list[Row]:
    with torch_threads(1):  # the matrices are so small that a second thread costs more than it saves
        return _measure_stack(settings, part, seed)


def _measure_stack(settings: Settings, part: Settings, seed: int) -> list[Row]:
    model = Stack(settings["width"], part["depth"], part["way"])
    model.loss(settings["batch"]).backward()
    norms = [
        float(torch.stack([p.grad.norm() for p in block.parameters() if p.grad is not None]).norm())
        for block in model.blocks
    ]
    rows: list[Row] = [
        {"what": "gradient", "layer": n + 1, "gradient": norm}
        for n, norm in enumerate(norms)
        if part["depth"] == max(settings["depths"])
    ]
    # Every stack may use the best of the learning rates, so that none fails only because of an unsuitable rate.
    losses = []
    for rate in settings["rates"]:
        torch.manual_seed(seed)
        model = Stack(settings["width"], part["depth"], part["way"])
        fit(
            model, lambda model=model: model.loss(settings["batch"]), settings["steps"], learning_rate=rate,  # type: ignore[misc]
            warm_up=WARM_UP_SHARE.get(part["way"], 0.05),
        )  # fmt: skip
        with torch.no_grad():
            losses.append(float(model.loss(512)))
    ratio = norms[0] / norms[-1] if norms[-1] else None
    best = min((loss for loss in losses if loss == loss), default=CHANCE)
    return [*rows, {"what": "end", "first_over_last": ratio, "loss": best}]


def judge(rows: list[Row]) -> Conclusion:
    ends = where(rows, what="end")
    depths = sorted(values(ends, "depth"))
    deepest = where(ends, depth=depths[-1])
    with_ratio = [
        way for way in WAYS
        if where(deepest, way=way) and all(row["first_over_last"] for row in where(deepest, way=way))
    ]  # fmt: skip
    measured = values(deepest, "way")
    statements = [
        Statement(
            text(f"statements.{'learns' if learns else 'fails'}", way=label(way), depth=depths[-1]),
            [loss / CHANCE for loss in per_seed(deepest, "loss", way=way)], 0.5, "ratio", below=learns,
        )
        for way in WAYS for learns in [way in (*BOTH, WARM_UP)]
    ]  # fmt: skip
    references = [
        Reference(text("references.shallow", depth=depths[0]),
                  [1 - loss / CHANCE for loss in per_seed(ends, "loss", way="pre-norm", depth=depths[0])], 0.5)
    ]  # fmt: skip
    shown = (
        *figures(deepest, "loss", text("figures.loss"), scale="ratio", depth=depths[-1:], way=measured),
        *figures(deepest, "first_over_last", text("figures.gradient"), scale="ratio", depth=depths[-1:],
                 way=with_ratio),
        figure(text("figures.chance"), CHANCE),
    )  # fmt: skip
    findings = {"depth": depths[-1]}
    holds, fails = text("sentences.holds", **findings), text("sentences.never", **findings)
    return conclude(statements, shown, references=references, holds=holds, fails=fails)


def draw(rows: list[Row]) -> Chart:
    gradients = [row for row in where(rows, what="gradient") if row["gradient"]]
    limits = (ReferenceLine(CHANCE, text("chart.chance")), ReferenceLine(CHANCE / 2, text("chart.learned")))
    return Chart(text("chart.title"), (
        lines(gradients, "layer", "gradient", "way", log="y", x_label=text("chart.block"),
              title=text("chart.gradient")),
        lines(where(rows, what="end"), "depth", "loss", "way", log="xy", x_label=text("chart.depth"),
              title=text("chart.loss"), reference_lines=limits),
    ))  # fmt: skip


CLAIM = DEFINITION.claim(parts, measure, judge, draw)
