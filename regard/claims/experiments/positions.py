"""Token order: can a Transformer detect it without a position encoding, and how well with each kind of encoding?"""

import torch
import torch.nn.functional as F
from torch import Tensor

from regard.claims.charts.chart import Chart
from regard.claims.charts.from_rows import bars, chance_line, lines
from regard.claims.charts.labels import label
from regard.claims.claim import Conclusion, Row, Settings
from regard.claims.definition import Definition, enumerate_in_words
from regard.claims.statistics.rows import figures, over_seeds, values, where
from regard.claims.tasks.fit import fit, share_correct, token_loss
from regard.claims.tasks.token_models import token_model

NUMBERS = 16  # vocabulary: the numbers 0 … 15
KINDS = ("none", "sinusoidal", "learned", "rotary", "alibi")
CAUSAL = "none, causal"  # a decoder without positions; its causal mask still tells it how many tokens come before
MARGIN = 0.05
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


TASKS = {"sort": sort_task, "token before": previous_token_task}


def parts(settings: Settings) -> list[Settings]:
    encoders: list[Settings] = [{"task": task, "positions": kind} for task in TASKS for kind in KINDS]
    return [*encoders, {"task": "token before", "positions": CAUSAL}]


def measure(settings: Settings, part: Settings, seed: int) -> list[Row]:
    make, lengths = TASKS[part["task"]], [settings["length"] * n // 4 for n in settings["quarters"]]
    causal = part["positions"] == CAUSAL
    model, logits_of = token_model(
        NUMBERS, causal=causal, d_model=settings["width"], layers=settings["layers"], context=max(lengths),
        positions="none" if causal else part["positions"],
    )  # fmt: skip

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
    without = {task: over_seeds(own, "accuracy", task=task, positions="none") for task in TASKS}
    weak = [
        (task, kind)
        for task in TASKS
        for kind in encodings
        if over_seeds(own, "accuracy", task=task, positions=kind).low - MARGIN <= without[task].high
    ]
    causal = over_seeds(own, "accuracy", task="token before", positions=CAUSAL)
    farther = where(rows, length=longest, task="sort")
    best = max(encodings, key=lambda kind: over_seeds(farther, "accuracy", positions=kind).mean)
    accuracy = text("figures.accuracy")
    longer = text("figures.longer", trained_at=trained_at, longest=longest, positions="{positions}")
    shown = (
        *figures(own, "accuracy", accuracy, "%", task=TASKS, positions=["none"]),
        *figures(own, "accuracy", accuracy, "%", task=TASKS, positions=encodings),
        *figures(own, "accuracy", accuracy, "%", task=["token before"], positions=[CAUSAL]),
        *figures(farther, "accuracy", longer, "%", positions=encodings),
    )
    if weak:
        if any(all((task, kind) in weak for kind in encodings) for task in TASKS):
            return Conclusion("does not hold here", text("sentences.never"), shown)
        pairs = [text("sentences.pair", task=label(task), positions=label(kind)) for task, kind in weak]
        return Conclusion("holds when", text("sentences.some", weak=enumerate_in_words(pairs)), shown)
    if causal.low > without["token before"].high + MARGIN:
        findings = {"accuracy": 100 * causal.mean, "best": label(best)}
        return Conclusion("holds when", text("sentences.causal", **findings), shown)
    return Conclusion("holds", text("sentences.holds", best=label(best)), shown)


def draw(rows: list[Row]) -> Chart:
    trained_at = rows[0]["trained_at"]
    return Chart(text("chart.title"), (
        bars(where(rows, length=trained_at), "task", "accuracy", "positions", percent=True,
             reference_lines=(chance_line(1 / NUMBERS),), title=text("chart.accuracy", trained_at=trained_at)),
        lines(where(rows, task="sort"), "length", "accuracy", "positions", percent=True, vertical_line=trained_at,
              title=text("chart.longer"), x_label=text("chart.x", trained_at=trained_at)),
    ))  # fmt: skip


CLAIM = DEFINITION.claim(parts, measure, judge, draw)
