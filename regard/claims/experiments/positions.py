"""Token order: can a Transformer detect it without a position encoding, and how well with each kind of encoding?"""

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from regard.attention.positions.alibi import Alibi
from regard.claims.charts.chart import Chart
from regard.claims.charts.from_rows import bars, chance_line, lines
from regard.claims.charts.labels import label
from regard.claims.claim import Conclusion, Row, Settings
from regard.claims.definition import Definition
from regard.claims.statistics.rows import differences, figures, per_seed, values, where
from regard.claims.statistics.statements import Reference, Statement, conclude
from regard.claims.tasks.fit import fit, share_correct, token_loss
from regard.claims.tasks.token_models import token_model
from regard.nn import MultiHeadAttention

NUMBERS = 16  # vocabulary: the numbers 0 … 15
KINDS = ("none", "sinusoidal", "learned", "rotary", "alibi", "alibi, directional")
CAUSAL = "none, causal"  # a decoder without positions; its causal mask still tells it how many tokens come before
DIRECTIONAL = "alibi, directional"
FAR = 8.0  # slope on the hidden side
MARGIN = 0.05  # smallest gain of accuracy that counts
DEFINITION = Definition("positions")
text = DEFINITION.text


def sort_task(batch: int, length: int) -> tuple[Tensor, Tensor]:
    """Return random tokens and, as target at position i, the i-th smallest of them: their order does not matter."""
    tokens = torch.randint(NUMBERS, (batch, length))
    return tokens, tokens.sort(1).values


def previous_token_task(batch: int, length: int) -> tuple[Tensor, Tensor]:
    """Return random tokens and the previous token at each position, 0 at the first; solvable by a causal decoder."""
    tokens = torch.randint(NUMBERS, (batch, length))
    return tokens, F.pad(tokens[:, :-1], (1, 0))


@dataclass(frozen=True)
class DirectionalAlibi(Alibi):
    """ALiBi for an encoder: every second head hides the tokens after the query, the others those before it.

    The symmetric form gives the tokens at distance 1 on both sides the same bias, so left and right cannot be told
    apart. Here the bias is −m_h·|p − j| on one side of the query and `FAR` times as steep on the other.
    """

    def values(self, h: Tensor, distance: Tensor) -> Tensor:
        """Return the bias of heads h at these distances (query position − key position)."""
        hidden = torch.where(h % 2 == 0, distance < 0, distance > 0)
        return super().values(h, distance) - FAR * hidden * distance.abs()


TASKS = {"sort": sort_task, "token before": previous_token_task}


def parts(settings: Settings) -> list[Settings]:
    encoders: list[Settings] = [{"task": task, "positions": kind} for task in TASKS for kind in KINDS]
    return [*encoders, {"task": "token before", "positions": CAUSAL}]


def measure(settings: Settings, part: Settings, seed: int) -> list[Row]:
    make, lengths = TASKS[part["task"]], [settings["length"] * n // 4 for n in settings["quarters"]]
    causal, directional = part["positions"] == CAUSAL, part["positions"] == DIRECTIONAL
    model, logits_of = token_model(
        NUMBERS, causal=causal, d_model=settings["width"], layers=settings["layers"], context=max(lengths),
        positions="none" if causal else "alibi" if directional else part["positions"],
    )  # fmt: skip
    for module in model.modules():
        if directional and isinstance(module, MultiHeadAttention):
            module.alibi = DirectionalAlibi(module.heads)

    def loss() -> Tensor:
        tokens, targets = make(settings["batch"], settings["length"])
        return token_loss(logits_of(tokens), targets)

    fit(model, loss, settings["steps"], learning_rate=settings["rate"])
    model.eval()
    rows: list[Row] = []
    with torch.no_grad():
        for length in lengths:
            tokens, targets = make(settings["test"], length)
            accuracy = share_correct(logits_of(tokens), targets)
            rows.append({"length": length, "trained_at": settings["length"], "accuracy": accuracy})
    return rows


def judge(rows: list[Row]) -> Conclusion:
    trained_at = rows[0]["trained_at"]
    own = where(rows, length=trained_at)
    longest = max(values(rows, "length"))
    encodings = [kind for kind in KINDS if kind != "none"]
    statements = [
        Statement(
            text("statements.order", task=label(task), positions=label(kind)),
            differences(own, "accuracy", {"task": task, "positions": kind}, {"task": task, "positions": "none"}),
            MARGIN, "difference",
        )
        for task in TASKS for kind in encodings
    ]  # fmt: skip
    causal = differences(
        own, "accuracy", {"task": "token before", "positions": CAUSAL}, {"task": "token before", "positions": "none"}
    )
    statements.append(Statement(text("statements.causal"), causal, MARGIN, "difference", below=True))
    references = [
        Reference(text("references.learned", task=label(task)),
                  per_seed(own, "accuracy", task=task, positions="learned"), 0.9)
        for task in TASKS
    ]  # fmt: skip
    accuracy = text("figures.accuracy")
    farther = where(rows, length=longest, task="sort")
    longer = text("figures.longer", trained_at=trained_at, longest=longest, positions="{positions}")
    measured = [kind for kind in encodings if where(own, positions=kind)]
    shown = (
        *figures(own, "accuracy", accuracy, "%", task=TASKS, positions=["none", *measured]),
        *figures(own, "accuracy", accuracy, "%", task=["token before"], positions=[CAUSAL]),
        *figures(farther, "accuracy", longer, "%", positions=measured),
    )
    holds, fails = text("sentences.holds"), text("sentences.never")
    return conclude(statements, shown, references=references, holds=holds, fails=fails)


def draw(rows: list[Row]) -> Chart:
    trained_at = rows[0]["trained_at"]
    return Chart(text("chart.title"), (
        bars(where(rows, length=trained_at), "task", "accuracy", "positions", percent=True,
             reference_lines=(chance_line(1 / NUMBERS),), title=text("chart.accuracy", trained_at=trained_at)),
        lines(where(rows, task="sort"), "length", "accuracy", "positions", percent=True, vertical_line=trained_at,
              title=text("chart.longer"), x_label=text("chart.x", trained_at=trained_at)),
    ))  # fmt: skip


CLAIM = DEFINITION.claim(parts, measure, judge, draw)
