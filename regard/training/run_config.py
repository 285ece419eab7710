"""What a run is: its task, data, model and settings. Written to run.json, and enough to build all of it again."""

import hashlib
from dataclasses import asdict, dataclass, field, fields, replace
from typing import Any

import torch
from torch import nn

from regard import models
from regard.suggestions import suggest
from regard.training.data.datasets import load_pairs
from regard.training.data.examples import Examples, MaskedExamples, Objective, PairExamples, TextExamples
from regard.training.data.pairs import Pair
from regard.training.data.text import PYTHON, named_text
from regard.training.settings import Settings
from regard.training.tokenizer import END, KINDS, Tokenizer

TASKS = ("translate", "language", "masked")
MODELS = ("transformer", "lstm", "lstm-attention")

# What is trained when nothing else is asked for. Found by trying, on two cores; bench/training.py measures them.
SMALL = {"norm": "pre", "activation": "relu", "heads": 4, "layers": 2}
SIZES: dict[str, dict[str, Any]] = {
    "phrases": {**SMALL, "d_model": 64, "dropout": 0.05},
    "dates": {**SMALL, "d_model": 64, "dropout": 0.0},
    "translate": {**SMALL, "d_model": 128, "dropout": 0.1, "positions": "rotary"},
    "language": {"norm": "pre", "activation": "gelu", "d_model": 128, "heads": 4, "layers": 4, "context": 128},
    "masked": {"norm": "pre", "activation": "gelu", "d_model": 128, "heads": 4, "layers": 4, "context": 128},
    "lstm": {"d_model": 128, "layers": 1, "dropout": 0.0},
    "lstm-attention": {"d_model": 128, "layers": 1, "dropout": 0.0},
}  # fmt: skip
# Steps of the smallest models are so short that a second thread costs more than it brings.
SETTINGS: dict[str, dict[str, Any]] = {
    "phrases": {"steps": 1500, "batch": 64, "learning_rate": 3e-3, "threads": 1},
    "dates": {"steps": 2400, "batch": 64, "learning_rate": 3e-3, "threads": 1},
    "translate": {"steps": 4000, "batch": 64, "learning_rate": 1e-3},
    "language": {"steps": 1000, "batch": 8, "learning_rate": 2e-3, "weight_decay": 0.1},
    "masked": {"steps": 1500, "batch": 8, "learning_rate": 2e-3, "weight_decay": 0.1},
}


@dataclass(frozen=True)
class RunConfig:
    """All that makes a run what it is.

    task        "translate", "language" or "masked"
    data        "phrases", "dates" or a file of pairs; "python" or files of text
    model       "transformer", "lstm" or "lstm-attention"
    sizes       what the model's configuration says otherwise than its defaults
    tokenizer   "characters", "words" or "bpe", and of how many tokens at most
    digest      of the data, to see whether it is still the same when a run is resumed
    """

    task: str
    data: tuple[str, ...]
    model: str = "transformer"
    sizes: dict[str, Any] = field(default_factory=dict)
    settings: Settings = field(default_factory=Settings)
    tokenizer: str = "bpe"
    vocabulary: int = 1024
    digest: str = ""

    def to_json(self) -> dict[str, Any]:
        """As it stands in run.json."""
        return asdict(self)

    @classmethod
    def from_json(cls, read: dict[str, Any]) -> "RunConfig":
        """What `to_json` gave."""
        return cls(**{**read, "data": tuple(read["data"]), "settings": Settings(**read["settings"])})


@dataclass(frozen=True)
class Prepared:
    """A plan with everything it needs in memory."""

    plan: RunConfig
    tokenizer: Tokenizer
    model: nn.Module
    objective: nn.Module
    learn: Examples
    watch: Examples
    test: tuple[Pair, ...] = ()
    show: tuple[str, ...] = ()


def make_run_config(
    task: str,
    data: tuple[str, ...] = (),
    *,
    model: str = "transformer",
    tokenizer: str | None = None,
    vocabulary: int = 1024,
    sizes: dict[str, Any] | None = None,
    settings: dict[str, Any] | None = None,
) -> RunConfig:
    """A plan with the defaults of its task and data, and what was asked for otherwise."""
    for what, given, known in (("task", task, TASKS), ("model", model, MODELS)):
        if given not in known:
            raise ValueError(f"no {what} {given!r}: it is {suggest(given, known)}")
    if tokenizer not in (None, *KINDS):
        raise ValueError(f"no tokenizer {tokenizer!r}: it is {suggest(str(tokenizer), KINDS)}")
    if model != "transformer" and task != "translate":
        raise ValueError(f"the model {model} only translates; {task} takes a transformer")
    if task == "translate" and len(data) > 1:
        raise ValueError(f"translate takes one data set, got {', '.join(data)}; join the files into one")
    data = data or (("phrases",) if task == "translate" else (PYTHON,))
    kind = data[0] if data[0] in SIZES else task
    usual = SIZES[kind] if model == "transformer" else SIZES[model]
    chosen = {**SETTINGS[kind], **(settings or {})}
    if chosen.get("minutes") and "steps" not in (settings or {}):
        chosen["steps"] = None
    plan = RunConfig(task, data, model, {**usual, **(sizes or {})}, Settings(**chosen), "bpe", vocabulary)
    configured(plan, vocabulary, {})  # a mistake in the sizes is said before the data is read
    if task == "translate":
        return replace(plan, tokenizer=tokenizer or {"phrases": "words", "dates": "characters"}.get(data[0], "bpe"))
    return replace(plan, tokenizer=tokenizer or "bpe")


