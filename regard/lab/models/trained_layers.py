"""Attention layers of the shipped models as inputs of a trace: the vectors that reach a layer, and its trained weights.

The layers have short names: `cross-2` is the cross-attention in the translator's second decoder layer, `encoder-1` the
self-attention in its first encoder layer, `language-3` the third layer of the language model.
"""

from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np

from regard.lab.models.watched_models import RUNS, check_text, load_model, watch_lock, without_warnings

if TYPE_CHECKING:
    from torch import Tensor

Array = np.ndarray

LAYERS = {
    **{f"cross-{n}": ("phrases", f"decoder.layers.{n - 1}.cross") for n in (1, 2)},
    **{f"encoder-{n}": ("phrases", f"encoder.layers.{n - 1}.attention") for n in (1, 2)},
    **{f"language-{n}": ("language", f"layers.{n - 1}.attention") for n in (1, 2, 3, 4)},
}


@dataclass(frozen=True, eq=False)
class TrainedLayer:
    """One attention layer of a trained model and its input for one text."""

    x: Array  # (L, D), the vectors of the queries
    context: Array | None  # (S, D), the vectors of keys and values, in cross-attention
    weights: tuple[Array, Array, Array, Array]  # W_q, W_k, W_v, W_o, which multiply from the right
    biases: dict[str, Any]  # arrays b_q, b_k, b_v, b_o
    heads: int
    causal: bool
    queries: tuple[str, ...]
    keys: tuple[str, ...]


def trained_layer(name: str, text: str) -> TrainedLayer:
    """Return a layer of `LAYERS` with the vectors that reach it for this text.

    >>> layer = trained_layer("cross-2", "The cat sat on the mat")
    >>> layer.queries, layer.x.shape, layer.heads
    (('猫', '坐', '在', '垫子', '上', '<end>'), (6, 64), 4)
    """
    with watch_lock:
        return _trained_layer(name, text)


@lru_cache(maxsize=RUNS)
def _trained_layer(name: str, text: str) -> TrainedLayer:
    import torch

    model_name, path = LAYERS[name]
    loaded = load_model(model_name)
    check_text(loaded, text)
    run = loaded.run
    assert run is not None
    given = without_warnings(lambda: run.inputs(text))
    model = run.model
    layer: Any = model.get_submodule(path)
    inputs: list[Tensor] = []

    def keep_inputs(_: Any, arguments: tuple[Any, ...]) -> None:
        inputs.extend(arguments)

    hook = layer.register_forward_pre_hook(keep_inputs)
    try:
        with torch.no_grad():
            model(*given.args)
    finally:
        hook.remove()
    x, *context = (_array(vectors[0]) for vectors in inputs)
    w_q, w_k, w_v = np.split(_array(layer.qkv.weight).T, 3, axis=1)
    b_q, b_k, b_v = np.split(_array(layer.qkv.bias), 3)
    names = given.tokens
    if isinstance(names, dict):  # of a translator
        names = names["*.cross" if context else "encoder"]
    queries, keys = names if context else (names, names)
    return TrainedLayer(
        x,
        context[0] if context else None,
        (w_q, w_k, w_v, _array(layer.out.weight).T),
        {"b_q": b_q, "b_k": b_k, "b_v": b_v, "b_o": _array(layer.out.bias)},
        layer.heads,
        model_name == "language",
        tuple(queries),
        tuple(keys),
    )


def _array(tensor: "Tensor") -> Array:
    return np.asarray(tensor.detach().double().numpy())
