"""Why scores are divided by √d_k: what happens to their spread, to softmax and to its gradient when they are not."""

import torch

from regard.claims.charts.chart import Chart
from regard.claims.charts.from_rows import chart, level, lines
from regard.claims.claim import Claim, Conclusion, Row, Settings
from regard.claims.source_documents import INTERVIEWS, INTUITION
from regard.claims.statistics.intervals import interval, slope
from regard.claims.statistics.rows import by_seed, difference, figure, over_seeds, values, where
from regard.claims.tasks.fit import fit
from regard.claims.tasks.retrieval import VALUES, Reader, accuracy, loss, retrieval, softmax
from regard.languages import bilingual as words

KEYS = 64  # of one softmax
WAYS = ("divided by √d_k", "not divided")


def parts(settings: Settings) -> list[Settings]:
    random: list[Settings] = [{"what": "random", "d_k": d_k} for d_k in settings["random"]]
    return random + [{"what": "trained", "d_k": d_k, "way": way} for d_k in settings["trained"] for way in WAYS]


def measure(settings: Settings, part: Settings, seed: int) -> list[Row]:
    return _random(settings, part["d_k"]) if part["what"] == "random" else _trained(settings, part)


def _random(settings: Settings, d_k: int) -> list[Row]:
    """q and k of independent standard normal numbers, as the argument assumes."""
    q, k = torch.randn(settings["rows"], 1, d_k), torch.randn(settings["rows"], KEYS, d_k)
    products = (q * k).sum(-1).double()  # (rows, keys); near one-hot weights the slope is a small difference
    rows: list[Row] = []
    for way in WAYS:
        scores = products / d_k**0.5 if way == WAYS[0] else products
        w = softmax(scores)
        # The derivative of softmax is diag(w) − w wᵀ; the square of its Frobenius norm, written out.
        slopes = (w.square().sum(-1) - 2 * w.pow(3).sum(-1) + w.square().sum(-1).square()).clamp_min(0).sqrt()
        entropy = -(w * w.clamp_min(1e-300).log()).sum(-1)
        rows.append(
            {
                "way": way,
                "variance": float(scores.var()),
                "entropy": float(entropy.mean()),
                "gradient": float(slopes.median()),
            }
        )
    return rows


def _trained(settings: Settings, part: Settings) -> list[Row]:
    model = Reader(part["d_k"], softmax, scale=None if part["way"] == WAYS[0] else 1.0)
    test = retrieval(settings["test"], 16)
    marks = fit(
        model,
        lambda _: loss(model, retrieval(64, 16)),
        settings["steps"],
        score_of=lambda: accuracy(model, test),
        learning_rate=settings["rate"],
    )
    return [{"accuracy": marks[-1].score, "loss": marks[-1].loss}]


def judge(rows: list[Row]) -> Conclusion:
    random, trained = where(rows, what="random"), where(rows, what="trained")
    widths, trained_widths = sorted(values(random, "d_k")), sorted(values(trained, "d_k"))
    growth = interval([_growth(random, seed, widths) for seed in by_seed(random, "variance", way=WAYS[1])])
    largest = widths[-1]
    gain = {d: difference(trained, "accuracy", {"way": WAYS[0], "d_k": d}, {"way": WAYS[1], "d_k": d})
            for d in trained_widths}  # fmt: skip
    lost = over_seeds(random, "gradient", way=WAYS[1], d_k=largest)
    kept = over_seeds(random, "gradient", way=WAYS[0], d_k=largest)
    small = over_seeds(random, "gradient", way=WAYS[0], d_k=widths[0])
    figures = (
        figure(words("exponent of the variance in d_k, not divided", "不缩放时方差随 d_k 的指数"), growth),
        figure(
            words(f"entropy at d_k = {largest}, divided (nats)", f"d_k = {largest} 缩放后的熵"),
            over_seeds(random, "entropy", way=WAYS[0], d_k=largest),
        ),
        figure(
            words(f"entropy at d_k = {largest}, not divided", f"d_k = {largest} 不缩放的熵"),
            over_seeds(random, "entropy", way=WAYS[1], d_k=largest),
        ),
        figure(
            words(f"median gradient norm of softmax at d_k = {largest}, divided", "缩放后 softmax 梯度范数中位数"),
            kept,
        ),
        figure(
            words(f"median gradient norm of softmax at d_k = {largest}, not divided", "不缩放的梯度范数中位数"),
            lost,
        ),
        *(
            figure(words(f"accuracy gained by dividing, d_k = {d}", f"缩放带来的准确率提高,d_k = {d}"), gain[d], "%")
            for d in trained_widths
        ),
    )
    spread = growth.low >= 0.95 and growth.high <= 1.05
    saturates = lost.high < 0.1 * kept.low and kept.low > 0.5 * small.low
    helped = [d for d in trained_widths if gain[d].above]
    if not (spread and saturates):
        sentence = words(
            "For random q and k the spread or the gradient does not behave as said.",
            "随机 q、k 的方差或梯度与说法不符。",
        )
        return Conclusion("does not hold here", sentence, figures)
    if helped == trained_widths:
        sentence = words(
            "The variance grows as d_k, softmax saturates without the division, and training suffers at every width.",
            "方差随 d_k 增长，不缩放则 softmax 饱和，且各宽度的训练都变差。",
        )
        return Conclusion("holds", sentence, figures)
    named = ", ".join(map(str, helped))
    sentence = words(
        "For random q and k it is as said; in training the division helps "
        + (f"at d_k = {named} only." if helped else f"at none of d_k = {', '.join(map(str, trained_widths))}."),
        "对随机 q、k 成立；训练中缩放" + (f"仅在 d_k = {named} 时有帮助。" if helped else "在所测宽度下均无明显帮助。"),
    )
    return Conclusion("holds when", sentence, figures)


