"""Order: what a Transformer knows of it without positions, and what each kind of position is good for."""

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from regard.claims.charts.chart import Chart
from regard.claims.charts.from_rows import bars, chart, level, lines
from regard.claims.charts.labels import chinese_label as zh
from regard.claims.claim import Claim, Conclusion, Row, Settings
from regard.claims.source_documents import INTERVIEWS, TRANSFORMER
from regard.claims.statistics.rows import figure, over_seeds, values, where
from regard.claims.tasks.fit import fit
from regard.languages import bilingual as words
from regard.models import Decoder, DecoderConfig, Encoder, EncoderConfig

NUMBERS = 16  # the vocabulary, in order of size
KINDS = ("none", "sinusoidal", "learned", "rotary", "alibi")
CAUSAL = "none, causal"  # a decoder without positions: it still sees how many tokens came before
MARGIN = 0.05


def arrange(batch: int, length: int) -> tuple[Tensor, Tensor]:
    """Sort: at place i the i-th smallest. What is wanted does not depend on the order given, but where it goes does."""
    tokens = torch.randint(NUMBERS, (batch, length))
    return tokens, tokens.sort(1).values


def delay(batch: int, length: int) -> tuple[Tensor, Tensor]:
    """Say the token before: order in its smallest form, which a causal decoder can do as well (the first is 0)."""
    tokens = torch.randint(NUMBERS, (batch, length))
    return tokens, F.pad(tokens[:, :-1], (1, 0))


TASKS = {"sort": arrange, "token before": delay}


def parts(settings: Settings) -> list[Settings]:
    found: list[Settings] = [{"task": task, "positions": kind} for task in TASKS for kind in KINDS]
    return [*found, {"task": "token before", "positions": CAUSAL}]


