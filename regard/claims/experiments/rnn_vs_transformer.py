"""Transformer against LSTM: the comparison table of the document, row by row.

Both models have embeddings, two layers with 8·D² weights each, and an output layer. A Transformer layer has attention
(4·D²) and a feed-forward network of inner width 2·D (4·D²); an LSTM layer has four gates of 2·D² each.
"""

from collections.abc import Callable
from functools import lru_cache

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from regard.claims.charts.chart import Chart
from regard.claims.charts.from_rows import bars, lines
from regard.claims.charts.labels import label
from regard.claims.claim import Conclusion, Figure, Row, Settings
from regard.claims.definition import Definition, enumerate_in_words
from regard.claims.statistics.confidence_intervals import Interval, interval
from regard.claims.statistics.rows import by_seed, difference, figure, figures, values, where
from regard.claims.statistics.timing import best_times, torch_threads
from regard.claims.tasks.fit import Evaluation, fit, parameter_count, share_correct, token_loss
from regard.claims.tasks.token_models import token_model
from regard.training import phrase_pairs

MODELS = ("Transformer", "LSTM")
PARALLEL, DISTANCE, SPEED = "parallel computation", "long distance", "training speed"
EXPRESSIVE, DATA = "expressiveness", "data"
VOCABULARY = 17  # vocabulary size of the synthetic tasks
DEFINITION = Definition("rnn-vs-transformer")
text = DEFINITION.text


class Lstm(nn.Module):
    """LSTM language model: token ids (B, L) → logits (B, L, V)."""

    def __init__(self, vocabulary: int, width: int) -> None:
        super().__init__()
        self.tokens = nn.Embedding(vocabulary, width)
        self.lstm = nn.LSTM(width, width, 2, batch_first=True)
        self.out = nn.Linear(width, vocabulary, bias=False)

    def forward(self, tokens: Tensor) -> Tensor:
        logits: Tensor = self.out(self.lstm(self.tokens(tokens))[0])
        return logits


def make_model(kind: str, vocabulary: int, width: int, context: int) -> nn.Module:
    """Return the Transformer or the LSTM."""
    if kind == "LSTM":
        return Lstm(vocabulary, width)
    sizes = {"d_model": width, "layers": 2, "d_ff": 2 * width, "context": context}
    return token_model(vocabulary, causal=True, positions="rotary", **sizes)[0]


def distant_value_task(batch: int, length: int) -> tuple[Tensor, Tensor]:
    """Return a value (0 … 7), `length` noise tokens (8 … 15) and a question (16), whose answer is the value."""
    value, noise = torch.randint(8, (batch, 1)), torch.randint(8, 16, (batch, length))
    return torch.cat([value, noise, torch.full((batch, 1), 16)], 1), _only_last(value, length + 2)


