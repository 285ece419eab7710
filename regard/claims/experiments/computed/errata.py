"""Errors in the documents that the claims come from: each printed statement, compared with a computation."""

from collections.abc import Callable

import numpy as np
import torch
from torch import nn

from regard.attention import attend, divisors, masks
from regard.claims.charts.chart import Chart
from regard.claims.charts.labels import label
from regard.claims.charts.panels import Table
from regard.claims.claim import Conclusion, Row, Settings
from regard.claims.definition import Definition
from regard.claims.experiments.computed.stable_softmax import (
    EXAMPLE_WIDTH,
    document_example,
    example_output,
    naive_softmax,
)
from regard.claims.statistics.rows import figure, values, where
from regard.claims.statistics.statements import Fact, conclude
from regard.claims.tasks.document_costs import corrected
from regard.languages import Bilingual, bilingual, fill_in
from regard.models import BoardConfig

DEFINITION = Definition("errata")
text = DEFINITION.text
Check = tuple[dict[str, object], bool]  # values for the texts of the item · whether the document is wrong


def attention_weights() -> Check:
    layer, x = nn.MultiheadAttention(512, 8, batch_first=True), torch.randn(2, 5, 512)
    mean, per_head = layer(x, x, x)[1], layer(x, x, x, average_attn_weights=False)[1]
    shape = tuple(mean.shape)
    return {"shape": shape, "per_head": tuple(per_head.shape)}, shape != (2, 8, 5, 5)


def initialisation() -> Check:
    xavier, kaiming = (6 / 1024) ** 0.5, 512**-0.5
    largest = float(nn.Linear(512, 512).weight.abs().max().detach())
    return {"xavier": xavier, "kaiming": kaiming, "largest": largest}, abs(largest - kaiming) < abs(largest - xavier)


def numpy_example() -> Check:
    rng = np.random.default_rng(int(torch.randint(2**31, ())))
    scores, v, w_o = document_example(EXAMPLE_WIDTH, rng)
    with np.errstate(over="ignore", invalid="ignore"):
        share = np.isnan(example_output(naive_softmax(scores), v, w_o)).mean()
    return {"percent": 100 * share}, bool(share > 0)


def similarity_picture() -> Check:
    query, keys = torch.randn(8), torch.randn(6, 8)
    printed = int(torch.linalg.matrix_rank(torch.outer(keys @ query, keys @ query)))
    actual = int(torch.linalg.matrix_rank(keys @ keys.T))
    return {"printed": printed, "actual": actual}, printed == 1 < actual


def memory_formula() -> Check:
    costs = corrected(8192)
    return {
        "printed": costs.document / 2**20,
        "actual": costs.materialised / 2**20,
    }, costs.materialised > costs.document


def operation_count() -> Check:
    costs = corrected(512)
    printed, actual = costs.document_operations / 1e9, costs.operations / 1e9
    return {"printed": printed, "actual": actual}, actual > printed


def light_preset() -> Check:
    config = BoardConfig.preset("light")
    printed, actual = config.layers // config.attn_every, config.layers // min(4, 3)  # type: ignore[operator]
    return {"printed": printed, "actual": actual}, printed != actual


def divisors_of_144() -> Check:
    missing = [divisor for divisor in divisors(144) if divisor > 24]
    return {"missing": ", ".join(map(str, missing))}, bool(missing)


def nearest_divisor_of_128() -> Check:
    distance = min(abs(divisor - 24) for divisor in divisors(128))
    nearest = [divisor for divisor in divisors(128) if abs(divisor - 24) == distance]
    return {"nearest": ", ".join(map(str, nearest))}, len(nearest) > 1


def mask_comment() -> Check:
    mask = torch.tensor([1, 0])
    masked = torch.zeros(2).masked_fill(mask == 0, float("-inf"))
    hidden = [int(value) for value in mask[masked.isinf()]]
    return {"hidden": hidden[0]}, hidden == [0]


