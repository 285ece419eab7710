"""Without the causal mask a decoder in training copies the answer from the future, and fails when it generates."""

import torch
from torch import Tensor

from regard.claims.charts.chart import Chart
from regard.claims.charts.from_rows import bars, chance_line
from regard.claims.charts.labels import label
from regard.claims.claim import Conclusion, Row, Settings
from regard.claims.definition import Definition
from regard.claims.statistics.rows import difference, figure, figures, over_seeds
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
    accuracy = {(way, when): over_seeds(rows, when, way=way) for way in WAYS for when in ("training", "generation")}
    gain = difference(rows, "generation", {"way": "mask on"}, {"way": "mask off"})
    leak = {way: max(row["leak"] for row in rows if row["way"] == way) for way in WAYS}
    shown = (
        *figures(rows, "training", text("figures.training"), "%", way=WAYS),
        *figures(rows, "generation", text("figures.generation"), "%", way=WAYS),
        *(figure(text("figures.leak", way=label(way)), leak[way]) for way in WAYS),
    )
    masked = leak["mask on"] < 1e-4 < leak["mask off"]
    copies = accuracy["mask off", "training"].low > 0.9 and accuracy["mask off", "generation"].high < 0.5
    generates = accuracy["mask on", "generation"].low > 0.9
    percent = {f"{way.split()[1]}_{when}": 100 * mean for (way, when), (mean, _, _) in accuracy.items()}
    if copies and generates and masked:
        return Conclusion("holds", text("sentences.holds", chance=100 / MODULUS, **percent), shown)
    if gain.above and masked:
        return Conclusion("holds when", text("sentences.smaller", **percent), shown)
    return Conclusion("does not hold here", text("sentences.harmless"), shown)


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