def recall_task(batch: int, length: int) -> tuple[Tensor, Tensor]:
    """Return pairs of distinct keys (0 … 7) and values (8 … 15), then one of the keys, whose answer is its value."""
    pairs = min(length // 2, 8)
    keys, contents = torch.rand(batch, 8).argsort(1)[:, :pairs], torch.randint(8, 16, (batch, pairs))
    position = torch.randint(pairs, (batch, 1))
    tokens = torch.stack([keys, contents], 2).flatten(1)
    answer = contents.gather(1, position)
    return torch.cat([tokens, keys.gather(1, position)], 1), _only_last(answer, 2 * pairs + 1)


def parity_task(batch: int, length: int) -> tuple[Tensor, Tensor]:
    """Return random bits and, at each position, the parity of the bits so far."""
    bits = torch.randint(2, (batch, length))
    return bits, bits.cumsum(1) % 2


TASKS = {"recall": recall_task, "parity": parity_task}


def _only_last(answer: Tensor, length: int) -> Tensor:
    """Return targets (B, length) with the answer at the last position and −100 (ignored by the loss) at all others."""
    return F.pad(answer, (length - 1, 0), value=-100)


@lru_cache(maxsize=2)
def grammar_text(train: int, test: int) -> tuple[Tensor, Tensor, int]:
    """Return the character ids of a small grammar's English sentences, for training and test, and their number."""
    pairs = phrase_pairs(train=train, valid=1, test=test)
    texts = ["\n".join(source for source, _ in split) for split in (pairs.train, pairs.test)]
    ids = {character: n for n, character in enumerate(sorted(set("".join(texts))))}
    train_ids, test_ids = (torch.tensor([ids[character] for character in text]) for text in texts)
    return train_ids, test_ids, len(ids)


def random_excerpts(ids: Tensor, batch: int, length: int) -> tuple[Tensor, Tensor]:
    """Return random excerpts (B, length) of a text and the next character at each position."""
    starts = torch.randint(max(len(ids) - length - 1, 1), (batch, 1))
    excerpts = ids[(starts + torch.arange(length + 1)).clamp_max(len(ids) - 1)]
    return excerpts[:, :-1], excerpts[:, 1:]


def parts(settings: Settings) -> list[Settings]:
    result: list[Settings] = [{"row": PARALLEL, "threads": count} for count in settings["threads"]]
    for model in MODELS:
        result += [{"row": DISTANCE, "distance": distance, "model": model} for distance in settings["distances"]]
        result += [{"row": EXPRESSIVE, "task": task, "model": model} for task in TASKS]
        result += [{"row": DATA, "amount": amount, "model": model} for amount in settings["amounts"]]
    return result


def measure(settings: Settings, part: Settings, seed: int) -> list[Row]:
    if part["row"] == PARALLEL:
        return _measure_throughput(settings, part["threads"])
    if part["row"] == DATA:
        return _measure_language(settings, part)
    if part["row"] == DISTANCE:
        make, length = distant_value_task, part["distance"]
    else:
        make, length = TASKS[part["task"]], settings["bits"] if part["task"] == "parity" else 16
    test, targets = make(settings["test"], length)
    model = make_model(part["model"], VOCABULARY, settings["width"], test.shape[1])

    def loss() -> Tensor:
        tokens, next_targets = make(settings["batch"], length)
        return token_loss(model(tokens), next_targets)

    evaluations = _fit(model, loss, lambda: share_correct(model(test), targets), settings, settings["steps"])
    count = parameter_count(make_model(part["model"], VOCABULARY, settings["width"], 8))
    return [{**_row(one, settings["steps"]), "accuracy": one.score, "parameters": count} for one in evaluations]


def _fit(
    model: nn.Module, loss: Callable[[], Tensor], score: Callable[[], float], settings: Settings, steps: int
) -> list[Evaluation]:
    return fit(model, loss, steps, score=score, evaluations=settings["marks"], learning_rate=settings["rate"])


def _row(evaluation: Evaluation, steps: int) -> Row:
    step, seconds, loss, _ = evaluation
    return {"step": step, "seconds": seconds, "loss": loss, "end": step == steps}


def _measure_throughput(settings: Settings, threads: int) -> list[Row]:
    """Measure tokens per second, forward and in training, with the same number of tokens at every length."""
    rows: list[Row] = []
    with torch_threads(threads):
        for length in settings["lengths"]:
            batch = max(settings["tokens"] // length, 1)
            tokens = torch.randint(VOCABULARY, (batch, length))
            models = {kind: make_model(kind, VOCABULARY, settings["timed_width"], length) for kind in MODELS}

            def forward(model: nn.Module, tokens: Tensor = tokens) -> object:
                with torch.no_grad():
                    return model(tokens)

            def training(model: nn.Module, tokens: Tensor = tokens) -> object:
                return model(tokens).logsumexp(-1).mean().backward()

            for when, run in (("forward", forward), ("training", training)):
                calls = {kind: lambda model=model, run=run: run(model) for kind, model in models.items()}
                times = best_times(calls, settings["repeats"])
                rows += [
                    {"length": length, "when": when, "model": kind, "rate": batch * length / times[kind]}
                    for kind in MODELS
                ]
    return rows


def _measure_language(settings: Settings, part: Settings) -> list[Row]:
    train, test, characters = grammar_text(max(settings["amounts"]), settings["held"])
    train = train[: int(len(train) * part["amount"] / max(settings["amounts"]))]
    length = settings["context"]
    model = make_model(part["model"], characters, settings["width"], length)
    inputs = test[: len(test) // length * length - 1]
    tokens, targets = (F.pad(ids, (0, 1)).unflatten(0, (-1, length)) for ids in (inputs, test[1 : len(inputs) + 1]))

    def loss() -> Tensor:
        excerpts, next_characters = random_excerpts(train, settings["batch"], length)
        return token_loss(model(excerpts), next_characters)

    steps = settings["language_steps"]
    evaluations = _fit(model, loss, lambda: float(token_loss(model(tokens), targets)), settings, steps)
    count = parameter_count(model)
    return [{**_row(one, steps), "held_out": one.score, "parameters": count} for one in evaluations]


# Each function below judges one row of the table: whether it is true ("yes", "partly", "no"), and its figures.


def _judge_parallel(rows: list[Row]) -> tuple[str, list[Figure]]:
    """Is the Transformer's throughput in training higher at every length and number of threads?"""
    own = where(rows, row=PARALLEL, when="training")
    shown, faster = [], []
    for threads in values(own, "threads"):
        for length in values(own, "length"):
            a, b = (by_seed(own, "rate", model=kind, length=length, threads=threads) for kind in MODELS)
            ratio = interval([a[seed] / b[seed] for seed in a])
            shown.append(figure(text("figures.throughput", length=length, threads=threads), ratio, "×"))
            faster.append(ratio.low > 1)
    return _answer(faster), shown


def _judge_distance(rows: list[Row]) -> tuple[str, list[Figure]]:
    """Is the Transformer more accurate at the longest distance, after equal updates and after equal time?"""
    own = where(rows, row=DISTANCE)
    distance = max(values(own, "distance"))
    own = where(own, distance=distance)
    updates = difference(where(own, end=True), "accuracy", {"model": MODELS[0]}, {"model": MODELS[1]})
    time = interval([_difference_at_equal_time(where(own, seed=seed)) for seed in values(own, "seed")])
    shown = [
        figure(text("figures.distance_updates", distance=distance), updates, "%"),
        figure(text("figures.distance_time", distance=distance), time, "%"),
    ]
    return _answer([updates.above, time.above]), shown


def _difference_at_equal_time(rows: list[Row]) -> float:
    """Return the difference between the models' evaluations at the time when the first of them finished training."""
    runs = [where(rows, model=kind) for kind in MODELS]
    limit = min(max(row["seconds"] for row in run) for run in runs)
    last = [
        max((row for row in run if row["seconds"] <= limit), key=lambda row: row["step"], default=run[0])
        for run in runs
    ]
    return float(last[0]["accuracy"] - last[1]["accuracy"])


def _judge_speed(rows: list[Row]) -> tuple[str, list[Figure]]:
    """Does the Transformer need less time on the largest text to a loss that both models reach?"""
    own = where(rows, row=DATA)
    own = where(own, amount=max(values(own, "amount")))
    ratios = []
    for seed in values(own, "seed"):
        runs = [where(own, seed=seed, model=kind) for kind in MODELS]
        goal = max(min(row["held_out"] for row in run) for run in runs)
        times = [min(row["seconds"] for row in run if row["held_out"] <= goal) for run in runs]
        ratios.append(times[1] / times[0])
    ratio = interval(ratios)
    return _answer([ratio.low > 1]), [figure(text("figures.time_to_loss"), ratio, "×")]


def _judge_expressiveness(rows: list[Row]) -> tuple[str, list[Figure]]:
    """Is the Transformer more accurate on both tasks, with equal numbers of parameters and updates?"""
    own = where(rows, row=EXPRESSIVE, end=True)
    better = [
        difference(own, "accuracy", {"task": task, "model": MODELS[0]}, {"task": task, "model": MODELS[1]}).above
        for task in TASKS
    ]
    return _answer(better), figures(own, "accuracy", text("figures.accuracy"), "%", task=TASKS, model=MODELS)


def _judge_data(rows: list[Row]) -> tuple[str, list[Figure]]:
    """Is the best held-out loss lower for the LSTM with little text, and for the Transformer with much text?"""
    own = where(rows, row=DATA)
    gaps: dict[int, Interval] = {}
    for amount in sorted(values(own, "amount")):
        differences = []
        for seed in values(own, "seed"):
            runs = [where(own, seed=seed, model=kind, amount=amount) for kind in MODELS]
            transformer, lstm = (min(row["held_out"] for row in run) for run in runs)
            differences.append(lstm - transformer)
        gaps[amount] = interval(differences)
    shown = [figure(text("figures.loss_difference", amount=amount), gap) for amount, gap in gaps.items()]
    intervals = list(gaps.values())
    return _answer([intervals[0].below, intervals[-1].above]), shown


def _answer(conditions: list[bool]) -> str:
    return "yes" if all(conditions) else "partly" if any(conditions) else "no"


TABLE = {
    PARALLEL: _judge_parallel,
    DISTANCE: _judge_distance,
    SPEED: _judge_speed,
    EXPRESSIVE: _judge_expressiveness,
    DATA: _judge_data,
}


def judge(rows: list[Row]) -> Conclusion:
    results = {name: judge_row(rows) for name, judge_row in TABLE.items()}
    answers = [answer for answer, _ in results.values()]
    findings = [
        text("sentences.row", row=label(name), answer=text(f"sentences.{answer}"))
        for name, (answer, _) in results.items()
    ]
    sentence = text("sentences.table", rows=enumerate_in_words(findings, "; ", "；"))
    shown = tuple(one for _, own in results.values() for one in own)
    if set(answers) == {"yes"}:
        return Conclusion("holds", sentence, shown)
    return Conclusion("does not hold here" if set(answers) == {"no"} else "holds when", sentence, shown)


def draw(rows: list[Row]) -> Chart:
    rates = [
        {**row, "name": f"{row['model']}, {row['threads']} thr."} for row in where(rows, row=PARALLEL, when="training")
    ]
    data = [{**row, "name": f"{row['model']}, {row['amount']}"} for row in where(rows, row=DATA)]
    return Chart(text("chart.title"), (
        lines(rates, "length", "rate", "name", log="xy", title=text("chart.rate"), x_label=text("chart.tokens")),
        lines(where(rows, row=DISTANCE, end=True), "distance", "accuracy", "model", log="x", percent=True,
              title=text("chart.distance"), x_label=text("chart.noise")),
        bars(where(rows, row=EXPRESSIVE, end=True), "task", "accuracy", "model", percent=True,
             title=text("chart.accuracy")),
        lines(data, "step", "held_out", "name", title=text("chart.loss"), x_label=text("chart.updates")),
    ))  # fmt: skip


CLAIM = DEFINITION.claim(parts, measure, judge, draw)
