"""Transformer against LSTM: the comparison table of the document, row by row.

Both models have embeddings, two layers with 8·D² weights each, and an output layer. A Transformer layer has attention
(4·D²) and a feed-forward network of inner width 2·D (4·D²); an LSTM layer has four gates of 2·D² each.
"""

from collections.abc import Callable
from functools import lru_cache
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from regard.claims.charts.chart import Chart
from regard.claims.charts.from_rows import bars, lines
from regard.claims.charts.labels import label
from regard.claims.claim import Conclusion, Row, Settings
from regard.claims.definition import Definition
from regard.claims.statistics.confidence_intervals import power_law_exponent
from regard.claims.statistics.rows import by_seed, differences, figures, per_seed, ratios, values, where
from regard.claims.statistics.statements import Reference, Statement, conclude
from regard.claims.statistics.timing import best_times
from regard.claims.tasks.fit import Evaluation, fit, parameter_count, share_correct, token_loss
from regard.claims.tasks.token_models import token_model
from regard.training import phrase_pairs

MODELS = ("Transformer", "LSTM")
STEPS, PARALLEL, DISTANCE = "sequential steps", "parallel computation", "long distance"
EXPRESSIVE, DATA = "expressiveness", "data"
GAIN, RATIO, LOSS = 0.05, 1.1, 0.05  # smallest differences of accuracy, time and loss that count
LEARNT = 0.9  # accuracy of the reference arms
VOCABULARY = 20  # vocabulary size of the synthetic tasks
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
    """Return `length` − 4 assignments and four questions, whose answers are the latest values of the four keys.

    Token 4·key + value (0 … 15) assigns one of four values to one of four keys, token 16 + key asks for its value.
    """
    tokens, questions = torch.randint(16, (batch, length - 4)), torch.rand(batch, 4).argsort(1)
    assigns = tokens[:, None] // 4 == torch.arange(4)[:, None]  # (batch, key, assignment)
    latest = torch.where(assigns, torch.arange(length - 4), -1).amax(-1)
    contents = torch.where(latest >= 0, tokens.gather(1, latest.clamp_min(0)) % 4, -100)
    return torch.cat([tokens, 16 + questions], 1), F.pad(contents.gather(1, questions), (length - 4, 0), value=-100)


def delay_task(batch: int, length: int) -> tuple[Tensor, Tensor]:
    """Return random tokens (0 … 15) and, at each position, the token four positions before it."""
    tokens = torch.randint(16, (batch, length))
    return tokens, F.pad(tokens[:, :-4], (4, 0), value=-100)


TASKS = {"recall": recall_task, "delay": delay_task}


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
    result: list[Settings] = [{"row": STEPS}]
    result += [{"row": PARALLEL, "threads": count} for count in settings["threads"]]
    for model in MODELS:
        result += [{"row": DISTANCE, "distance": distance, "model": model} for distance in settings["distances"]]
        result += [{"row": EXPRESSIVE, "task": task, "model": model} for task in TASKS]
        result += [{"row": DATA, "amount": amount, "model": model} for amount in settings["amounts"]]
    return result


def measure(settings: Settings, part: Settings, seed: int) -> list[Row]:
    if part["row"] == STEPS:
        return _count_steps(settings)
    if part["row"] == PARALLEL:
        return _measure_throughput(settings, part["threads"])
    if part["row"] == DATA:
        return _measure_language(settings, part)
    if part["row"] == DISTANCE:
        make, length, steps = distant_value_task, part["distance"], settings["steps"]
    else:
        make, length, steps = TASKS[part["task"]], 16, settings["expressive_steps"]
    test, targets = make(settings["test"], length)
    model = make_model(part["model"], VOCABULARY, settings["width"], test.shape[1])

    def loss() -> Tensor:
        tokens, next_targets = make(settings["batch"], length)
        return token_loss(model(tokens), next_targets)

    evaluations = _fit(model, loss, lambda: share_correct(model(test), targets), settings, steps)
    count = parameter_count(make_model(part["model"], VOCABULARY, settings["width"], 8))
    return [{**_row(one, steps), "accuracy": one.score, "parameters": count} for one in evaluations]


def _fit(
    model: nn.Module, loss: Callable[[], Tensor], score: Callable[[], float], settings: Settings, steps: int
) -> list[Evaluation]:
    return fit(model, loss, steps, score=score, evaluations=settings["marks"], learning_rate=settings["rate"])


