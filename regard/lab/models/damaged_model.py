"""A trained translator with one mistake in its attention, for the view Break it.

Every mistake is applied to the shipped model while it runs: `regard.intervene` replaces weights or outputs, positions
are switched off in the embeddings, and padding is added to the source without a mask.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from regard.lab.models.watched_models import LoadedModel, load_model, watch_lock

if TYPE_CHECKING:
    from torch import Tensor

ONE_HEAD = "decoder.layers.1.cross"  # the layer in which the mistake "one head" switches off head ABLATED
ABLATED = 1
PADDING = 6  # tokens of padding that the mistake "padding" adds to the source
RUNS = 128  # damaged runs that are kept

# What each mistake changes: modules whose calls are replaced, and how.
DAMAGES = ("scale", "inverted", "unmasked", "axis", "merge", "positions", "head", "padding")


def translate(text: str, damage: str | None) -> dict[str, Any]:
    """Return what the damaged translator writes, and its attention.

    written         the translation
    tokens          its tokens, <end> included if the model stops by itself
    probabilities   the probability of each of them
    source          tokens of the source, with the padding
    cross, own      cross-attention and self-attention of the last decoder layer, (H, L, S), from the pass that writes
                    the last token
    """
    with watch_lock:
        return _translate(text, damage)


@lru_cache(maxsize=RUNS)
def _translate(text: str, damage: str | None) -> dict[str, Any]:
    import torch

    import regard
    from regard.training.tokenizer import BEGIN, END, PAD

    loaded = load_model("phrases")
    run = loaded.run
    assert run is not None
    tokenizer = run.tokenizer
    ids = tokenizer.encode(text)
    names = tokenizer.tokens(text)
    if damage == "padding":
        ids, names = [*ids, *[PAD] * PADDING], [*names, *["<pad>"] * PADDING]
    source, target = torch.tensor([ids]), [BEGIN]
    probabilities: list[float] = []
    while len(target) < run.context and (len(target) == 1 or target[-1] != END):
        with torch.no_grad(), damaged(loaded, damage), regard.watch(run.model, only="decoder.layers.1") as seen:
            scores: Tensor = run.model(source, torch.tensor([target]))[0, -1].double()
        chances = scores.softmax(-1)
        target.append(int(chances.argmax()))
        probabilities.append(float(chances.max()))
    weights = {call.name.rpartition(".")[2]: call.weights(batch=0) for call in seen.calls}
    written = target[1:-1] if target[-1] == END else target[1:]
    return {
        "written": tokenizer.decode(written),
        "tokens": [tokenizer.token(i) for i in target[1:]],
        "probabilities": probabilities,
        "source": names,
        "cross": weights["cross"].numpy(),
        "own": weights["attention"].numpy(),
    }


@contextmanager
def damaged(loaded: LoadedModel, damage: str | None) -> Iterator[None]:
    """Apply a mistake to the translator inside the `with` block."""
    import regard
    from regard.interventions import ablate

    model: Any = loaded.named.model
    if damage == "positions":
        embeddings = (model.encoder.embedding, model.decoder.embedding)
        places = [embedding.places for embedding in embeddings]
        try:
            for embedding in embeddings:
                embedding.places = None
            yield
        finally:
            for embedding, place in zip(embeddings, places, strict=True):
                embedding.places = place
    elif damage == "head":
        with regard.intervene(model, {ONE_HEAD: ablate(ABLATED)}):
            yield
    elif damage in CHANGES:
        pattern, change = CHANGES[damage]
        with regard.intervene(model, {pattern: change}):
            yield
    else:  # nothing, or padding, which is part of the input
        yield


def _scores(call: Any, scaled: bool = True) -> "Tensor":
    scores: Tensor = call.q @ call.k.transpose(-1, -2)
    return scores * call.q.shape[-1] ** -0.5 if scaled else scores


def _later_keys(call: Any) -> "Tensor":
    """Return the pairs (L, S) that the model hides: later tokens in the self-attention of the decoder, else none."""
    import torch

    length, size = call.shape[2:]
    causal = call.name.startswith("decoder.") and not call.name.endswith(".cross")
    later = torch.ones(length, size, dtype=torch.bool).triu(1)
    return later if causal else torch.zeros_like(later)


def _softmax(scores: "Tensor", hidden: "Tensor", axis: int = -1) -> dict[str, "Tensor"]:
    return {"weights": scores.masked_fill(hidden, float("-inf")).softmax(axis).nan_to_num(0.0)}  # empty rows: 0


def _merge_without_transposing(call: Any) -> dict[str, "Tensor"]:
    """Return the output (B, H, L, d) whose merged form is the memory of the right output read as (B, L, H·d)."""
    batch, heads, length, _ = call.shape
    return {"output": call.output.contiguous().reshape(batch, length, heads, -1).transpose(1, 2)}


CHANGES: dict[str, tuple[str, Callable[[Any], dict[str, Any]]]] = {
    "scale": ("*", lambda call: _softmax(_scores(call, scaled=False), _later_keys(call))),
    "inverted": ("decoder.layers.*.attention", lambda call: _softmax(_scores(call), ~_later_keys(call))),
    "unmasked": ("decoder.layers.*.attention", lambda call: _softmax(_scores(call), _later_keys(call) & False)),
    "axis": ("*", lambda call: _softmax(_scores(call), _later_keys(call), axis=-2)),
    "merge": ("*", _merge_without_transposing),
}