def configured(plan: RunConfig, vocabulary: int, sizes: dict[str, Any]) -> Any:
    """The configuration of the plan's model: the sizes given here, unless the plan says otherwise."""
    sizes = {**sizes, **plan.sizes}
    if plan.model != "transformer":
        if odd := sorted(set(sizes) - {field.name for field in fields(models.RecurrentConfig)}):
            raise ValueError(f"the model {plan.model} has no {', '.join(odd)}; leave it out, or take a transformer")
        return models.RecurrentConfig(vocabulary, vocabulary, attention=plan.model == "lstm-attention", **sizes)
    if plan.task == "translate":
        return models.Seq2SeqConfig(vocabulary, vocabulary, **sizes)
    return (models.DecoderConfig if plan.task == "language" else models.EncoderConfig)(vocabulary=vocabulary, **sizes)


def prepare(plan: RunConfig, tokenizer: Tokenizer | None = None) -> Prepared:
    """Read the data, learn the tokenizer (unless there is one), make the model with its first weights."""
    return _translate(plan, tokenizer) if plan.task == "translate" else _text(plan, tokenizer)


def _translate(plan: RunConfig, tokenizer: Tokenizer | None) -> Prepared:
    pairs = load_pairs(plan.data[0])
    plan = _same(plan, repr((pairs.train, pairs.valid, pairs.test)))
    if tokenizer is None:
        texts = (text for pair in pairs.train for text in pair)
        tokenizer = Tokenizer.train(texts, plan.tokenizer, size=plan.vocabulary, lexicon=pairs.lexicon)
    learn, watch = encoded(pairs.train, tokenizer), encoded(pairs.valid, tokenizer)
    longest = max(len(row) for rows in (learn.sources, learn.targets) for row in rows)
    config = configured(plan, tokenizer.size, {"context": -(-(longest + 9) // 16) * 16})
    if longest + 1 > config.context:
        raise ValueError(
            f"the longest text has {longest} tokens, which takes a context of {longest + 1}, not {config.context}"
        )
    torch.manual_seed(plan.settings.seed)
    model: nn.Module = (models.Seq2Seq if plan.model == "transformer" else models.Recurrent)(config)
    return Prepared(plan, tokenizer, model, Objective(model), learn, watch, pairs.test, pairs.show)


def encoded(pairs: tuple[Pair, ...], tokenizer: Tokenizer) -> PairExamples:
    """Pairs as tokens."""
    return PairExamples(tokenizer.encode_all([a for a, _ in pairs]), tokenizer.encode_all([b for _, b in pairs]))


def _text(plan: RunConfig, tokenizer: Tokenizer | None) -> Prepared:
    text = named_text(plan.data)
    plan = _same(plan, repr((text.train, text.valid)))
    if tokenizer is None:
        tokenizer = Tokenizer.train(text.train, plan.tokenizer, size=plan.vocabulary)
    learn, watch = ([i for ids in tokenizer.encode_all(part) for i in (*ids, END)] for part in (text.train, text.valid))
    config = configured(plan, tokenizer.size, {})
    context = config.context
    torch.manual_seed(plan.settings.seed)
    if plan.task == "language":
        decoder = models.Decoder(config)
        examples = (TextExamples(learn, context), TextExamples(watch, context))
        return Prepared(plan, tokenizer, decoder, Objective(decoder), *examples, show=('The "for" statement',))
    encoder = models.Encoder(config)
    hidden = (MaskedExamples(learn, context, tokenizer.size), MaskedExamples(watch, context, tokenizer.size))
    return Prepared(
        plan,
        tokenizer,
        encoder,
        Objective(encoder),
        *hidden,
        show=('The "for" <mask> is used to iterate over the elements of a <mask>',),
    )


def _same(plan: RunConfig, content: str) -> RunConfig:
    digest = hashlib.sha256(content.encode()).hexdigest()[:16]
    if plan.digest not in ("", digest):
        raise ValueError(
            f"the data {', '.join(plan.data)} is not what the run began with: it was changed, or made by another "
            "version of babel or Python; put it back to resume, or start a new run"
        )
    return replace(plan, digest=digest)
