"""Models of Hugging Face, GPT-2 and BERT, with their weights in ours; the scores are equal.

Nothing of `transformers` is imported here: a state dict of tensors is enough.

| GPT-2 | here |
|---|---|
| `wte`, `wpe` | `embedding.weight`, `embedding.places.weight` |
| `h.N.attn.c_attn`, `c_proj` (inputs × outputs) | `layers.N.attention.qkv`, `out`, transposed |
| `h.N.mlp.c_fc`, `c_proj` | `layers.N.feed.up`, `down`, transposed |
| `h.N.ln_1`, `ln_2`, `ln_f` | `layers.N.attention_norm`, `feed_norm`, `norm` |
"""

import re
from collections.abc import Mapping
from typing import Any, TypeVar

import torch
from torch import Tensor, nn

from regard.models.transformer.config import Activation, DecoderConfig, EncoderConfig
from regard.models.transformer.decoder import Decoder
from regard.models.transformer.encoder import Encoder

Given = nn.Module | Mapping[str, Tensor]
M = TypeVar("M", bound=nn.Module)

ACTIVATIONS: dict[str, Activation] = {
    "relu": "relu",
    "gelu": "gelu",
    "gelu_new": "gelu_tanh",
    "gelu_pytorch_tanh": "gelu_tanh",
    "gelu_fast": "gelu_tanh",
}


def from_hf_gpt2(model: Given, config: Any = None) -> Decoder:
    """A Decoder with the weights of a GPT-2 (`GPT2LMHeadModel`, `GPT2Model`, or the state dict of one).

    config      its `GPT2Config`; only needed with a state dict

    The scores are those of the model, to rounding.
    """
    found, config = _given(model, config, "GPT2Config")
    found = _without(found, ("transformer.",), r"\.attn\.(bias|masked_bias)$")
    for name, wanted, why in (
        ("scale_attn_weights", True, "scores here are always scaled by 1/√d_k"),
        ("scale_attn_by_inverse_layer_idx", False, "scores here do not depend on the layer's number"),
        ("add_cross_attention", False, "a Decoder has no source"),
    ):
        if getattr(config, name, wanted) != wanted:
            raise ValueError(f"this GPT-2 has {name}={not wanted}: {why}")
    head = found.pop("lm_head.weight", found["wte.weight"])
    tied = head is found["wte.weight"] or bool(torch.equal(head, found["wte.weight"]))
    ours = Decoder(
        DecoderConfig(
            config.vocab_size,
            d_model=config.n_embd,
            heads=config.n_head,
            layers=config.n_layer,
            d_ff=config.n_inner,
            context=config.n_positions,
            norm="pre",
            epsilon=float(config.layer_norm_epsilon),
            activation=_activation(config.activation_function),
            positions="learned",
            dropout=config.resid_pdrop,
            attention_dropout=config.attn_pdrop,
            tied=tied,
        )
    )
    weights = {
        "embedding.weight": found["wte.weight"],
        "embedding.places.weight": found["wpe.weight"],
        **({} if tied else {"head.weight": head}),
        **_renamed(found, "norm", "ln_f"),
    }
    for n in range(config.n_layer):
        for mine, theirs in (("attention.qkv", "attn.c_attn"), ("attention.out", "attn.c_proj"),
                             ("feed.up", "mlp.c_fc"), ("feed.down", "mlp.c_proj")):  # fmt: skip
            weights[f"layers.{n}.{mine}.weight"] = found[f"h.{n}.{theirs}.weight"].T
            weights[f"layers.{n}.{mine}.bias"] = found[f"h.{n}.{theirs}.bias"]
        weights |= _renamed(found, f"layers.{n}.attention_norm", f"h.{n}.ln_1")
        weights |= _renamed(found, f"layers.{n}.feed_norm", f"h.{n}.ln_2")
    return _filled(ours, weights)


