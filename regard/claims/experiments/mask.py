"""Without the causal mask a decoder in training copies the answer from the future, and fails when it generates."""

import torch
from torch import Tensor

from regard.claims.charts.chart import Chart
from regard.claims.charts.from_rows import bars, chance_line
from regard.claims.charts.labels import label
from regard.claims.claim import Conclusion, Row, Settings
from regard.claims.definition import Definition
from regard.claims.statistics.rows import differences, figure, figures, per_seed, where
from regard.claims.statistics.statements import Fact, Reference, Statement, conclude
from regard.claims.tasks.fit import fit, share_correct, token_loss
from regard.claims.tasks.token_models import token_model

MODULUS = 7
WAYS = ("mask on", "mask off")
DEFINITION = Definition("mask")
text = DEFINITION.text


def sequences(batch: int, length: int) -> Tensor:
    """Return tokens (B, length): the first two are random, each later one is the sum of the two before it modulo 7."""
    tokens = [torch.randint(MODULUS, (batch,)) for _ in range(2)]
    while len(tokens) < length:
        tokens.append((tokens[-1] + tokens[-2]) % MODULUS)
    return torch.stack(tokens, 1)


def parts(settings: Settings) -> list[Settings]:
    return [{"way": way} for way in WAYS]


def measure(settings: Settings, part: Settings, seed: int) -> list[Row]:
    length = settings["length"]
    model, logits_of = token_model(
        MODULUS, causal=part["way"] == "mask on", d_model=settings["width"], layers=2, context=length,
        positions="learned",
    )  # fmt: skip

    def loss() -> Tensor:
        tokens = sequences(settings["batch"], length + 1)
        return token_loss(logits_of(tokens[:, :-1]), tokens[:, 1:])

    fit(model, loss, settings["steps"], learning_rate=settings["rate"])
    model.eval()
    tokens = sequences(settings["test"], length + 1)
    with torch.no_grad():
        logits = logits_of(tokens[:, :-1])
        teacher_forced = share_correct(logits[:, 1:], tokens[:, 2:])  # the second token is random
        changed = tokens.clone()
        changed[:, -2] = (changed[:, -2] + 1) % MODULUS
        leak = (logits_of(changed[:, :-1]) - logits)[:, :-1].abs().max()
        generated = tokens[:, :2]
        while generated.shape[1] < length:
            generated = torch.cat([generated, logits_of(generated)[:, -1].argmax(-1, keepdim=True)], 1)
        correct = (generated[:, 2:] == (generated[:, 1:-1] + generated[:, :-2]) % MODULUS).float().mean()
    return [{"training": teacher_forced, "generation": float(correct), "leak": float(leak)}]


def judge(rows: list[Row]) -> Conclusion:
    on, off = ({when: per_seed(rows, when, way=way) for when in ("training", "generation")} for way in WAYS)
    leak = {way: [row["leak"] for row in where(rows, way=way)] for way in WAYS}
    shown = (
        *figures(rows, "training", text("figures.training"), "%", way=WAYS),
        *figures(rows, "generation", text("figures.generation"), "%", way=WAYS),
        *(figure(text("figures.leak", way=label(way)), max(leak[way])) for way in WAYS),
    )
    gain = differences(rows, "generation", {"way": "mask on"}, {"way": "mask off"})
    statements = (
        Statement(text("statements.gain"), gain, 0.05, "difference", required=True),
        Statement(text("statements.copies"), off["training"], 0.9, "share"),
        Statement(text("statements.fails"), off["generation"], 0.5, "share", below=True),
        Fact(text("statements.hidden"), [one < 1e-4 for one in leak["mask on"]], required=True),
        Fact(text("statements.visible"), [one > 1e-4 for one in leak["mask off"]], required=True),
    )
    reference = Reference(text("references.mask"), on["generation"], 0.9)
    percent = {
        f"{way}_{when}": 100 * sum(shares) / len(shares)
        for way, each in (("on", on), ("off", off))
        for when, shares in each.items()
    }
    holds = text("sentences.holds", chance=100 / MODULUS, **percent)
    return conclude(statements, shown, references=[reference], holds=holds, fails=text("sentences.harmless"))


def draw(rows: list[Row]) -> Chart:
    shares = [
        {"seed": row["seed"], "way": row["way"], "when": f"in {when}", "share": row[when]}
        for row in rows
        for when in ("training", "generation")
    ]
    plot = bars(
        shares, "when", "share", "way", y_label=text("chart.y"), percent=True,
        reference_lines=(chance_line(1 / MODULUS),),
    )  # fmt: skip
    return Chart(text("chart.title"), (plot,))


CLAIM = DEFINITION.claim(parts, measure, judge, draw)
