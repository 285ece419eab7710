"""“Attention is only a weighted mean”: what it matters that the weights are learned, and depend on what is seen."""

from typing import Any

import torch
from torch import Tensor, nn

from regard.claims.charts.chart import Chart
from regard.claims.charts.from_rows import bars, chart, level
from regard.claims.charts.labels import chinese_label as zh
from regard.claims.claim import Claim, Conclusion, Row, Settings
from regard.claims.source_documents import INTUITION
from regard.claims.statistics.rows import difference, figure, over_seeds
from regard.claims.tasks.fit import fit, parameters
from regard.claims.tasks.retrieval import VALUES, Reader, accuracy, loss, majority, retrieval, softmax
from regard.languages import bilingual as words

ITEMS = 16
TASKS = {"find one": retrieval, "most frequent": majority}


class Fixed(nn.Module):
    """The same weights for every input: those of random scores, or of scores that are learned, one a place."""

    def __init__(self, learned: bool) -> None:
        super().__init__()
        self.scores = nn.Parameter(torch.randn(ITEMS), requires_grad=learned)

    def forward(self, scores: Tensor) -> Tensor:
        return torch.softmax(self.scores, -1).expand_as(scores)


def uniform(scores: Tensor) -> Tensor:
    """The plain mean."""
    return torch.full_like(scores, 1 / ITEMS)


WAYS: dict[str, Any] = {
    "attention": lambda: softmax,
    "plain mean": lambda: uniform,
    "random weights": lambda: Fixed(learned=False),
    "learned by place": lambda: Fixed(learned=True),
}


def parts(settings: Settings) -> list[Settings]:
    return [{"task": task, "way": way} for task in TASKS for way in WAYS]


def measure(settings: Settings, part: Settings, seed: int) -> list[Row]:
    make = TASKS[part["task"]]
    model = Reader(settings["width"], WAYS[part["way"]]())
    test = make(settings["test"], ITEMS)
    marks = fit(
        model,
        lambda _: loss(model, make(64, ITEMS)),
        settings["steps"],
        score_of=lambda: accuracy(model, test),
        learning_rate=settings["rate"],
    )
    return [{"accuracy": marks[-1].score, "parameters": parameters(model)}]


def judge(rows: list[Row]) -> Conclusion:
    others = [way for way in WAYS if way != "attention"]
    ahead = {
        task: [difference(rows, "accuracy", {"task": task, "way": "attention"}, {"task": task, "way": way})
               for way in others]
        for task in TASKS
    }  # fmt: skip
    figures = tuple(
        figure(
            words(f"accuracy, {task}: {way}", f"准确率,{zh(task)}:{zh(way)}"),
            over_seeds(rows, "accuracy", task=task, way=way),
            "%",
        )
        for task in TASKS
        for way in WAYS
    )
    better = [task for task in TASKS if all(one.above for one in ahead[task])]
    if len(better) == len(TASKS):
        sentence = words(
            "Weights that depend on the input beat every mean with fixed weights, on both tasks.",
            "随输入变化的权重在两项任务上都优于固定权重的平均。",
        )
        return Conclusion("holds", sentence, figures)
    if better:
        left = [task for task in TASKS if task not in better]
        rest, rest_zh = ", ".join(f"“{task}”" for task in left), "、".join(f"“{zh(task)}”" for task in left)
        sentence = words(
            f"Where one thing must be found among {ITEMS}, weights that depend on the input beat every fixed mean; for "
            f"{rest} they do not: there a mean is all that is needed.",
            f"需要从 {ITEMS} 项中找出一项时，随输入变化的权重优于任何固定平均；而对{rest_zh}则不然，平均已足够。",
        )
        return Conclusion("holds when", sentence, figures)
    sentence = words("On no task do learned weights beat a fixed mean.", "所有任务上学到的权重都不优于固定平均。")
    return Conclusion("does not hold here", sentence, figures)


def draw(rows: list[Row]) -> Chart:
    scores = bars(
        rows,
        "task",
        "accuracy",
        "way",
        y_label=words("accuracy", "准确率"),
        percent=True,
        reference_lines=(level(1 / VALUES),),
    )
    return chart(words("Attention against means with fixed weights", "注意力与固定权重的平均"), scores)


CLAIM = Claim(
    name="learned-mean",
    title=words("More than a weighted mean", "不只是加权平均"),
    statement=words(
        "“Attention is only a weighted mean” is a misconception: the weights are learned and depend on the input.",
        "“注意力只是加权平均”是误解：权重是学到的，并随输入而变。",
    ),
    source=(INTUITION,),
    experiment=words(
        "The same one-head model with weights from attention, all equal, fixed at random, and learned but the same "
        "for every input; on a task that asks for one of 16 items, and on one that asks what is most frequent among "
        "them.",
        "同一单头模型，权重分别为：注意力、均匀、固定随机、按位置学习；任务一是从 16 项中找一项，"
        "任务二是找最频繁的值。",
    ),
    rule=words(
        "On a task attention is ahead if the interval of its accuracy minus that of each fixed mean lies above 0. "
        "*holds* if it is ahead on both tasks, *holds when* on one, *does not hold here* on none.",
        "注意力与每种固定平均的准确率之差的区间都大于 0,则在该任务上领先；两项都领先则成立，一项则有条件成立。",
    ),
    sizes={
        "tiny": {"seeds": 2, "width": 16, "steps": 5, "test": 64, "rate": 3e-3},
        "default": {"seeds": 5, "width": 64, "steps": 200, "test": 1024, "rate": 1e-3},
        "full": {"seeds": 10, "width": 64, "steps": 2000, "test": 8192, "rate": 1e-3},
    },
    parts=parts,
    measure=measure,
    judge=judge,
    draw=draw,
)