def _row(evaluation: Evaluation, steps: int) -> Row:
    step, seconds, loss, _ = evaluation
    return {"step": step, "seconds": seconds, "loss": loss, "end": step == steps}


def longest_chain(output: Tensor) -> int:
    """Return the number of operations on the longest path of the autograd graph: steps that must follow each other.

    >>> x = torch.ones(2, requires_grad=True)
    >>> longest_chain((x.exp() + x.exp().exp()).sum())
    5
    """
    order: list[Any] = []
    seen: set[Any] = set()
    stack: list[tuple[Any, bool]] = [(output.grad_fn, False)]
    while stack:
        node, done = stack.pop()
        if done:
            order.append(node)
        elif node is not None and node not in seen:
            seen.add(node)
            stack.append((node, True))
            stack += [(inner, False) for inner, _ in node.next_functions]
    depth: dict[Any, int] = {None: 0}
    for node in order:  # inputs come before the operations that use them
        depth[node] = 1 + max((depth[inner] for inner, _ in node.next_functions), default=0)
    return depth[output.grad_fn]


def _count_steps(settings: Settings) -> list[Row]:
    """Count the sequential steps of both models for one sequence of each length."""
    rows: list[Row] = []
    for length in settings["lengths"]:
        tokens = torch.randint(VOCABULARY, (1, length))
        for kind in MODELS:
            output = make_model(kind, VOCABULARY, 16, length).double()(tokens)  # in float32 torch fuses the LSTM
            rows.append({"length": length, "model": kind, "steps": longest_chain(output)})
    return rows


