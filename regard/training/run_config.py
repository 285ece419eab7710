"""Configuration of a run (task, data, model, settings), and the model and data built from it."""

import hashlib
import os
from collections.abc import Callable
from dataclasses import asdict, dataclass, field, fields, replace
from pathlib import Path
from typing import Any

import torch
from torch import nn

from regard import models
from regard.files import dataclass_from_json
from regard.suggestions import suggest
from regard.training.data.dates import date_pairs
from regard.training.data.examples import Examples, MaskedExamples, PairExamples, TextExamples
from regard.training.data.pairs import Pair, Pairs, name_lines, read_tsv
from regard.training.data.phrase_grammar import phrase_pairs
from regard.training.data.repeats import PER_EPOCH, REPEATS, VALIDATION, RepeatExamples, syllables
from regard.training.data.text import PYTHON, load_text, masked_sentences
from regard.training.settings import Settings
from regard.training.tokenizer import END, KINDS, Tokenizer

TASKS = ("translate", "language", "masked")
PAIRS = {"phrases": phrase_pairs, "dates": date_pairs}
MODELS = ("transformer", "lstm", "lstm-attention")
TOKENIZERS = {"phrases": "words", "dates": "characters", REPEATS: "words"}  # by data set; all others use bpe
Check = Callable[[Any, Any], None]
MOST_TOKENS = 256  # of a source or translation, unless the context is given; longer pairs are skipped

# Defaults by data set, task or model, tuned on two cores; bench/training.py measures the results.
SMALL = {"norm": "pre", "activation": "relu", "heads": 4, "layers": 2}
SIZES: dict[str, dict[str, Any]] = {
    "phrases": {**SMALL, "d_model": 64, "dropout": 0.05},
    "dates": {**SMALL, "d_model": 64, "dropout": 0.0},
    "translate": {**SMALL, "d_model": 128, "dropout": 0.1, "positions": "rotary"},
    "language": {"norm": "pre", "activation": "gelu", "d_model": 128, "heads": 4, "layers": 4, "context": 128},
    "masked": {"norm": "pre", "activation": "gelu", "d_model": 128, "heads": 4, "layers": 4, "context": 128,
               "positions": "rotary"},
    # With ALiBi some heads prefer near tokens from the start, and induction heads form between steps 200 and 320.
    "repeats": {**SMALL, "activation": "gelu", "d_model": 128, "heads": 8, "dropout": 0.0, "tied": False,
                "context": 512, "positions": "alibi"},
    "lstm": {"d_model": 128, "layers": 1, "dropout": 0.0},
    "lstm-attention": {"d_model": 128, "layers": 1, "dropout": 0.0},
}  # fmt: skip
# Steps of the smallest models are so short that a second thread makes them slower.
SETTINGS: dict[str, dict[str, Any]] = {
    "phrases": {"steps": 1500, "batch": 64, "learning_rate": 3e-3, "threads": 1},
    "dates": {"steps": 2400, "batch": 64, "learning_rate": 3e-3, "threads": 1},
    "translate": {"steps": 4000, "batch": 64, "learning_rate": 1e-3},
    "language": {"steps": 1000, "batch": 8, "learning_rate": 2e-3, "weight_decay": 0.1},
    "repeats": {
        "steps": 400,
        "batch": 4,
        "learning_rate": 3e-3,
        "weight_decay": 0.01,
        "evaluate_every": 20,
        "threads": 1,
    },
    # With AdamW the loss stays near that of the unigram model for thousands of steps. Two threads wait for each other
    # at every operation: where other programs use the cores, too, a step took nine times the CPU time.
    "masked": {
        "steps": 1500,
        "batch": 8,
        "optimizer": "muon",
        "learning_rate": 1e-2,
        "weight_decay": 0.1,
        "threads": 1,
    },
}


