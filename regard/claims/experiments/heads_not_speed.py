"""Multi-head attention is more than parallelism: time, accuracy and attention maps of 1 to 16 heads of equal width."""

import torch
from torch import Tensor, nn

from regard.claims.charts.chart import Chart
from regard.claims.charts.from_rows import chance_line, lines
from regard.claims.claim import Conclusion, Row, Settings
from regard.claims.definition import Definition
from regard.claims.statistics.rows import differences, figure, figures, per_seed, values, where
from regard.claims.statistics.statements import Fact, Reference, Statement, conclude
from regard.claims.statistics.timing import best_times
from regard.claims.tasks.fit import fit, parameter_count, share_correct, token_loss
from regard.nn import MultiHeadAttention

VOCABULARY, LENGTH = 8, 16
OFFSETS = (-3, -1, 2, 5)  # relative positions of the four tokens that each position predicts
GAIN = 0.05  # smallest difference of accuracy, and of the distance between maps, that counts
DEFINITION = Definition("heads-not-speed")
text = DEFINITION.text


class Relations(nn.Module):
    """One attention layer that predicts, at each position, the tokens at four other positions (cyclic)."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.tokens = nn.Embedding(VOCABULARY, width)
        self.positions = nn.Parameter(torch.randn(LENGTH, width))
        self.attention = MultiHeadAttention(width, heads)
        self.feed_forward = nn.Sequential(
            nn.LayerNorm(width), nn.Linear(width, 2 * width), nn.ReLU(), nn.Linear(2 * width, len(OFFSETS) * VOCABULARY)
        )

    def forward(self, tokens: Tensor) -> Tensor:
        x = self.tokens(tokens) + self.positions
        logits: Tensor = self.feed_forward(x + self.attention(x))
        return logits.unflatten(-1, (len(OFFSETS), VOCABULARY))

    def maps(self, tokens: Tensor) -> Tensor:
        """Return the attention map of each head, averaged over the batch: (H, L, L)."""
        x = self.tokens(tokens) + self.positions
        return self.attention(x, weights=True)[1].mean(0)


def make_batch(batch: int) -> tuple[Tensor, Tensor]:
    """Return random tokens (B, L) and, for each position, the tokens at the four `OFFSETS` from it (B, L, 4)."""
    tokens = torch.randint(VOCABULARY, (batch, LENGTH))
    return tokens, torch.stack([tokens.roll(-offset, 1) for offset in OFFSETS], -1)


def map_distance(maps: Tensor) -> float | None:
    """Return the mean total variation distance between the maps of two heads: 0 if equal, 1 if disjoint."""
    if len(maps) < 2:
        return None
    pairs = torch.combinations(torch.arange(len(maps)))
    return float((maps[pairs[:, 0]] - maps[pairs[:, 1]]).abs().sum(-1).mean() / 2)


def parts(settings: Settings) -> list[Settings]:
    trained: list[Settings] = [{"what": "trained", "heads": heads} for heads in settings["heads"]]
    return [*trained, {"what": "timed"}]


def measure(settings: Settings, part: Settings, seed: int) -> list[Row]:
    return _measure_time(settings) if part["what"] == "timed" else _measure_training(settings, part["heads"])


def _measure_time(settings: Settings) -> list[Row]:
    """Measure the time of the attention layer alone, forward and backward."""
    x = torch.randn(8, settings["tokens"], settings["width"])
    layers = {str(heads): MultiHeadAttention(settings["width"], heads) for heads in settings["heads"]}
    calls = {heads: lambda layer=layer: layer(x).sum().backward() for heads, layer in layers.items()}
    times = best_times(calls, settings["repeats"])
    one_head = times[str(settings["heads"][0])]
    return [
        {"heads": int(heads), "seconds": times[heads], "ratio": times[heads] / one_head,
         "parameters": parameter_count(layer)}
        for heads, layer in layers.items()
    ]  # fmt: skip


def _measure_training(settings: Settings, heads: int) -> list[Row]:
    model = Relations(settings["width"], heads)
    test, targets = make_batch(settings["test"])
    with torch.no_grad():
        before = map_distance(model.maps(test))

    def loss() -> Tensor:
        tokens, next_targets = make_batch(settings["batch"])
        return token_loss(model(tokens), next_targets)

    fit(model, loss, settings["steps"], learning_rate=settings["rate"])
    with torch.no_grad():
        accuracy = share_correct(model(test), targets)
        return [{"accuracy": accuracy, "apart": map_distance(model.maps(test)), "apart_before": before}]


def judge(rows: list[Row]) -> Conclusion:
    trained, timed = where(rows, what="trained"), where(rows, what="timed")
    heads = sorted(values(trained, "heads"))
    more = heads[1:]
    enough = [count for count in heads if count >= len(OFFSETS)] or heads[-1:]
    parameters = [
        len(values(where(timed, seed=seed), "parameters")) == 1 for seed in values(timed, "seed")
    ]  # fmt: skip
    shown = (
        *figures(trained, "accuracy", text("figures.accuracy"), "%", heads=heads),
        *figures(trained, "apart", text("figures.distance"), scale="share", heads=more),
        *figures(trained, "apart_before", text("figures.distance_before"), scale="share", heads=more),
        figure(text("figures.parameters"), max(values(timed, "parameters"))),
    )
    statements: list[Statement | Fact] = [
        *(
            Statement(text("statements.better", heads=count),
                      differences(trained, "accuracy", {"heads": count}, {"heads": 1}), GAIN, "difference",
                      required=count == enough[0])
            for count in enough
        ),
        *(
            Statement(text("statements.not_faster", heads=count), per_seed(timed, "ratio", heads=count), 0.95, "ratio")
            for count in more
        ),
        *(
            Statement(text("statements.differ", heads=count), [
                row["apart"] - row["apart_before"] for row in where(trained, heads=count)
            ], GAIN, "difference")
            for count in more
        ),
        Fact(text("statements.parameters"), parameters, required=True),
    ]  # fmt: skip
    reference = Reference(
        text("references.heads", heads=heads[-1]), per_seed(trained, "accuracy", heads=heads[-1]), 0.9
    )
    holds, fails = text("sentences.holds", relations=len(OFFSETS)), text("sentences.not_better")
    return conclude(statements, shown, references=[reference], holds=holds, fails=fails)


def draw(rows: list[Row]) -> Chart:
    trained, timed = where(rows, what="trained"), where(rows, what="timed")
    distances = [
        {"heads": row["heads"], "seed": row["seed"], "apart": row[name], "when": when}
        for row in trained
        for name, when in (("apart", "trained"), ("apart_before", "before"))
    ]
    x = text("chart.x")
    return Chart(text("chart.title"), (
        lines(trained, "heads", "accuracy", "what", title=text("chart.accuracy"), x_label=x, log="x", percent=True,
              reference_lines=(chance_line(1 / VOCABULARY),)),
        lines(timed, "heads", "ratio", "what", title=text("chart.time"), x_label=x, log="x"),
        lines(distances, "heads", "apart", "when", title=text("chart.distance"), x_label=x, log="x", percent=True),
    ))  # fmt: skip


CLAIM = DEFINITION.claim(parts, measure, judge, draw)