def from_hf_bert(model: Given, config: Any = None) -> Encoder:
    """An Encoder with the weights of a BERT (`BertForMaskedLM`, or its state dict).

    config      its `BertConfig`; only needed with a state dict

    `.logits` are the scores of the model for texts of one segment: the vector of the first segment is part of the
    places here. `lengths` take the place of the attention mask.
    """
    found, config = _given(model, config, "BertConfig")
    found = _without(found, ("bert.",), r"position_ids$|pooler\.|seq_relationship\.")
    if getattr(config, "position_embedding_type", "absolute") not in ("absolute", None):
        raise ValueError(f"only absolute positions are known here, got {config.position_embedding_type!r}")
    words = found["embeddings.word_embeddings.weight"]
    head = found.get("cls.predictions.decoder.weight", words)
    tied = head is words or bool(torch.equal(head, words))
    ours = Encoder(
        EncoderConfig(
            config.vocab_size,
            embedding_norm=True,
            d_model=config.hidden_size,
            heads=config.num_attention_heads,
            layers=config.num_hidden_layers,
            d_ff=config.intermediate_size,
            context=config.max_position_embeddings,
            epsilon=float(config.layer_norm_eps),
            activation=_activation(config.hidden_act),
            positions="learned",
            dropout=config.hidden_dropout_prob,
            attention_dropout=config.attention_probs_dropout_prob,
            tied=tied,
        )
    )
    places, segment = (
        found["embeddings.position_embeddings.weight"],
        found["embeddings.token_type_embeddings.weight"][0],
    )
    weights = {
        "embedding.weight": words,
        "embedding.places.weight": places + segment,
        **_renamed(found, "embedding_norm", "embeddings.LayerNorm"),
        **_renamed(found, "guess.dense", "cls.predictions.transform.dense"),
        **_renamed(found, "guess.norm", "cls.predictions.transform.LayerNorm"),
        "guess.bias": found.get("cls.predictions.decoder.bias", found["cls.predictions.bias"]),
        **({} if tied else {"guess.weight": head}),
    }
    for n in range(config.num_hidden_layers):
        here, there = f"layers.{n}", f"encoder.layer.{n}"
        for kind in ("weight", "bias"):
            parts = [found[f"{there}.attention.self.{name}.{kind}"] for name in ("query", "key", "value")]
            weights[f"{here}.attention.qkv.{kind}"] = torch.cat(parts)
        weights |= _renamed(found, f"{here}.attention.out", f"{there}.attention.output.dense")
        weights |= _renamed(found, f"{here}.attention_norm", f"{there}.attention.output.LayerNorm")
        weights |= _renamed(found, f"{here}.feed.up", f"{there}.intermediate.dense")
        weights |= _renamed(found, f"{here}.feed.down", f"{there}.output.dense")
        weights |= _renamed(found, f"{here}.feed_norm", f"{there}.output.LayerNorm")
    return _filled(ours, weights)


class _Named(dict[str, Tensor]):
    """A state dict whose gaps say what was expected."""

    def __missing__(self, name: str) -> Tensor:
        near = ", ".join(sorted(self)[:3]) or "nothing"
        raise ValueError(f"the state dict has no {name!r}, which such a model has; it begins with {near}")


def _given(model: Given, config: Any, kind: str) -> tuple[_Named, Any]:
    state = model.state_dict() if isinstance(model, nn.Module) else model
    config = getattr(model, "config", None) if config is None else config
    if config is None:
        raise TypeError(f"a state dict alone does not say how many heads there are: pass its {kind} as config=")
    return _Named({name: value.detach() for name, value in state.items()}), config


def _without(found: _Named, prefixes: tuple[str, ...], useless: str) -> _Named:
    kept = {name: value for name, value in found.items() if not re.search(useless, name)}
    for prefix in prefixes:
        kept = {name.removeprefix(prefix): value for name, value in kept.items()}
    return _Named(kept)


def _activation(name: str) -> Activation:
    if name not in ACTIVATIONS:
        raise ValueError(f"the activation {name!r} is not known here, only {', '.join(ACTIVATIONS)}")
    return ACTIVATIONS[name]


def _renamed(found: _Named, mine: str, theirs: str) -> dict[str, Tensor]:
    return {f"{mine}.{kind}": found[f"{theirs}.{kind}"] for kind in ("weight", "bias")}


def _filled(model: M, weights: dict[str, Tensor]) -> M:
    first = next(iter(weights.values()))
    model.to(device=first.device, dtype=first.dtype).load_state_dict(weights)
    return model.eval()