def empty_row() -> Check:
    nan = bool(torch.full((1, 4), float("-inf")).softmax(-1).isnan().all())
    q = torch.randn(1, 4, 8)
    output = attend(q, q, q, masks.given(torch.zeros(4, 4, dtype=torch.bool)))
    zero = isinstance(output, torch.Tensor) and bool((output == 0).all())
    results: dict[str, object] = {
        "printed": "NaN" if nan else text("items.finite"),
        "actual": text("items.zero" if zero else "items.other"),
    }
    return results, nan


def transposed_weight() -> Check:
    layer, x = nn.Linear(8, 8, bias=False), torch.randn(3, 8)
    with torch.no_grad():
        printed = float((x @ layer.weight - layer(x)).abs().max())
        actual = float((x @ layer.weight.T - layer(x)).abs().max())
    return {"printed": printed, "actual": actual}, actual < 1e-5 < printed


# Number in the list of errors, name in result files, and the check; None if only reading the document can check it.
ITEMS: list[tuple[int, str, Callable[[], Check] | None]] = [
    (1, "weights of nn.MultiheadAttention", attention_weights),
    (2, "start of nn.Linear", initialisation),
    (3, "matrices printed as sample output", None),
    (4, "the NumPy multi-head example", numpy_example),
    (5, "the similarity picture", similarity_picture),
    (6, "memory formula", memory_formula),
    (6, "operation count", operation_count),
    (7, "the preset light", light_preset),
    (8, "divisors of 144", divisors_of_144),
    (8, "128 channels, 24 heads", nearest_divisor_of_128),
    (9, "comment on the mask", mask_comment),
    (10, "a row with nothing visible", empty_row),
    (11, "weight for x @ W", transposed_weight),
]


def parts(settings: Settings) -> list[Settings]:
    return [{}]


def measure(settings: Settings, part: Settings, seed: int) -> list[Row]:
    rows: list[Row] = []
    for number, about, check in ITEMS:
        document, actual, wrong = bilingual("", ""), text("items.not_run"), None
        if check is not None:
            results, wrong = check()
            document, actual = (
                fill_in(text(f"items.{check.__name__}.{which}"), **results) for which in ("document", "is")
            )
        texts = {"document": document["en"], "document_zh": document["zh"], "is": actual["en"], "is_zh": actual["zh"]}
        rows.append({"item": number, "about": about, **texts, "wrong": wrong})
    return rows


def judge(rows: list[Row]) -> Conclusion:
    items = {about: [row["wrong"] for row in where(rows, about=about)] for about in values(rows, "about")}
    checked = [about for about, wrong in items.items() if None not in wrong]
    statements = [Fact(label(about), [not wrong for wrong in items[about]]) for about in checked]
    wrong = [about for about in checked if all(items[about])]
    shown = (
        figure(text("figures.checked"), len(checked)),
        figure(text("figures.wrong"), len(wrong)),
        figure(text("figures.not_checked"), len(items) - len(checked)),
    )
    notes = [fill_in(text("sentences.note"), **_texts(row)) for row in _first_seed(rows)] if wrong else []
    sentence = text("sentences.wrong", wrong=len(wrong), checked=len(checked))
    return conclude(statements, shown, holds=text("sentences.holds"), fails=sentence, notes=notes)


def _first_seed(rows: list[Row]) -> list[Row]:
    return where(rows, seed=min(values(rows, "seed")))


def _texts(row: Row) -> dict[str, Bilingual]:
    """Return the texts of a row in both languages; result files of older versions have English ones only."""
    document, actual = (
        bilingual(row[name] or "–", row.get(f"{name}_zh", row[name]) or "–") for name in ("document", "is")
    )
    number = str(row["item"])
    return {"item": bilingual(number, number), "about": label(row["about"]), "document": document, "actual": actual}


def draw(rows: list[Row]) -> Chart:
    columns = (bilingual("", ""), *(text(f"chart.{name}") for name in ("about", "document", "actual")))
    cells = tuple(tuple(_texts(row).values()) for row in _first_seed(rows))
    return Chart(text("chart.title"), (Table(columns, cells),))


CLAIM = DEFINITION.claim(parts, measure, judge, draw)