@dataclass(frozen=True)
class RunConfig:
    """Complete description of a run; stored in run.json.

    task        "translate", "language" or "masked"
    data        ("phrases",), ("dates",) or a file of pairs; ("python",), ("repeats",) or text files
    model       "transformer", "lstm" or "lstm-attention"
    sizes       fields of the model's configuration that differ from its defaults
    settings    duration, optimizer, learning rate, intervals
    tokenizer   "characters", "words" or "bpe"
    vocabulary  maximum number of tokens of a bpe tokenizer
    digest      hash of the data, checked when the run is resumed
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
        """Return the configuration as JSON values."""
        return asdict(self)

    @classmethod
    def from_json(cls, content: dict[str, Any]) -> "RunConfig":
        """Return the configuration that `to_json` turned into JSON values."""
        settings = dataclass_from_json(Settings, content["settings"])
        config = dataclass_from_json(cls, {**content, "data": tuple(content["data"]), "settings": settings})
        model_config(config, config.vocabulary, {})  # raises an error if a size is wrong
        return config


@dataclass(frozen=True)
class PreparedRun:
    """Configuration, tokenizer, untrained model and encoded examples of a run.

    `test` are the held-out pairs of a translation; `samples` are texts that the trained model translates, continues or
    fills in, with the expected result if there is one; `notes` say which lines of a file are skipped or changed.
    """

    config: RunConfig
    tokenizer: Tokenizer
    model: nn.Module
    training: Examples
    validation: Examples
    test: tuple[Pair, ...] = ()
    samples: tuple[tuple[str, str | None], ...] = ()
    notes: tuple[str, ...] = ()


def make_run_config(
    task: str, data: tuple[str, ...] = (), *, model: str = "transformer", tokenizer: str | None = None,
    vocabulary: int = 1024, sizes: dict[str, Any] | None = None, settings: dict[str, Any] | None = None,
) -> RunConfig:  # fmt: skip
    """Return a configuration; what is not given has the defaults of the task and the data.

    task        "translate", "language" or "masked"
    data        ("phrases",), ("dates",) or a file of pairs; ("python",) or text files
    model       "transformer", "lstm" or "lstm-attention"
    tokenizer   "characters", "words" or "bpe"
    vocabulary  maximum number of tokens of a bpe tokenizer
    sizes       fields of the model's configuration that differ from the defaults
    settings    fields of `Settings` that differ: duration, optimizer, learning rate, intervals

    >>> config = make_run_config("translate", ("dates",), settings={"steps": 500})
    >>> config.tokenizer, config.sizes["d_model"], config.settings.steps
    ('characters', 64, 500)
    """
    for kind, name, choices in (("task", task, TASKS), ("model", model, MODELS), ("tokenizer", tokenizer, KINDS)):
        if name is not None and name not in choices:
            raise ValueError(f"no {kind} {name!r}: give {suggest(name, choices)}")
    if model != "transformer" and task != "translate":
        raise ValueError(f"the model {model} can only be trained to translate; the task {task} needs a transformer")
    if task == "translate" and len(data) > 1:
        raise ValueError(f"translate takes one data set, got {', '.join(data)}; join the files into one")
    if REPEATS in data and (task != "language" or len(data) > 1):
        raise ValueError(f"the data set {REPEATS} is for the task language alone, got {task} with {', '.join(data)}")
    data = data or (("phrases",) if task == "translate" else (PYTHON,))
    defaults = data[0] if data[0] in SIZES else task
    all_sizes = {**SIZES[defaults if model == "transformer" else model], **(sizes or {})}
    all_settings = {**SETTINGS[defaults], **(settings or {})}
    if all_settings.get("minutes") and "steps" not in (settings or {}):
        all_settings["steps"] = None
    tokenizer = tokenizer or (TOKENIZERS.get(data[0], "bpe") if task != "masked" else "bpe")
    config = RunConfig(task, data, model, all_sizes, Settings(**all_settings), tokenizer, vocabulary)
    model_config(config, vocabulary, {})  # reports a wrong size before the data are read
    return config


def model_config(config: RunConfig, vocabulary: int, sizes: dict[str, Any]) -> Any:
    """Return the configuration of the model; `sizes` holds values for sizes that `config` leaves out."""
    sizes = {**sizes, **config.sizes}
    if config.model not in MODELS:
        raise ValueError(f"no model {config.model!r}: give {suggest(config.model, MODELS)}")
    if config.model != "transformer":
        if unknown := sorted(set(sizes) - {field.name for field in fields(models.RecurrentConfig)}):
            raise ValueError(f"the model {config.model} has no {', '.join(unknown)}; leave it out or use a transformer")
        return models.RecurrentConfig(vocabulary, vocabulary, attention=config.model == "lstm-attention", **sizes)
    if config.task == "translate":
        return models.Seq2SeqConfig(vocabulary, vocabulary, **sizes)
    return (models.DecoderConfig if config.task == "language" else models.EncoderConfig)(vocabulary=vocabulary, **sizes)


def prepare(
    config: RunConfig, tokenizer: Tokenizer | None = None, check: Check = lambda cls, sizes: None
) -> PreparedRun:
    """Read the data, train the tokenizer (unless one is given) and initialise the model.

    `check` is called with the model's class and configuration before the model is built.
    """
    if config.task == "translate":
        return _prepare_pairs(config, tokenizer, check)
    return (_prepare_repeats if config.data == (REPEATS,) else _prepare_text)(config, tokenizer, check)


def load_pairs(name: str) -> Pairs:
    """Generate the data set "phrases" or "dates", or read the pairs of a file."""
    if name in PAIRS:
        return PAIRS[name]()
    if name.endswith((".tsv", ".txt")) or os.sep in name or Path(name).exists():
        return read_tsv(name)
    raise ValueError(f"no data set {name!r}: give {suggest(name, PAIRS)}, or a file FILE.tsv with one pair per line")


def _prepare_pairs(config: RunConfig, tokenizer: Tokenizer | None, check: Check) -> PreparedRun:
    pairs = load_pairs(config.data[0])
    config = _with_digest(config, repr((pairs.train, pairs.valid, pairs.test)))
    if tokenizer is None:
        texts = (text for pair in pairs.train for text in pair)
        tokenizer = Tokenizer.train(texts, config.tokenizer, size=config.vocabulary, lexicon=pairs.lexicon)
    pairs, longest = _without_long_pairs(pairs, tokenizer, config.sizes.get("context", MOST_TOKENS + 1) - 1)
    training, validation = encode_pairs(pairs.train, tokenizer), encode_pairs(pairs.valid, tokenizer)
    sizes = model_config(config, tokenizer.size, {"context": -(-(longest + 9) // 16) * 16})
    cls = models.Seq2Seq if config.model == "transformer" else models.Recurrent
    check(cls, sizes)
    torch.manual_seed(config.settings.seed)
    model: nn.Module = cls(sizes)
    expected = dict(pairs.test)
    samples = tuple((source, expected.get(source)) for source in pairs.samples)
    return PreparedRun(config, tokenizer, model, training, validation, pairs.test, samples, pairs.notes)


def _without_long_pairs(pairs: Pairs, tokenizer: Tokenizer, most: int) -> tuple[Pairs, int]:
    """Return the pairs with at most `most` tokens on each side, and the number of tokens of the longest of them.

    One long pair would decide the memory and the time of its whole batch.
    """
    everything = pairs.train + pairs.valid + pairs.test
    sources, targets = (map(len, tokenizer.encode_all(texts)) for texts in zip(*everything, strict=True))
    lengths = {pair: max(sides) for pair, *sides in zip(everything, sources, targets, strict=True)}
    too_long = {pair for pair, length in lengths.items() if length > most}
    longest = max(lengths.values())
    if not too_long:
        return pairs, longest
    if len({source for source, _ in lengths.keys() - too_long}) < 3:
        raise ValueError(
            f"almost every pair has more than {most:,} tokens on one side, the longest {longest:,}; give shorter texts "
            f"or a context of up to {longest + 1:,}"
        )
    numbers = sorted(pairs.lines[pair] for pair in too_long & pairs.lines.keys())
    where = name_lines(numbers) if numbers else f"{len(too_long):,} pairs"
    note = f"{where} skipped: more than {most:,} tokens on one side; --context {longest + 1} would keep all"
    kept = replace(pairs.without(too_long), notes=(*pairs.notes, note))
    return kept, max(length for pair, length in lengths.items() if pair not in too_long)


def encode_pairs(pairs: tuple[Pair, ...], tokenizer: Tokenizer) -> PairExamples:
    """Return pairs of texts as pairs of token ids."""
    return PairExamples(tokenizer.encode_all([a for a, _ in pairs]), tokenizer.encode_all([b for _, b in pairs]))


def _prepare_text(config: RunConfig, tokenizer: Tokenizer | None, check: Check) -> PreparedRun:
    text = load_text(config.data)
    config = _with_digest(config, repr((text.train, text.valid)))
    if tokenizer is None:
        tokenizer = Tokenizer.train(text.train, config.tokenizer, size=config.vocabulary)
    parts = [[i for ids in tokenizer.encode_all(texts) for i in (*ids, END)] for texts in (text.train, text.valid)]
    sizes = model_config(config, tokenizer.size, {})
    check(models.Decoder if config.task == "language" else models.Encoder, sizes)
    torch.manual_seed(config.settings.seed)
    if config.task == "language":
        training, validation = (TextExamples(ids, sizes.context) for ids in parts)
        model: nn.Module = models.Decoder(sizes)
        samples: tuple[tuple[str, str | None], ...] = ((" ".join(text.valid[0].split()[:3]), None),)
        if config.data == (PYTHON,):
            samples = (('The "for" statement', None),)
    else:
        starts = tokenizer.word_starts()
        training, validation = (MaskedExamples(ids, sizes.context, starts) for ids in parts)
        model = models.Encoder(sizes)
        samples = tuple(masked_sentences(text.valid, tokenizer, sizes.context))
    return PreparedRun(config, tokenizer, model, training, validation, samples=samples)


def _prepare_repeats(config: RunConfig, tokenizer: Tokenizer | None, check: Check) -> PreparedRun:
    words = syllables()
    config = _with_digest(config, repr(words))
    if tokenizer is None:
        tokenizer = Tokenizer.train(words, config.tokenizer)
    sizes = model_config(config, tokenizer.size, {})
    check(models.Decoder, sizes)
    torch.manual_seed(config.settings.seed)
    training, validation = (RepeatExamples(count, sizes.context, tokenizer.size) for count in (PER_EPOCH, VALIDATION))
    samples = ((" ".join([*words[7:70:7], *words[7:40:7]]), None),)
    return PreparedRun(config, tokenizer, models.Decoder(sizes), training, validation, samples=samples)


def _with_digest(config: RunConfig, content: str) -> RunConfig:
    """Return the configuration with the hash of its data; raise an error if it has the hash of other data."""
    digest = hashlib.sha256(content.encode()).hexdigest()[:16]
    if config.digest not in ("", digest):
        raise ValueError(
            f"the data {', '.join(config.data)} differ from those at the start of the run: they were changed, or "
            "generated by another version of babel or Python; restore them to resume, or start a new run"
        )
    return replace(config, digest=digest)
