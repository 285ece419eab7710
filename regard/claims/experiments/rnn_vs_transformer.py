"""Transformer against LSTM: the documents' table, row by row.

Both have embeddings, two layers of 8·D² weights and an output layer. A layer of the Transformer has attention (4·D²)
and a feed-forward part of inner width 2·D (4·D²); one of the LSTM has four gates of 2·D² each.
"""

from functools import lru_cache
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from regard.claims.charts.chart import Chart
from regard.claims.charts.from_rows import bars, chart, lines
from regard.claims.charts.labels import chinese_label as zh
from regard.claims.claim import Claim, Conclusion, Row, Settings
from regard.claims.source_documents import TRANSFORMER
from regard.claims.statistics.intervals import Interval, interval
from regard.claims.statistics.rows import by_seed, difference, figure, over_seeds, values, where
from regard.claims.statistics.timing import best_times, threads
from regard.claims.tasks.fit import Mark, fit, parameters
from regard.languages import bilingual as words
from regard.models import Decoder, DecoderConfig
from regard.training import phrase_pairs

MODELS = ("Transformer", "LSTM")
PARALLEL, DISTANCE, SPEED, EXPRESSIVE, DATA = (
    "parallel computation",
    "long distance",
    "training speed",
    "expressiveness",
    "data",
)
TASKS = ("recall", "parity")


class Lstm(nn.Module):
    """Token ids (B, L) → scores (B, L, V)."""

    def __init__(self, vocabulary: int, width: int) -> None:
        super().__init__()
        self.tokens = nn.Embedding(vocabulary, width)
        self.lstm = nn.LSTM(width, width, 2, batch_first=True)
        self.out = nn.Linear(width, vocabulary, bias=False)

    def forward(self, tokens: Tensor) -> Tensor:
        scores: Tensor = self.out(self.lstm(self.tokens(tokens))[0])
        return scores


def model_of(kind: str, vocabulary: int, width: int, context: int) -> nn.Module:
    if kind == "LSTM":
        return Lstm(vocabulary, width)
    sizes: dict[str, Any] = {"d_model": width, "heads": 4, "layers": 2, "d_ff": 2 * width, "context": context}
    return Decoder(DecoderConfig(vocabulary, **sizes, norm="pre", positions="rotary", dropout=0.0, tied=False))


def far(batch: int, distance: int) -> tuple[Tensor, Tensor]:
    """A value (0 … 7), `distance` noise tokens (8 … 15), a question (16): what was the value?"""
    value, noise = torch.randint(8, (batch, 1)), torch.randint(8, 16, (batch, distance))
    return torch.cat([value, noise, torch.full((batch, 1), 16)], 1), _last(value, distance + 2)