def _growth(rows: list[Row], seed: int, widths: list[int]) -> float:
    return slope(widths, [by_seed(rows, "variance", way=WAYS[1], d_k=d)[seed] for d in widths])


def draw(rows: list[Row]) -> Chart:
    random, trained = where(rows, what="random"), where(rows, what="trained")
    d_k = words("d_k", "d_k")
    return chart(
        words("Scores with and without division by √d_k", "除以与不除以 √d_k 的分数"),
        lines(
            random, "d_k", "variance", "way", log="xy", x_label=d_k, title=words("variance of the scores", "分数的方差")
        ),
        lines(
            random, "d_k", "gradient", "way", log="xy", x_label=d_k,
            title=words("gradient norm of softmax", "softmax 的梯度范数"),
        ),
        lines(
            trained, "d_k", "accuracy", "way", log="x", x_label=d_k, percent=True, reference_lines=(level(1 / VALUES),),
            title=words("accuracy after training", "训练后的准确率"),
        ),
    )  # fmt: skip


CLAIM = Claim(
    name="scale",
    title=words("Why √d_k", "为什么除以 √d_k"),
    statement=words(
        "The variance of q·k grows with d_k; without division by √d_k softmax saturates and its gradient vanishes.",
        "q·k 的方差随 d_k 增大；不除以 √d_k,softmax 会饱和，梯度消失。",
    ),
    source=(INTERVIEWS, INTUITION),
    experiment=words(
        "Independent standard normal q and k for d_k = 4 … 1024, softmax over 64 keys: variance, entropy, norm of the "
        "derivative. Then a one-head model is trained to find the value of a key among 16, with and without the "
        "division.",
        "d_k = 4 … 1024 的标准正态 q、k,对 64 个键做 softmax:方差、熵、导数范数；再在检索任务上训练单头模型作比较。",
    ),
    rule=words(
        "For random q and k: the exponent of the variance lies in 0.95 … 1.05, and at the largest d_k the gradient "
        "norm is less than a tenth of the scaled one, which keeps half of what it has at the smallest. If not, *does "
        "not hold here*. *holds* if besides the trained accuracy is higher with the division at every width (interval "
        "of the paired difference above 0), *holds when* otherwise, with the widths.",
        "随机 q、k:方差指数在 0.95–1.05 内，且最大 d_k 时不缩放的梯度不到缩放时的十分之一，否则不成立;"
        "若各宽度训练准确率之差的区间都大于 0 则成立，否则有条件成立。",
    ),
    sizes={
        "tiny": {"seeds": 2, "random": (4, 64), "rows": 64, "trained": (8,), "steps": 5, "test": 64, "rate": 3e-3},
        "default": {
            "seeds": 5,
            "random": (4, 16, 64, 256, 1024),
            "rows": 2048,
            "trained": (16, 64, 256),
            "steps": 120,
            "test": 1024,
            "rate": 1e-3,
        },
        "full": {
            "seeds": 10,
            "random": (4, 8, 16, 32, 64, 128, 256, 512, 1024),
            "rows": 4096,
            "trained": (16, 32, 64, 128, 256, 512, 1024),
            "steps": 2000,
            "test": 8192,
            "rate": 1e-3,
        },
    },
    parts=parts,
    measure=measure,
    judge=judge,
    draw=draw,
)
