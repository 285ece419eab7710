"""What softmax does for attention, and whether something else would do."""

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from regard.claims.charts.chart import Chart
from regard.claims.charts.from_rows import chart, level, lines
from regard.claims.charts.labels import chinese_label as zh
from regard.claims.claim import Claim, Conclusion, Row, Settings
from regard.claims.source_documents import INTERVIEWS
from regard.claims.statistics.rows import difference, figure, over_seeds, values, where
from regard.claims.tasks.fit import fit
from regard.claims.tasks.retrieval import VALUES, Reader, accuracy, loss, retrieval
from regard.claims.tasks.retrieval import softmax as by_softmax
from regard.languages import bilingual as words


def by_argmax(scores: Tensor) -> Tensor:
    """All weight on the largest score; no gradient reaches the scores."""
    return F.one_hot(scores.argmax(-1), scores.shape[-1]).to(scores.dtype)


def by_sum(scores: Tensor) -> Tensor:
    """Linear: what a score has above the smallest, over the sum of that."""
    above = scores - scores.min(-1, keepdim=True).values
    return above / above.sum(-1, keepdim=True).clamp_min(1e-9)


def by_sigmoid(scores: Tensor) -> Tensor:
    """Each score by itself; the weights do not sum to one."""
    return torch.sigmoid(scores)


WAYS = {"softmax": by_softmax, "argmax": by_argmax, "linear": by_sum, "sigmoid": by_sigmoid}


def parts(settings: Settings) -> list[Settings]:
    trained: list[Settings] = [{"what": "trained", "way": way} for way in WAYS]
    return [{"what": "properties"}, *trained]


def measure(settings: Settings, part: Settings, seed: int) -> list[Row]:
    return _properties() if part["what"] == "properties" else _trained(settings, WAYS[part["way"]])


def _properties() -> list[Row]:
    """Sum, sharpness and slope on random scores; the slope against finite differences in float64."""
    scores = torch.randn(32, 16, dtype=torch.float64)
    direction = torch.randn_like(scores)
    rows: list[Row] = []
    for name, weigh in WAYS.items():
        w = weigh(scores)
        rows.append({
            "way": name,
            "sum_error": float((w.sum(-1) - 1).abs().max()),
            "sharpening": _share_of_largest(weigh(4 * scores)) - _share_of_largest(w),
            "slope": _slope(weigh, scores, direction),
            "slope_error": _slope_error(weigh, scores, direction),
        })  # fmt: skip
    return rows


def _share_of_largest(w: Tensor) -> float:
    return float((w.max(-1).values / w.sum(-1)).mean())


def _slope(weigh: Any, scores: Tensor, direction: Tensor) -> float:
    """How much the weights change along a direction, by automatic differentiation."""
    change = torch.func.jvp(weigh, (scores,), (direction,))[1]
    return float(change.norm())


def _slope_error(weigh: Any, scores: Tensor, direction: Tensor) -> float:
    """How far automatic differentiation is from what finite differences say, relative to the larger."""
    change = torch.func.jvp(weigh, (scores,), (direction,))[1]
    near = (weigh(scores + 1e-6 * direction) - weigh(scores - 1e-6 * direction)) / 2e-6
    return float((change - near).norm() / max(float(change.norm()), float(near.norm()), 1e-12))


def _trained(settings: Settings, weigh: Any) -> list[Row]:
    model = Reader(settings["width"], weigh)
    test = retrieval(settings["test"], 16)
    marks = fit(
        model,
        lambda _: loss(model, retrieval(64, 16)),
        settings["steps"],
        marks=settings["marks"],
        score_of=lambda: accuracy(model, test),
        learning_rate=settings["rate"],
    )
    return [{"step": mark.step, "accuracy": mark.score} for mark in marks]


