"""“Attention is only for language”: the same layers on a board, on pictures, on a series, against the usual there."""

from collections.abc import Callable
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from regard.claims.charts.chart import Chart
from regard.claims.charts.from_rows import bars, chart, level
from regard.claims.charts.labels import chinese_label as zh
from regard.claims.claim import Claim, Conclusion, Row, Settings
from regard.claims.source_documents import INTUITION
from regard.claims.statistics.rows import difference, figure, over_seeds
from regard.claims.tasks.fit import fit, match_parameters, parameters
from regard.languages import bilingual as words
from regard.models import EncoderConfig, Layer

Labelled = tuple[Tensor, Tensor]  # (B, C, H, W) and the class of each
CLOSE = 0.02  # as good as another: no more than two points under it


def boards(batch: int) -> Labelled:
    """Stones thrown on 6×7 squares: has the first player four in a row? Half of them have."""
    thrown = torch.rand(4 * batch, 1, 6, 7)
    own, other = (thrown < 0.3).float(), (thrown > 0.7).float()
    won = torch.zeros(len(own), dtype=torch.bool)
    for kernel in (torch.ones(1, 4), torch.ones(4, 1), torch.eye(4), torch.eye(4).flip(0)):
        won |= (F.conv2d(own, kernel[None, None]) > 3.5).flatten(1).any(1)
    yes, no = won.nonzero()[:, 0], (~won).nonzero()[:, 0]
    half = min(len(yes), len(no), batch // 2)
    chosen = torch.stack([no[:half], yes[:half]], 1).flatten()
    return torch.cat([own, other], 1)[chosen], torch.arange(2 * half) % 2


def shapes(batch: int) -> Labelled:
    """A circle, a square, a diamond or a cross somewhere on 16×16 is_timing_unreliable points."""
    kind = torch.randint(4, (batch,))
    centre, size = 5 + 6 * torch.rand(batch, 2, 1, 1), 3 + 2 * torch.rand(batch, 1, 1)
    at = torch.arange(16.0)
    down, right = (at[:, None] - centre[:, 0]).abs(), (at[None, :] - centre[:, 1]).abs()
    down, right = down.expand(batch, 16, 16), right.expand(batch, 16, 16)
    rings = [(down**2 + right**2).sqrt() - size, torch.maximum(down, right) - size, (down + right) - size]
    cross = torch.where(torch.maximum(down, right) <= size, torch.minimum(down, right), torch.full_like(down, 9.0))
    distance = torch.stack([*rings, cross], 1)[torch.arange(batch), kind].abs()
    return ((distance < 0.7).float() + 0.5 * torch.randn(batch, 16, 16))[:, None], kind


def waves(batch: int) -> Labelled:
    """64 values of a sine, a square wave, a saw or a triangle, of any frequency and phase, with noise."""
    kind = torch.randint(4, (batch,))
    turns = torch.linspace(0, 1, 64) * (2 + 4 * torch.rand(batch, 1)) + torch.rand(batch, 1)
    part = turns % 1
    forms = [(2 * torch.pi * turns).sin(), (part < 0.5) * 2.0 - 1, 2 * part - 1, 4 * (part - 0.5).abs() - 1]
    series = torch.stack(forms, 1)[torch.arange(batch), kind]
    return (series + 0.4 * torch.randn(batch, 64))[:, None, None], kind


@dataclass(frozen=True)
class Domain:
    """What is shown, how many classes there are, what makes a token, and what a convolution looks through."""

    make: Callable[[int], Labelled]
    classes: int
    patch: tuple[int, int]
    kernel: tuple[int, int]


DOMAINS = {
    "board": Domain(boards, 2, (1, 1), (3, 3)),
    "pictures": Domain(shapes, 4, (4, 4), (3, 3)),
    "time series": Domain(waves, 4, (1, 4), (1, 5)),
}
MODELS = ("attention", "convolution", "MLP")


class Attending(nn.Module):
    """Patches as tokens with learned places, encoder layers, the mean, a linear layer."""

    def __init__(self, shape: torch.Size, domain: Domain, width: int) -> None:
        super().__init__()
        channels, down, right = shape
        self.patch = domain.patch
        tokens = (down // domain.patch[0]) * (right // domain.patch[1])
        self.embed = nn.Linear(channels * domain.patch[0] * domain.patch[1], width)
        self.places = nn.Parameter(0.5 * torch.randn(tokens, width))
        config = EncoderConfig(1, d_model=width, heads=4, layers=2, d_ff=2 * width, norm="pre", dropout=0.0)
        self.layers = nn.Sequential(Layer(config), Layer(config), nn.LayerNorm(width))
        self.out = nn.Linear(width, domain.classes)

    def forward(self, x: Tensor) -> Tensor:
        tokens = F.unfold(x, self.patch, stride=self.patch).transpose(1, 2)  # (B, tokens, C · patch)
        scores: Tensor = self.out(self.layers(self.embed(tokens) + self.places).mean(1))
        return scores


def convolution(shape: torch.Size, domain: Domain, width: int) -> nn.Module:
    """Three convolutions, the mean, a linear layer."""
    layers: list[nn.Module] = []
    for taken in (shape[0], width, width):
        layers += [nn.Conv2d(taken, width, domain.kernel, padding="same"), nn.ReLU()]
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(width, domain.classes))


def mlp(shape: torch.Size, domain: Domain, width: int) -> nn.Module:
    """Two hidden layers on all numbers at once."""
    first, second = nn.Linear(shape.numel(), width), nn.Linear(width, width)
    return nn.Sequential(nn.Flatten(), first, nn.ReLU(), second, nn.ReLU(), nn.Linear(width, domain.classes))


def parts(settings: Settings) -> list[Settings]:
    return [{"domain": domain, "model": model} for domain in DOMAINS for model in MODELS]


def measure(settings: Settings, part: Settings, seed: int) -> list[Row]:
    domain = DOMAINS[part["domain"]]
    test, wanted = domain.make(settings["test"])
    shape = test.shape[1:]
    attention = Attending(shape, domain, settings["width"])
    make = {"convolution": convolution, "MLP": mlp}.get(part["model"])
    model = (
        attention
        if make is None
        else match_parameters(lambda width: make(shape, domain, width), parameters(attention), range(4, 256))
    )

    def loss(_: int) -> Tensor:
        x, kind = domain.make(settings["batch"])
        return F.cross_entropy(model(x), kind)

    marks = fit(
        model,
        loss,
        settings["steps"],
        learning_rate=settings["rate"],
        score_of=lambda: float((model(test).argmax(-1) == wanted).float().mean()),
    )
    return [{"accuracy": marks[-1].score, "parameters": parameters(model), "seconds_of_training": marks[-1].seconds}]


def judge(rows: list[Row]) -> Conclusion:
    found = {(d, m): over_seeds(rows, "accuracy", domain=d, model=m) for d in DOMAINS for m in MODELS}
    figures = tuple(
        figure(
            words(f"accuracy, {domain}: {model}", f"准确率,{zh(domain)}:{zh(model)}"),
            found[domain, model],
            "%",
        )
        for domain in DOMAINS
        for model in MODELS
    )
    works = [d for d in DOMAINS if found[d, "attention"].low > 1 / DOMAINS[d].classes + 0.1]
    level_with: list[tuple[str, str, float]] = []
    behind: list[tuple[str, str, float]] = []
    for domain in works:
        best = max(MODELS[1:], key=lambda model: found[domain, model].mean)
        gap = difference(rows, "accuracy", {"domain": domain, "model": "attention"}, {"domain": domain, "model": best})
        (level_with if gap.mean >= -CLOSE else behind).append((domain, best, gap.mean))
    if len(level_with) == len(DOMAINS):
        sentence = words(
            "On all three the same layers learn, and no worse than the better of convolution and MLP of as many "
            "parameters.",
            "三个领域上同样的层都能学会，且不逊于同参数量的卷积或 MLP 中较好者。",
        )
        return Conclusion("holds", sentence, figures)
    if works:
        lost = "; ".join(f"{d}: {model} is {-100 * gap:.0f} points better" for d, model, gap in behind)
        never = ", ".join(d for d in DOMAINS if d not in works)
        never_zh = "、".join(zh(d) for d in DOMAINS if d not in works)
        sentence = words(
            f"It learns on {', '.join(works)}" + (f", not on {never}" if never else "")
            + (f"; but within these updates {lost}." if lost else "."),
            f"能学会:{'、'.join(map(zh, works))}" + (f";未学会:{never_zh}" if never else "")
            + (";同参数下更好的是:" + "、".join(f"{zh(d)}({zh(m)})" for d, m, _ in behind) if behind else "") + "。",
        )  # fmt: skip
        return Conclusion("holds when", sentence, figures)
    sentence = words("It learns on none of the three.", "三个领域上都未学会。")
    return Conclusion("does not hold here", sentence, figures)


def draw(rows: list[Row]) -> Chart:
    guessing = tuple(level(1 / domain.classes, x=name) for name, domain in DOMAINS.items())
    scores = bars(
        rows,
        "domain",
        "accuracy",
        "model",
        y_label=words("accuracy (dashed: chance)", "准确率(虚线：随机猜测)"),
        percent=True,
        reference_lines=guessing,
    )
    return chart(words("Attention beyond language, equal parameters", "语言之外的注意力(参数相等)"), scores)


CLAIM = Claim(
    name="not-only-nlp",
    title=words("Not only for language", "不只用于语言"),
    statement=words(
        "“Attention is only for NLP” is a misconception: it works wherever things relate to each other.",
        "“注意力只用于 NLP”是误解：凡元素间有关系之处都能用。",
    ),
    source=(INTUITION,),
    experiment=words(
        "Two encoder layers on the squares of a board (has the first player four in a row?), on patches of pictures "
        "(which of four shapes?) and on pieces of a series (which of four waves?), against a convolution and an MLP "
        "of as many parameters; fresh examples in every update, the same number of updates.",
        "同样两层编码器分别用于棋盘(是否四连)、图像块(四种形状)、时间序列(四种波形),与同参数量的卷积和 MLP 比较；更新次"
        "数相同。",
    ),
    rule=words(
        "It works where the lower end of its interval is more than 10 points above chance. *holds* if it works on all "
        "three and is at most 2 points under the better of the two others; *holds when* if it works on some; else "
        "*does not hold here*.",
        "区间下端高于随机 10 个百分点以上即为有效。三者都有效且不比较好者低 2 个百分点以上则成立；部分有效则有条件成立"
        ";否则不成立。",
    ),
    sizes={
        "tiny": {"seeds": 2, "width": 8, "steps": 2, "batch": 8, "test": 16, "rate": 3e-3},
        "default": {"seeds": 3, "width": 32, "steps": 200, "batch": 64, "test": 512, "rate": 3e-3},
        "full": {"seeds": 5, "width": 64, "steps": 4000, "batch": 128, "test": 4096, "rate": 1e-3},
    },
    parts=parts,
    measure=measure,
    judge=judge,
    draw=draw,
)
