"""“Multi-head is only parallelism”: what 1 … 16 heads of the same total width cost, can do, and look at."""

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from regard.claims.charts.chart import Chart
from regard.claims.charts.from_rows import chart, level, lines
from regard.claims.claim import Claim, Conclusion, Row, Settings
from regard.claims.source_documents import INTUITION
from regard.claims.statistics.rows import difference, figure, over_seeds, values, where
from regard.claims.statistics.timing import best_times
from regard.claims.tasks.fit import fit, parameters
from regard.languages import bilingual as words
from regard.nn import MultiHeadAttention

VOCABULARY, LENGTH = 8, 16
OFFSETS = (-3, -1, 2, 5)  # four relations that each place needs at once


class Relations(nn.Module):
    """One attention layer, then at every place a guess of the tokens at four other places (around a ring)."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.tokens = nn.Embedding(VOCABULARY, width)
        self.places = nn.Parameter(torch.randn(LENGTH, width))
        self.attention = MultiHeadAttention(width, heads)
        self.feed = nn.Sequential(
            nn.LayerNorm(width), nn.Linear(width, 2 * width), nn.ReLU(), nn.Linear(2 * width, len(OFFSETS) * VOCABULARY)
        )

    def forward(self, tokens: Tensor) -> Tensor:
        x = self.tokens(tokens) + self.places
        scores: Tensor = self.feed(x + self.attention(x))
        return scores.unflatten(-1, (len(OFFSETS), VOCABULARY))

    def maps(self, tokens: Tensor) -> Tensor:
        """What each head looks at: the mean map over the batch, (H, L, L)."""
        x = self.tokens(tokens) + self.places
        return self.attention(x, weights=True)[1].mean(0)


def batch_of(batch: int) -> tuple[Tensor, Tensor]:
    tokens = torch.randint(VOCABULARY, (batch, LENGTH))
    return tokens, torch.stack([tokens.roll(-offset, 1) for offset in OFFSETS], -1)


def apart(maps: Tensor) -> float | None:
    """Mean total variation distance between the maps of two heads: 0 the same, 1 no place in common."""
    heads = len(maps)
    if heads < 2:
        return None
    pairs = torch.combinations(torch.arange(heads))
    return float((maps[pairs[:, 0]] - maps[pairs[:, 1]]).abs().sum(-1).mean() / 2)


def parts(settings: Settings) -> list[Settings]:
    trained: list[Settings] = [{"what": "trained", "heads": heads} for heads in settings["heads"]]
    return [*trained, {"what": "timed"}]


def measure(settings: Settings, part: Settings, seed: int) -> list[Row]:
    return _timed(settings) if part["what"] == "timed" else _trained(settings, part["heads"])


def _timed(settings: Settings) -> list[Row]:
    """Forward and backward of the layer alone, the counts of heads in turn."""
    x = torch.randn(8, settings["tokens"], settings["width"])
    layers = {heads: MultiHeadAttention(settings["width"], heads) for heads in settings["heads"]}
    calls = {str(heads): lambda layer=layer: layer(x).sum().backward() for heads, layer in layers.items()}
    times = best_times(calls, settings["repeats"])
    first = times[str(settings["heads"][0])]
    return [
        {"heads": heads, "seconds": times[str(heads)], "ratio": times[str(heads)] / first,
         "parameters": parameters(layer)}
        for heads, layer in layers.items()
    ]  # fmt: skip


def _trained(settings: Settings, heads: int) -> list[Row]:
    model = Relations(settings["width"], heads)
    test, wanted = batch_of(settings["test"])
    with torch.no_grad():
        before = apart(model.maps(test))

    def loss(_: int) -> Tensor:
        tokens, targets = batch_of(settings["batch"])
        return F.cross_entropy(model(tokens).flatten(0, -2), targets.flatten())

    fit(model, loss, settings["steps"], learning_rate=settings["rate"])
    with torch.no_grad():
        right = float((model(test).argmax(-1) == wanted).float().mean())
        return [{"accuracy": right, "apart": apart(model.maps(test)), "apart_before": before}]


def judge(rows: list[Row]) -> Conclusion:
    trained, timed = where(rows, what="trained"), where(rows, what="timed")
    heads = sorted(values(trained, "heads"))
    several = [count for count in heads if count >= len(OFFSETS)] or heads[-1:]
    gain = {count: difference(trained, "accuracy", {"heads": count}, {"heads": 1}) for count in several}
    ratio = {count: over_seeds(timed, "ratio", heads=count) for count in heads[1:]}
    parted = {count: (over_seeds(trained, "apart", heads=count), over_seeds(trained, "apart_before", heads=count))
              for count in heads if count > 1}  # fmt: skip
    figures = (
        *(
            figure(
                words(f"accuracy, {count} head{'s' if count > 1 else ''}", f"准确率,{count} 头"),
                over_seeds(trained, "accuracy", heads=count),
                "%",
            )
            for count in heads
        ),
        *(
            figure(words(f"time of {count} heads / 1 head", f"{count} 头与 1 头的时间比"), ratio[count], "×")
            for count in ratio
        ),
        *(
            figure(
                words(f"distance between heads' maps, {count} heads, trained", f"训练后各头权重图的距离,{count} 头"),
                parted[count][0],
            )
            for count in parted
        ),
        *(
            figure(words(f"the same before training, {count} heads", f"训练前,{count} 头"), parted[count][1])
            for count in parted
        ),
        figure(words("parameters, whatever the heads", "参数量(与头数无关)"), max(values(timed, "parameters"))),
    )
    no_faster = all(one.mean >= 0.95 for one in ratio.values())
    better = [count for count in several if gain[count].above]
    differ = all(trained_.low > before.high for trained_, before in parted.values())
    equal = len(values(timed, "parameters")) == 1
    speed = "more heads are no faster" if no_faster else "more heads are faster here"
    speed_zh = "头更多并不更快" if no_faster else "此处头更多反而更快"
    if no_faster and better == several and differ and equal:
        sentence = words(
            f"With the same parameters, {speed}; a task that needs {len(OFFSETS)} relations at once needs several "
            "heads, and they learn to look at different places.",
            f"参数相同,{speed_zh};需要同时用到 {len(OFFSETS)} 种关系的任务需要多头，且各头学会看不同的位置。",
        )
        return Conclusion("holds", sentence, figures)
    if better and equal:
        sentence = words(
            f"{', '.join(map(str, better))} heads know more relations than one; {speed}; the maps of heads "
            f"{'differ more' if differ else 'do not everywhere differ more'} after training than before.",
            f"{'、'.join(map(str, better))} 头能掌握更多关系;{speed_zh};训练后各头"
            f"{'更加不同' if differ else '并非处处更不同'}。",
        )
        return Conclusion("holds when", sentence, figures)
    sentence = words("Several heads do no better than one.", "多头并不比单头更好。")
    return Conclusion("does not hold here", sentence, figures)


def draw(rows: list[Row]) -> Chart:
    trained, timed = where(rows, what="trained"), where(rows, what="timed")
    maps = [
        {"heads": row["heads"], "seed": row["seed"], "apart": row[name], "when": when}
        for row in trained
        for name, when in (("apart", "trained"), ("apart_before", "before"))
    ]
    heads: dict[str, Any] = {"x_label": words("heads", "头数"), "log": "x"}
    return chart(
        words("1 … 16 heads of the same total width", "总宽度相同的 1 … 16 个头"),
        lines(
            trained,
            "heads",
            "accuracy",
            "what",
            title=words("accuracy, four relations at once", "准确率：同时四种关系"),
            percent=True,
            reference_lines=(level(1 / VOCABULARY),),
            **heads,
        ),
        lines(timed, "heads", "ratio", "what", title=words("time / time of one head", "时间 / 单头时间"), **heads),
        lines(
            maps,
            "heads",
            "apart",
            "when",
            title=words("distance between heads' maps", "各头权重图之间的距离"),
            percent=True,
            **heads,
        ),
    )


CLAIM = Claim(
    name="heads-not-speed",
    title=words("Heads are not for speed", "多头不是为了速度"),
    statement=words(
        "“Multi-head is only parallelism” is a misconception: heads learn different relations.",
        "“多头只是并行计算”是误解：不同的头学习不同的关系。",
    ),
    source=(INTUITION,),
    experiment=words(
        "One attention layer of equal width and parameters with 1, 2, 4, 8 and 16 heads: time of forward and "
        "backward, taken in turn; accuracy on naming the tokens at four other places at once; and the total variation "
        "distance between the maps of its heads, before training and after.",
        "同宽同参数的一层注意力,1、2、4、8、16 头：轮流计时的前向与反向；同时说出四个相对位置上 token 的准确率;"
        "训练前后各头权重图之间的全变差距离。",
    ),
    rule=words(
        "*holds* if the parameters are equal, no count of heads takes less than 0.95 of the time of one head, every "
        "count of 4 or more is more accurate than one (paired interval above 0), and the maps are farther apart after "
        "training than before (intervals do not meet). *holds when* if only some of the last three are so but a count "
        "of 4 or more is better; else *does not hold here*.",
        "参数相等、任何头数都不快于单头的 0.95、4 头及以上都更准确、训练后权重图距离更大，则成立；"
        "仅部分满足但有更准确者"
        "则有条件成立；否则不成立。",
    ),
    sizes={
        "tiny": {
            "seeds": 2,
            "width": 16,
            "heads": (1, 2, 4),
            "steps": 3,
            "batch": 8,
            "test": 16,
            "tokens": 16,
            "repeats": 2,
            "rate": 3e-3,
        },
        "default": {
            "seeds": 3,
            "width": 64,
            "heads": (1, 2, 4, 8, 16),
            "steps": 400,
            "batch": 64,
            "test": 512,
            "tokens": 256,
            "repeats": 8,
            "rate": 2e-3,
        },
        "full": {
            "seeds": 10,
            "width": 64,
            "heads": (1, 2, 4, 8, 16),
            "steps": 3000,
            "batch": 64,
            "test": 4096,
            "tokens": 512,
            "repeats": 30,
            "rate": 2e-3,
        },
    },
    parts=parts,
    measure=measure,
    judge=judge,
    draw=draw,
    timed=True,
)