def judge(rows: list[Row]) -> Conclusion:
    own, trained = where(rows, what="properties", way="softmax"), where(rows, what="trained")
    steps = max(values(trained, "step"))
    last = where(trained, step=steps)
    others = [way for way in WAYS if way != "softmax"]
    ahead = {way: difference(last, "accuracy", {"way": "softmax"}, {"way": way}) for way in others}
    figures = (
        figure(words("largest |Σ weights − 1|", "权重和与 1 的最大偏差"), max(row["sum_error"] for row in own)),
        figure(
            words("share of the largest weight gained when scores are ×4", "分数放大 4 倍后最大权重的增量"),
            over_seeds(own, "sharpening"),
            "%",
        ),
        figure(
            words("gradient against finite differences, relative error", "梯度与差分的相对误差"),
            max(row["slope_error"] for row in own),
        ),
        *(
            figure(
                words(f"accuracy, {way}", f"准确率,{zh(way)}"),
                over_seeds(last, "accuracy", way=way),
                "%",
            )
            for way in WAYS
        ),
    )
    proper = all(row["sum_error"] < 1e-9 and row["sharpening"] > 0 and row["slope_error"] < 1e-4 for row in own)
    proper = proper and all(row["slope"] > 0 for row in own)
    if not proper:
        sentence = words("Softmax lacks one of the properties.", "softmax 缺少其中某个性质。")
        return Conclusion("does not hold here", sentence, figures)
    behind = [way for way in others if not ahead[way].above]
    if not behind:
        sentence = words(
            f"Softmax sums to one, sharpens and has a gradient, and within {steps} updates learns the task better than "
            "argmax, linear normalisation and sigmoid.",
            f"softmax 和为 1、能锐化、可微，且在 {steps} 次更新内优于 argmax、线性归一化与 sigmoid。",
        )
        return Conclusion("holds", sentence, figures)
    named, named_zh = ", ".join(behind), "、".join(map(zh, behind))
    sentence = words(
        f"Softmax has the properties; but for this task {named} in its place learns no worse.",
        f"softmax 具备这些性质；但在此任务上换成 {named_zh} 并不更差。",
    )
    return Conclusion("holds when", sentence, figures)


def draw(rows: list[Row]) -> Chart:
    training = lines(
        where(rows, what="trained"), "step", "accuracy", "way", x_label=words("updates", "更新次数"),
        y_label=words("accuracy", "准确率"), percent=True, reference_lines=(level(1 / VALUES),),
    )  # fmt: skip
    return chart(
        words("What turns scores into weights: accuracy on retrieval", "由分数得权重的方式：检索准确率"), training
    )


CLAIM = Claim(
    name="softmax",
    title=words("What softmax is for", "softmax 的作用"),
    statement=words(
        "Softmax turns scores into weights that sum to one, brings out the large ones and is differentiable; that is "
        "why attention uses it.",
        "softmax 把分数变成和为 1 的权重，突出较大者，且可微，因此注意力采用它。",
    ),
    source=(INTERVIEWS,),
    experiment=words(
        "The three properties on random scores in float64; then a one-head model learns to find the value of a key "
        "among 16 with softmax, argmax, linear normalisation or sigmoid making the weights, all else equal.",
        "用 float64 随机分数检验三个性质；再分别以 softmax、argmax、线性归一化、sigmoid 训练同一单头检索模型。",
    ),
    rule=words(
        "*does not hold here* if a sum is off by 1e-9, scores ×4 do not raise the largest share, or the gradient is "
        "zero or differs from finite differences by 1e-4. Else *holds* if softmax's accuracy is above every other's "
        "(interval of the paired difference above 0), *holds when* if not.",
        "任一性质不满足则不成立;softmax 准确率与其他各方法之差的区间都大于 0 则成立，否则有条件成立。",
    ),
    sizes={
        "tiny": {"seeds": 2, "width": 16, "steps": 6, "marks": 2, "test": 64, "rate": 3e-3},
        "default": {"seeds": 5, "width": 64, "steps": 200, "marks": 8, "test": 1024, "rate": 1e-3},
        "full": {"seeds": 10, "width": 64, "steps": 2000, "marks": 20, "test": 8192, "rate": 1e-3},
    },
    parts=parts,
    measure=measure,
    judge=judge,
    draw=draw,
)