def _measure_throughput(settings: Settings, threads: int) -> list[Row]:
    """Measure tokens per second, forward and in training, with the same number of tokens at every length."""
    rows: list[Row] = []
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
            times = best_times(calls, settings["repeats"], threads=threads)
            rows += [
                {"length": length, "when": when, "model": kind, "rate": batch * length / times[kind]} for kind in MODELS
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
    goal = settings["goal"]
    return [{**_row(one, steps), "held_out": one.score, "goal": goal, "parameters": count} for one in evaluations]


def judge(rows: list[Row]) -> Conclusion:
    statements = [*_parallel(rows), *_distance(rows), *_speed(rows), *_expressiveness(rows), *_data(rows)]
    distances, tasks = where(rows, row=DISTANCE, end=True), where(rows, row=EXPRESSIVE, end=True)
    farthest = max(values(distances, "distance"))
    references = [
        Reference(text("references.distance", distance=farthest),
                  per_seed(distances, "accuracy", distance=farthest, model=MODELS[0]), LEARNT),
        *(Reference(text("references.task", task=label(task)), _better_model(tasks, task), LEARNT) for task in TASKS),
    ]  # fmt: skip
    shown = figures(tasks, "accuracy", text("figures.accuracy"), "%", task=TASKS, model=MODELS)
    return conclude(statements, shown, references=references)


def _better_model(rows: list[Row], task: str) -> list[float]:
    """Return the accuracies of the model that is better on a task."""
    return max((per_seed(rows, "accuracy", task=task, model=kind) for kind in MODELS), key=sum)


# Each function below returns the statements of one row of the table.


def _parallel(rows: list[Row]) -> list[Statement]:
    """Sequential steps that grow with the length, and throughput in training at the greatest length."""
    steps, own = where(rows, row=STEPS), where(rows, row=PARALLEL, when="training")
    lengths = sorted(values(steps, "length"))
    statements = []
    for kind, threshold in zip(MODELS, (0.2, 0.8), strict=True):
        counts = [by_seed(steps, "steps", model=kind, length=length) for length in lengths]
        exponents = [power_law_exponent(lengths, [each[seed] for each in counts]) for seed in counts[0]]
        name = text(f"statements.steps_{kind.lower()}")
        statements.append(Statement(name, exponents, threshold, below=kind == MODELS[0]))
    length = max(values(own, "length"))
    for threads in values(own, "threads"):
        same = {"length": length, "threads": threads}
        rate = ratios(own, "rate", {"model": MODELS[0], **same}, {"model": MODELS[1], **same})
        statements.append(Statement(text("statements.throughput", **same), rate, RATIO, "ratio"))
    return statements


def _distance(rows: list[Row]) -> list[Statement]:
    """Accuracy at the greatest distance, after equal updates and after equal CPU time."""
    own = where(rows, row=DISTANCE)
    distance = max(values(own, "distance"))
    own = where(own, distance=distance)
    updates = differences(where(own, end=True), "accuracy", {"model": MODELS[0]}, {"model": MODELS[1]})
    time = [_difference_at_equal_time(where(own, seed=seed)) for seed in values(own, "seed")]
    return [
        Statement(text("statements.distance_updates", distance=distance), updates, GAIN, "difference"),
        Statement(text("statements.distance_time", distance=distance), time, GAIN, "difference"),
    ]


def _difference_at_equal_time(rows: list[Row]) -> float:
    """Return the difference between the models' evaluations at the time when the first of them finished training."""
    runs = [where(rows, model=kind) for kind in MODELS]
    limit = min(max(row["seconds"] for row in run) for run in runs)
    last = [
        max((row for row in run if row["seconds"] <= limit), key=lambda row: row["step"], default=run[0])
        for run in runs
    ]
    return float(last[0]["accuracy"] - last[1]["accuracy"])


def _speed(rows: list[Row]) -> list[Statement]:
    """CPU time to a fixed held-out loss on the largest text, for the seeds in which both models reach it."""
    own = where(rows, row=DATA)
    own = where(own, amount=max(values(own, "amount")))
    times = []
    for seed in values(own, "seed"):
        runs = [where(own, seed=seed, model=kind) for kind in MODELS]
        reached = [[row["seconds"] for row in run if row["held_out"] <= row["goal"]] for run in runs]
        if all(reached):
            times.append(min(reached[1]) / min(reached[0]))
    goal = own[0]["goal"]
    return [Statement(text("statements.time_to_loss", goal=goal), times, RATIO, "ratio")]


def _expressiveness(rows: list[Row]) -> list[Statement]:
    """Accuracy on each task, with equal numbers of parameters and updates."""
    own = where(rows, row=EXPRESSIVE, end=True)
    return [
        Statement(
            text("statements.task", task=label(task)),
            differences(own, "accuracy", {"task": task, "model": MODELS[0]}, {"task": task, "model": MODELS[1]}),
            GAIN, "difference",
        )
        for task in TASKS
    ]  # fmt: skip


def _data(rows: list[Row]) -> list[Statement]:
    """The best held-out loss: lower for the LSTM with little text, and for the Transformer with much text."""
    own = where(rows, row=DATA)
    amounts = sorted(values(own, "amount"))
    statements = []
    for amount, better, worse in ((amounts[0], "LSTM", "Transformer"), (amounts[-1], "Transformer", "LSTM")):
        gains = []
        for seed in values(own, "seed"):
            best = {
                kind: min(row["held_out"] for row in where(own, seed=seed, model=kind, amount=amount))
                for kind in MODELS
            }
            gains.append(best[worse] - best[better])
        statements.append(Statement(text(f"statements.data_{better.lower()}", amount=amount), gains, LOSS))
    return statements


def draw(rows: list[Row]) -> Chart:
    rates = [
        {**row, "name": f"{row['model']}, {row['threads']} thr."} for row in where(rows, row=PARALLEL, when="training")
    ]
    data = [{**row, "name": f"{row['model']}, {row['amount']}"} for row in where(rows, row=DATA)]
    steps = where(rows, row=STEPS)
    return Chart(text("chart.title"), (
        lines(steps, "length", "steps", "model", log="xy", title=text("chart.steps"), x_label=text("chart.tokens")),
        lines(rates, "length", "rate", "name", log="xy", title=text("chart.rate"), x_label=text("chart.tokens")),
        lines(where(rows, row=DISTANCE, end=True), "distance", "accuracy", "model", log="x", percent=True,
              title=text("chart.distance"), x_label=text("chart.noise")),
        bars(where(rows, row=EXPRESSIVE, end=True), "task", "accuracy", "model", percent=True,
             title=text("chart.accuracy")),
        lines(data, "step", "held_out", "name", title=text("chart.loss"), x_label=text("chart.updates")),
    ))  # fmt: skip


CLAIM = DEFINITION.claim(parts, measure, judge, draw)