def recall(batch: int, length: int) -> tuple[Tensor, Tensor]:
    """Pairs of key (0 … 7) and value (8 … 15), each key once, then a key: its value."""
    pairs = min(length // 2, 8)
    keys, found = torch.rand(batch, 8).argsort(1)[:, :pairs], torch.randint(8, 16, (batch, pairs))
    place = torch.randint(pairs, (batch, 1))
    tokens = torch.stack([keys, found], 2).flatten(1)
    return torch.cat([tokens, keys.gather(1, place)], 1), _last(found.gather(1, place), 2 * pairs + 1)


def parity(batch: int, length: int) -> tuple[Tensor, Tensor]:
    """Bits; at every place, whether the ones so far are odd."""
    bits = torch.randint(2, (batch, length))
    return bits, bits.cumsum(1) % 2


def _last(answer: Tensor, length: int) -> Tensor:
    """The answer at the last place, and nothing asked at the others."""
    return F.pad(answer, (length - 1, 0), value=-100)


@lru_cache(maxsize=2)
def sentences(train: int, test: int) -> tuple[Tensor, Tensor, int]:
    """Characters of a small grammar's English: two long rows, and how many signs there are."""
    found = phrase_pairs(train=train, valid=1, test=test)
    texts = ["\n".join(source for source, _ in part) for part in (found.train, found.test)]
    signs = {sign: n for n, sign in enumerate(sorted(set("".join(texts))))}
    learnt, held = (torch.tensor([signs[sign] for sign in text]) for text in texts)
    return learnt, held, len(signs)


def pieces(text: Tensor, batch: int, length: int) -> tuple[Tensor, Tensor]:
    """Random pieces of the text, and what comes next at every place."""
    starts = torch.randint(max(len(text) - length - 1, 1), (batch, 1))
    taken = text[(starts + torch.arange(length + 1)).clamp_max(len(text) - 1)]
    return taken[:, :-1], taken[:, 1:]


def parts(settings: Settings) -> list[Settings]:
    found: list[Settings] = [{"row": PARALLEL, "threads": count} for count in settings["threads"]]
    for model in MODELS:
        found += [{"row": DISTANCE, "distance": distance, "model": model} for distance in settings["distances"]]
        found += [{"row": EXPRESSIVE, "task": task, "model": model} for task in TASKS]
        found += [{"row": DATA, "amount": amount, "model": model} for amount in settings["amounts"]]
    return found


def measure(settings: Settings, part: Settings, seed: int) -> list[Row]:
    if part["row"] == PARALLEL:
        return _parallel(settings, part["threads"])
    if part["row"] == DATA:
        return _language(settings, part)
    kind, width = part["model"], settings["width"]
    if part["row"] == DISTANCE:
        steps, marks = settings["steps"], _learnt(settings, kind, far, part["distance"], 17, settings["steps"])
    else:
        make, length = {"recall": (recall, 16), "parity": (parity, settings["bits"])}[part["task"]]
        steps, marks = settings["steps"], _learnt(settings, kind, make, length, 17, settings["steps"])
    count = parameters(model_of(kind, 17, width, 8))
    return [{**_row(mark, steps), "accuracy": mark.score, "parameters": count} for mark in marks]


def _row(mark: Mark, steps: int) -> Row:
    return {"step": mark.step, "seconds": mark.seconds, "loss": mark.loss, "end": mark.step == steps}


def _parallel(settings: Settings, count: int) -> list[Row]:
    """Tokens a second, forward and in training, the same number of tokens at every length."""
    width, rows = settings["timed_width"], []
    with threads(count):
        for length in settings["lengths"]:
            batch = max(settings["tokens"] // length, 1)
            tokens = torch.randint(17, (batch, length))
            models = {kind: model_of(kind, 17, width, length) for kind in MODELS}

            def forward(model: nn.Module, tokens: Tensor = tokens) -> object:
                with torch.no_grad():
                    return model(tokens)

            def training(model: nn.Module, tokens: Tensor = tokens) -> object:
                return model(tokens).logsumexp(-1).mean().backward()

            for when, way in (("forward", forward), ("training", training)):
                calls = {kind: lambda model=model, way=way: way(model) for kind, model in models.items()}
                times = best_times(calls, settings["repeats"])
                rows += [
                    {"length": length, "when": when, "model": kind, "rate": batch * length / times[kind]}
                    for kind in MODELS
                ]
    return rows


def _learnt(settings: Settings, kind: str, make: Any, size: int, vocabulary: int, steps: int) -> list[Mark]:
    test, wanted = make(settings["test"], size)
    model = model_of(kind, vocabulary, settings["width"], test.shape[1])
    asked = wanted != -100

    def loss(_: int) -> Tensor:
        tokens, targets = make(settings["batch"], size)
        return F.cross_entropy(model(tokens).flatten(0, 1), targets.flatten())

    def score() -> float:
        return float((model(test).argmax(-1) == wanted)[asked].float().mean())

    return fit(model, loss, steps, score_of=score, marks=settings["marks"], learning_rate=settings["rate"])


def _language(settings: Settings, part: Settings) -> list[Row]:
    learnt, held, signs = sentences(max(settings["amounts"]), settings["held"])
    learnt = learnt[: int(len(learnt) * part["amount"] / max(settings["amounts"]))]
    length = settings["context"]
    model = model_of(part["model"], signs, settings["width"], length)
    test = held[: len(held) // length * length - 1]
    tokens, wanted = (F.pad(row, (0, 1)).unflatten(0, (-1, length)) for row in (test, held[1 : len(test) + 1]))

    def loss(_: int) -> Tensor:
        read, targets = pieces(learnt, settings["batch"], length)
        return F.cross_entropy(model(read).flatten(0, 1), targets.flatten())

    def score() -> float:
        return float(F.cross_entropy(model(tokens).flatten(0, 1), wanted.flatten()))

    steps = settings["language_steps"]
    marks = fit(model, loss, steps, score_of=score, marks=settings["marks"], learning_rate=settings["rate"])
    return [{**_row(mark, steps), "held_out": mark.score, "parameters": parameters(model)} for mark in marks]


# What the rows of the table come to, each with a word on whether it is as said: "yes", "partly", "no".


def _faster(rows: list[Row]) -> tuple[str, list[Any]]:
    """Does the Transformer get through more tokens a second, in training, at every length and count of threads?"""
    own = where(rows, row=PARALLEL, when="training")
    ratios = {}
    for count in values(own, "threads"):
        for length in values(own, "length"):
            a, b = (by_seed(own, "rate", model=kind, length=length, threads=count) for kind in MODELS)
            ratios[count, length] = interval([a[seed] / b[seed] for seed in a])
    figures = [
        figure(words(f"tokens/s in training, Transformer / LSTM, {length} tokens, {count} thread{'s' * (count > 1)}",
                     f"训练吞吐比(Transformer/LSTM),{length} token,{count} 线程"), one, "×")
        for (count, length), one in ratios.items()
    ]  # fmt: skip
    ahead = [one.low > 1 for one in ratios.values()]
    return _word(ahead), figures


def _remembers(rows: list[Row]) -> tuple[str, list[Any]]:
    """Does it answer better at the longest distance, after equal updates and after equal time?"""
    own = where(rows, row=DISTANCE)
    far_off = max(values(own, "distance"))
    own = where(own, distance=far_off)
    steps = difference(where(own, end=True), "accuracy", {"model": MODELS[0]}, {"model": MODELS[1]})
    time = interval([_at_equal_time(where(own, seed=seed)) for seed in values(own, "seed")])
    figures = [
        figure(words(f"accuracy at distance {far_off}, Transformer − LSTM, equal updates",
                     f"距离 {far_off} 的准确率之差，更新次数相同"), steps, "%"),
        figure(words("the same, equal time", "同上，时间相同"), time, "%"),
    ]  # fmt: skip
    return _word([steps.above, time.above]), figures


def _at_equal_time(rows: list[Row]) -> float:
    """The difference of the last marks that both models reach within the time of the one that ends first."""
    until = min(max(row["seconds"] for row in where(rows, model=kind)) for kind in MODELS)
    last = [max((row for row in where(rows, model=kind) if row["seconds"] <= until), key=lambda row: row["step"],
                default=where(rows, model=kind)[0]) for kind in MODELS]  # fmt: skip
    return float(last[0]["accuracy"] - last[1]["accuracy"])


def _sooner(rows: list[Row]) -> tuple[str, list[Any]]:
    """Seconds to the loss that both reach, on the largest text."""
    own = where(rows, row=DATA)
    own = where(own, amount=max(values(own, "amount")))
    ratios = []
    for seed in values(own, "seed"):
        runs = [where(own, seed=seed, model=kind) for kind in MODELS]
        goal = max(min(row["held_out"] for row in run) for run in runs)
        reached = [min(row["seconds"] for row in run if row["held_out"] <= goal) for run in runs]
        ratios.append(reached[1] / reached[0])
    ratio = interval(ratios)
    name = words("seconds to the loss both reach, LSTM / Transformer", "达到共同损失的时间,LSTM / Transformer")
    return _word([ratio.low > 1]), [figure(name, ratio, "×")]


def _expresses(rows: list[Row]) -> tuple[str, list[Any]]:
    """Is it more accurate on both tasks, with as many parameters and updates?"""
    own = where(rows, row=EXPRESSIVE, end=True)
    gaps = {
        task: difference(own, "accuracy", {"task": task, "model": MODELS[0]}, {"task": task, "model": MODELS[1]})
        for task in TASKS
    }
    figures = [
        figure(words(f"accuracy on {task}, {kind}", f"{zh(task)}准确率,{kind}"),
               over_seeds(own, "accuracy", task=task, model=kind), "%")
        for task in TASKS for kind in MODELS
    ]  # fmt: skip
    return _word([gap.above for gap in gaps.values()]), figures


def _needs_data(rows: list[Row]) -> tuple[str, list[Any]]:
    """Is the LSTM better with little text and the Transformer with much (best held-out loss of a run)?"""
    own = where(rows, row=DATA)
    amounts = sorted(values(own, "amount"))
    gaps: dict[int, Interval] = {}
    for amount in amounts:
        best = [{seed: min(row["held_out"] for row in where(own, seed=seed, model=kind, amount=amount))
                 for seed in values(own, "seed")} for kind in MODELS]  # fmt: skip
        gaps[amount] = interval([best[1][seed] - best[0][seed] for seed in best[0]])
    figures = [
        figure(
            words(
                f"held-out loss, LSTM − Transformer, {amount} sentences", f"留出损失之差(LSTM−Transformer),{amount} 句"
            ),
            gap,
        )
        for amount, gap in gaps.items()
    ]
    return _word([gaps[amounts[0]].below, gaps[amounts[-1]].above]), figures


def _word(true: list[bool]) -> str:
    return "yes" if all(true) else "partly" if any(true) else "no"


ROWS = {PARALLEL: _faster, DISTANCE: _remembers, SPEED: _sooner, EXPRESSIVE: _expresses, DATA: _needs_data}
CHINESE = {PARALLEL: "并行计算", DISTANCE: "长距离", SPEED: "训练速度", EXPRESSIVE: "表达能力", DATA: "数据量"}


def judge(rows: list[Row]) -> Conclusion:
    found = {row: judge_row(rows) for row, judge_row in ROWS.items()}
    figures = tuple(one for _, own in found.values() for one in own)
    said = "; ".join(f"{row}: {word}" for row, (word, _) in found.items())
    zh = ";".join(
        f"{CHINESE[row]}:{ {'yes': '是', 'partly': '部分', 'no': '否'}[word] }" for row, (word, _) in found.items()
    )
    ahead = [word for word, _ in found.values()]
    sentence = words(f"As the table has it? {said}.", f"与表中所述一致否?{zh}。")
    if all(word == "yes" for word in ahead):
        return Conclusion("holds", sentence, figures)
    return Conclusion("does not hold here" if all(word == "no" for word in ahead) else "holds when", sentence, figures)


def draw(rows: list[Row]) -> Chart:
    rates = [
        {**row, "name": f"{row['model']}, {row['threads']} thr."} for row in where(rows, row=PARALLEL, when="training")
    ]
    data = [{**row, "name": f"{row['model']}, {row['amount']}"} for row in where(rows, row=DATA)]
    return chart(
        words("Transformer against LSTM", "Transformer 与 LSTM"),
        lines(
            rates, "length", "rate", "name", log="xy", title=words("tokens/s in training", "训练时每秒 token 数"),
            x_label=words("tokens", "token 数"),
        ),
        lines(
            where(rows, row=DISTANCE, end=True), "distance", "accuracy", "model", log="x", percent=True,
            title=words("accuracy, equal updates", "准确率，更新次数相等"), x_label=words("distance", "距离"),
        ),
        bars(
            where(rows, row=EXPRESSIVE, end=True), "task", "accuracy", "model", percent=True,
            title=words("accuracy, equal parameters", "准确率，参数相等"),
        ),
        lines(
            data, "step", "held_out", "name", title=words("held-out loss, by sentences", "留出损失，按句数"),
            x_label=words("updates", "更新次数"),
        ),
    )  # fmt: skip


CLAIM = Claim(
    name="rnn-vs-transformer",
    title=words("Transformer against RNN", "Transformer 与 RNN"),
    statement=words(
        "The Transformer computes in parallel, keeps long distances, trains faster and expresses more; the RNN is for "
        "small data, the Transformer for large.",
        "Transformer 可并行、长距离更强、训练更快、表达更强;RNN 适合小数据,Transformer 适合大数据。",
    ),
    source=(TRANSFORMER,),
    experiment=words(
        "A two-layer Transformer and a two-layer LSTM of the same width and as many parameters. Parallel computation: "
        "tokens a second by length and threads, in turn. Long distance: a value is asked for after so many noise "
        "tokens. Training speed: seconds to the held-out loss that both reach on English sentences of a small "
        "grammar. Expressiveness: recall of pairs, and running parity. Data: the best held-out loss with few "
        "sentences and with many.",
        "同宽、同参数量的两层 Transformer 与两层 LSTM:吞吐(不同长度与线程)、隔若干噪声后的回忆、达到共同留出损失的时间"
        "、键值回忆与奇偶两项任务、少量与大量句子下的留出损失。",
    ),
    rule=words(
        "A row is as said (“yes”) if every interval of it is: throughput ratio above 1 at every length; accuracy "
        "higher at the longest distance after equal updates and equal time; time ratio above 1; accuracy higher on "
        "both tasks; LSTM's loss lower with the fewest sentences and higher with the most. “partly” if some are. "
        "*holds* if all five rows are “yes”, *does not hold here* if all are “no”, else *holds when*.",
        "一行的所有区间都符合则为“是”,部分符合为“部分”。五行皆“是”则成立，皆“否”则不成立，其余为有条件成立。",
    ),
    sizes={
        "tiny": {
            "seeds": 2,
            "threads": (1,),
            "lengths": (8,),
            "tokens": 16,
            "timed_width": 16,
            "repeats": 1,
            "distances": (4,),
            "bits": 4,
            "width": 8,
            "batch": 4,
            "steps": 2,
            "marks": 2,
            "test": 8,
            "rate": 2e-3,
            "amounts": (20, 40),
            "held": 10,
            "context": 16,
            "language_steps": 2,
        },
        "default": {
            "seeds": 3,
            "threads": (1, 2),
            "lengths": (16, 64, 256, 1024),
            "tokens": 2048,
            "timed_width": 128,
            "repeats": 3,
            "distances": (8, 32, 128),
            "bits": 16,
            "width": 64,
            "batch": 32,
            "steps": 200,
            "marks": 10,
            "test": 256,
            "rate": 3e-3,
            "amounts": (50, 2000),
            "held": 100,
            "context": 48,
            "language_steps": 200,
        },
        "full": {
            "seeds": 5,
            "threads": (1, 2),
            "lengths": (16, 64, 256, 1024, 2048),
            "tokens": 4096,
            "timed_width": 256,
            "repeats": 8,
            "distances": (8, 32, 128, 512),
            "bits": 24,
            "width": 128,
            "batch": 64,
            "steps": 1500,
            "marks": 30,
            "test": 1024,
            "rate": 1e-3,
            "amounts": (50, 500, 20000),
            "held": 500,
            "context": 96,
            "language_steps": 2000,
        },
    },
    parts=parts,
    measure=measure,
    judge=judge,
    draw=draw,
    timed=True,
)