def measure(settings: Settings, part: Settings, seed: int) -> list[Row]:
    make, lengths = TASKS[part["task"]], [settings["length"] * n // 4 for n in settings["quarters"]]
    sizes: dict[str, Any] = {
        "d_model": settings["width"], "heads": 4, "layers": settings["layers"], "context": max(lengths), "dropout": 0.0,
        "norm": "pre", "tied": False, "positions": "none" if part["positions"] == CAUSAL else part["positions"],
    }  # fmt: skip
    model: Any
    if part["positions"] == CAUSAL:
        model = Decoder(DecoderConfig(NUMBERS, **sizes))
        scores = model
    else:
        model = Encoder(EncoderConfig(NUMBERS, **sizes))
        scores = model.logits

    def loss(_: int) -> Tensor:
        tokens, wanted = make(settings["batch"], settings["length"])
        return F.cross_entropy(scores(tokens).flatten(0, 1), wanted.flatten())

    fit(model, loss, settings["steps"], learning_rate=settings["rate"])
    model.eval()
    rows: list[Row] = []
    with torch.no_grad():
        for length in lengths:
            tokens, wanted = make(settings["test"], length)
            right = float((scores(tokens).argmax(-1) == wanted).float().mean())
            rows.append({"length": length, "trained_at": settings["length"], "accuracy": right})
    return rows


def judge(rows: list[Row]) -> Conclusion:
    at = rows[0]["trained_at"]
    own = where(rows, length=at)
    longest = max(values(rows, "length"))
    without = {task: over_seeds(own, "accuracy", task=task, positions="none") for task in TASKS}
    given = [kind for kind in KINDS if kind != "none"]
    found = {(task, kind): over_seeds(own, "accuracy", task=task, positions=kind) for task in TASKS for kind in given}
    causal = over_seeds(own, "accuracy", task="token before", positions=CAUSAL)
    farther = {kind: over_seeds(rows, "accuracy", task="sort", positions=kind, length=longest) for kind in given}
    best = max(farther, key=lambda kind: farther[kind].mean)
    figures = (
        *(
            figure(words(f"accuracy, {task}: no positions", f"准确率,{zh(task)}:无位置"), without[task], "%")
            for task in TASKS
        ),
        *(
            figure(
                words(f"accuracy, {task}: {kind}", f"准确率,{zh(task)}:{zh(kind)}"),
                found[task, kind],
                "%",
            )
            for task in TASKS
            for kind in given
        ),
        figure(
            words("accuracy, token before: no positions, but causal", "准确率，前一个 token:无位置的因果解码器"),
            causal,
            "%",
        ),
        *(
            figure(
                words(
                    f"accuracy, sort at length {longest} after training at {at}: {kind}",
                    f"长度 {at} 训练、{longest} 测试的排序准确率:{zh(kind)}",
                ),
                farther[kind],
                "%",
            )
            for kind in given
        ),
    )
    blind = all(without[task].high < found[task, kind].low - MARGIN for task in TASKS for kind in given)
    if not blind:
        some = [task for task in TASKS if any(found[task, kind].low - MARGIN > without[task].high for kind in given)]
        weak = [both for both, one in found.items() if one.low - MARGIN <= without[both[0]].high]
        named = ", ".join(f"{kind} on “{task}”" for task, kind in weak)
        named_zh = "、".join(f"{zh(task)}({zh(kind)})" for task, kind in weak)
        if len(some) == len(TASKS):
            sentence = words(
                f"On every task some kind of position beats none, but not each: {named} was no better within "
                "these updates.",
                f"每项任务都有某种位置编码优于无位置，但并非每种:{named_zh} 在此训练量内没有更好。",
            )
            return Conclusion("holds when", sentence, figures)
        sentence = words("Without positions it orders as well as with them.", "没有位置信息也能同样排序。")
        return Conclusion("does not hold here", sentence, figures)
    if causal.low > without["token before"].high + MARGIN:
        sentence = words(
            "Where every token sees all others, order is lost without positions, and each kind brings it back; a "
            f"causal decoder without positions finds the token before in {100 * causal.mean:.0f} % of the cases. "
            f"Farthest beyond the trained length on sorting: {best}.",
            "双向注意力没有位置信息便不知次序，每种位置编码都能补上；但无位置的因果解码器仍能知道次序。",
        )
        return Conclusion("holds when", sentence, figures)
    sentence = words(
        f"Without positions order is lost, with each kind it is there. Farthest beyond the trained length: {best}.",
        "没有位置信息便不知次序，每种位置编码都能补上。",
    )
    return Conclusion("holds", sentence, figures)


def draw(rows: list[Row]) -> Chart:
    at = rows[0]["trained_at"]
    trained = bars(
        where(rows, length=at),
        "task",
        "accuracy",
        "positions",
        percent=True,
        reference_lines=(level(1 / NUMBERS),),
        title=words(f"accuracy at length {at}", f"长度 {at} 时的准确率"),
    )
    longer = lines(
        where(rows, task="sort"),
        "length",
        "accuracy",
        "positions",
        percent=True,
        vertical_line=at,
        title=words("sorting, other lengths", "其他长度的排序"),
        x_label=words(f"length (trained at {at})", f"长度(训练长度 {at})"),
    )
    return chart(words("Order with and without positions", "有位置与无位置时的顺序"), trained, longer)


CLAIM = Claim(
    name="positions",
    title=words("Positions make order", "位置编码带来次序"),
    statement=words(
        "Self-attention does not know the order of its input; positions must be added.",
        "自注意力不知道输入的次序，必须加入位置信息。",
    ),
    source=(INTERVIEWS, TRANSFORMER),
    experiment=words(
        "A small encoder with no, sinusoidal, learned, rotary and ALiBi positions learns to sort and to "
        "name the token before; and a causal decoder without positions the last of these. Tested also at lengths "
        "other than the trained one.",
        "小型编码器分别用无、正弦、学习、旋转、ALiBi 位置学习排序与说出前一个 token;另有无位置的因果解码器；并测试外"
        "推长度。",
    ),
    rule=words(
        "*holds* if on every task the upper end of the interval without positions lies 5 points under the lower end "
        "with each kind; *holds when* if that is so but the causal decoder without positions does better than the "
        "encoder without, or if only some kinds do; else *does not hold here*.",
        "每项任务上无位置的区间上端都比每种位置的区间下端低 5 个百分点则成立；若因果解码器例外或仅部分位置满足，"
        "则有条件"
        "成立；否则不成立。",
    ),
    sizes={
        "tiny": {
            "seeds": 2,
            "width": 16,
            "layers": 1,
            "length": 4,
            "quarters": (4, 6),
            "steps": 3,
            "batch": 8,
            "test": 16,
            "rate": 3e-3,
        },
        "default": {
            "seeds": 3,
            "width": 64,
            "layers": 2,
            "length": 8,
            "quarters": (2, 4, 6, 8),
            "steps": 250,
            "batch": 32,
            "test": 256,
            "rate": 2e-3,
        },
        "full": {
            "seeds": 5,
            "width": 128,
            "layers": 3,
            "length": 32,
            "quarters": (2, 4, 6, 8),
            "steps": 3000,
            "batch": 64,
            "test": 2048,
            "rate": 1e-3,
        },
    },
    parts=parts,
    measure=measure,
    judge=judge,
    draw=draw,
)
