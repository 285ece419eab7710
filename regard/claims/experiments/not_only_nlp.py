"""Attention outside language: the same layers on a board, on images and on time series, against the usual models."""

from collections.abc import Callable
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from regard.claims.charts.chart import Chart
from regard.claims.charts.from_rows import bars, chance_line
from regard.claims.charts.labels import label
from regard.claims.claim import Conclusion, Row, Settings
from regard.claims.definition import Definition
from regard.claims.statistics.rows import differences, figures, per_seed
from regard.claims.statistics.statements import Reference, Statement, conclude
from regard.claims.tasks.fit import fit, match_parameters, parameter_count, share_correct
from regard.models import EncoderConfig, Layer

Labelled = tuple[Tensor, Tensor]  # inputs (B, C, H, W) and the class of each
TOLERANCE = 0.02  # attention counts as equal to a model if its accuracy is at most two percentage points lower
LEARNT = 0.9  # accuracy that the convolution, the reference, must reach on each task
DEFINITION = Definition("not-only-nlp")
text = DEFINITION.text


def boards(batch: int) -> Labelled:
    """Return random stones on 6×7 squares, and whether player 1 has four in a row (true on half of the boards)."""
    noise = torch.rand(4 * batch, 1, 6, 7)
    own, other = (noise < 0.3).float(), (noise > 0.7).float()
    won = torch.zeros(len(own), dtype=torch.bool)
    for kernel in (torch.ones(1, 4), torch.ones(4, 1), torch.eye(4), torch.eye(4).flip(0)):
        won |= (F.conv2d(own, kernel[None, None]) > 3.5).flatten(1).any(1)
    yes, no = won.nonzero()[:, 0], (~won).nonzero()[:, 0]
    half = min(len(yes), len(no), batch // 2)
    indices = torch.stack([no[:half], yes[:half]], 1).flatten()
    return torch.cat([own, other], 1)[indices], torch.arange(2 * half) % 2


def shapes(batch: int) -> Labelled:
    """Return noisy 16×16 images of a circle, a square, a diamond or a cross at a random place."""
    kind = torch.randint(4, (batch,))
    centre, size = 5 + 6 * torch.rand(batch, 2, 1, 1), 3 + 2 * torch.rand(batch, 1, 1)
    grid = torch.arange(16.0)
    down, right = (grid[:, None] - centre[:, 0]).abs(), (grid[None, :] - centre[:, 1]).abs()
    down, right = down.expand(batch, 16, 16), right.expand(batch, 16, 16)
    rings = [(down**2 + right**2).sqrt() - size, torch.maximum(down, right) - size, (down + right) - size]
    cross = torch.where(torch.maximum(down, right) <= size, torch.minimum(down, right), torch.full_like(down, 9.0))
    distance = torch.stack([*rings, cross], 1)[torch.arange(batch), kind].abs()
    return ((distance < 0.7).float() + 0.5 * torch.randn(batch, 16, 16))[:, None], kind


def waves(batch: int) -> Labelled:
    """Return 64 noisy samples of a sine, square, sawtooth or triangle wave of random frequency and phase."""
    kind = torch.randint(4, (batch,))
    turns = torch.linspace(0, 1, 64) * (2 + 4 * torch.rand(batch, 1)) + torch.rand(batch, 1)
    phase = turns % 1
    forms = [(2 * torch.pi * turns).sin(), (phase < 0.5) * 2.0 - 1, 2 * phase - 1, 4 * (phase - 0.5).abs() - 1]
    series = torch.stack(forms, 1)[torch.arange(batch), kind]
    return (series + 0.4 * torch.randn(batch, 64))[:, None, None], kind


@dataclass(frozen=True)
class Domain:
    """A classification task: how to make a batch, number of classes, size of a token, kernel of a convolution."""

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


class PatchTransformer(nn.Module):
    """Classifier with patches as tokens: learned positions, two encoder layers, mean over tokens, linear layer."""

    def __init__(self, shape: torch.Size, domain: Domain, width: int) -> None:
        super().__init__()
        channels, down, right = shape
        self.patch = domain.patch
        tokens = (down // domain.patch[0]) * (right // domain.patch[1])
        self.embed = nn.Linear(channels * domain.patch[0] * domain.patch[1], width)
        self.positions = nn.Parameter(0.5 * torch.randn(tokens, width))
        config = EncoderConfig(1, d_model=width, heads=4, layers=2, d_ff=2 * width, norm="pre", dropout=0.0)
        self.layers = nn.Sequential(Layer(config), Layer(config), nn.LayerNorm(width))
        self.out = nn.Linear(width, domain.classes)

    def forward(self, x: Tensor) -> Tensor:
        tokens = F.unfold(x, self.patch, stride=self.patch).transpose(1, 2)  # (B, tokens, C · patch)
        logits: Tensor = self.out(self.layers(self.embed(tokens) + self.positions).mean(1))
        return logits


def convolution(shape: torch.Size, domain: Domain, width: int) -> nn.Module:
    """Return a classifier of three convolutions, a mean over positions and a linear layer."""
    layers: list[nn.Module] = []
    for channels in (shape[0], width, width):
        layers += [nn.Conv2d(channels, width, domain.kernel, padding="same"), nn.ReLU()]
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(width, domain.classes))


def mlp(shape: torch.Size, domain: Domain, width: int) -> nn.Module:
    """Return an MLP with two hidden layers on the flattened input."""
    first, second = nn.Linear(shape.numel(), width), nn.Linear(width, width)
    return nn.Sequential(nn.Flatten(), first, nn.ReLU(), second, nn.ReLU(), nn.Linear(width, domain.classes))


def parts(settings: Settings) -> list[Settings]:
    return [{"domain": domain, "model": model} for domain in DOMAINS for model in MODELS]


def measure(settings: Settings, part: Settings, seed: int) -> list[Row]:
    domain = DOMAINS[part["domain"]]
    test, classes = domain.make(settings["test"])
    shape = test.shape[1:]
    model: nn.Module = PatchTransformer(shape, domain, settings["width"])
    if make := {"convolution": convolution, "MLP": mlp}.get(part["model"]):
        model = match_parameters(lambda width: make(shape, domain, width), parameter_count(model), range(4, 256))

    def loss() -> Tensor:
        x, kind = domain.make(settings["batch"])
        return F.cross_entropy(model(x), kind)

    end = fit(
        model, loss, settings["steps"], learning_rate=settings["rate"],
        score=lambda: share_correct(model(test), classes),
    )[-1]  # fmt: skip
    return [{"accuracy": end.score, "parameters": parameter_count(model), "seconds_of_training": end.seconds}]


def judge(rows: list[Row]) -> Conclusion:
    shown = figures(rows, "accuracy", text("figures.accuracy"), "%", domain=DOMAINS, model=MODELS)
    statements = [
        Statement(
            text("statements.works", domain=label(name)),
            [accuracy - 1 / domain.classes for accuracy in per_seed(rows, "accuracy", domain=name, model="attention")],
            0.1, "difference",
        )
        for name, domain in DOMAINS.items()
    ] + [
        Statement(
            text("statements.as_good", domain=label(name), model=label(other)),
            differences(rows, "accuracy", {"domain": name, "model": "attention"}, {"domain": name, "model": other}),
            -TOLERANCE, "difference",
        )
        for name in DOMAINS for other in MODELS[1:]
    ]  # fmt: skip
    references = [
        Reference(text("references.convolution", domain=label(name)),
                  per_seed(rows, "accuracy", domain=name, model="convolution"), LEARNT)
        for name in DOMAINS
    ]  # fmt: skip
    holds, fails = text("sentences.holds"), text("sentences.learns_none")
    return conclude(statements, shown, references=references, holds=holds, fails=fails)


def draw(rows: list[Row]) -> Chart:
    chance = tuple(chance_line(1 / domain.classes, name) for name, domain in DOMAINS.items())
    plot = bars(rows, "domain", "accuracy", "model", y_label=text("chart.y"), percent=True, reference_lines=chance)
    return Chart(text("chart.title"), (plot,))


CLAIM = DEFINITION.claim(parts, measure, judge, draw)
