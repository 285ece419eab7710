"""Convert GPT-2 and BERT of Hugging Face to models of regard with the same weights and the same scores.

`transformers` is not imported; a state dict of tensors is enough.

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

from regard.files import explain_damage
from regard.models.transformer.config import DecoderConfig, EncoderConfig
from regard.models.transformer.decoder import Decoder
from regard.models.transformer.encoder import Encoder

Source = nn.Module | Mapping[str, Tensor]
M = TypeVar("M", bound=nn.Module)

GELU_TANH = ("gelu_new", "gelu_pytorch_tanh", "gelu_fast")
ACTIVATIONS = {"relu": "relu", "gelu": "gelu", **dict.fromkeys(GELU_TANH, "gelu_tanh")}
# Field of regard's configuration: field of Hugging Face's configuration.
GPT2_FIELDS = {
    "vocabulary": "vocab_size", "d_model": "n_embd", "heads": "n_head", "layers": "n_layer", "d_ff": "n_inner",
    "context": "n_positions", "epsilon": "layer_norm_epsilon", "activation": "activation_function",
    "dropout": "resid_pdrop", "attention_dropout": "attn_pdrop",
}  # fmt: skip
BERT_FIELDS = {
    "vocabulary": "vocab_size", "d_model": "hidden_size", "heads": "num_attention_heads", "layers": "num_hidden_layers",
    "d_ff": "intermediate_size", "context": "max_position_embeddings", "epsilon": "layer_norm_eps",
    "activation": "hidden_act", "dropout": "hidden_dropout_prob", "attention_dropout": "attention_probs_dropout_prob",
}  # fmt: skip


def from_hf_gpt2(model: Source, config: Any = None) -> Decoder:
    """Return a Decoder with the weights of a GPT-2 (`GPT2LMHeadModel`, `GPT2Model`, or the state dict of one).

    config      its `GPT2Config`; needed only with a state dict

    The scores equal those of the model up to rounding.

    >>> from transformers import GPT2Config, GPT2LMHeadModel
    >>> theirs = GPT2LMHeadModel(GPT2Config(vocab_size=20, n_positions=8, n_embd=16, n_layer=1, n_head=2)).eval()
    >>> tokens = torch.tensor([[1, 2, 3]])
    >>> torch.allclose(from_hf_gpt2(theirs)(tokens), theirs(tokens).logits, atol=1e-5)
    True
    """
    state, config = _read_model(model, config, "GPT2Config", "transformer.", r"\.attn\.(bias|masked_bias)$")
    for name, required, reason in (
        ("scale_attn_weights", True, "scores here are always scaled by 1/√d_k"),
        ("scale_attn_by_inverse_layer_idx", False, "scores here do not depend on the layer's number"),
        ("add_cross_attention", False, "a Decoder has no source"),
    ):
        if getattr(config, name, required) != required:
            raise ValueError(f"this GPT-2 has {name}={not required}, which is not supported: {reason}")
    words = state["wte.weight"]
    head = state.pop("lm_head.weight", words)
    tied = head is words or bool(torch.equal(head, words))
    decoder = Decoder(DecoderConfig(**_options(config, GPT2_FIELDS), norm="pre", tied=tied))
    weights = {
        "embedding.weight": words,
        "embedding.places.weight": state["wpe.weight"],
        **({} if tied else {"head.weight": head}),
        **_rename(state, "norm", "ln_f"),
    }
    for n in range(config.n_layer):
        for ours, theirs in (("attention.qkv", "attn.c_attn"), ("attention.out", "attn.c_proj"),
                             ("feed.up", "mlp.c_fc"), ("feed.down", "mlp.c_proj")):  # fmt: skip
            weights[f"layers.{n}.{ours}.weight"] = state[f"h.{n}.{theirs}.weight"].T
            weights[f"layers.{n}.{ours}.bias"] = state[f"h.{n}.{theirs}.bias"]
        weights |= _rename(state, f"layers.{n}.attention_norm", f"h.{n}.ln_1")
        weights |= _rename(state, f"layers.{n}.feed_norm", f"h.{n}.ln_2")
    return _load(decoder, weights)


def from_hf_bert(model: Source, config: Any = None) -> Encoder:
    """Return an Encoder with the weights of a BERT (`BertForMaskedLM`, or its state dict).

    config      its `BertConfig`; needed only with a state dict

    `.logits` equals the scores of the model for texts of one segment: the vector of the first segment is added to the
    positions. `lengths` replaces the attention mask.

    >>> from transformers import BertConfig, BertForMaskedLM
    >>> sizes = {"hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 32}
    >>> theirs = BertForMaskedLM(BertConfig(vocab_size=20, **sizes)).eval()
    >>> tokens = torch.tensor([[1, 2, 3]])
    >>> torch.allclose(from_hf_bert(theirs).logits(tokens), theirs(tokens).logits, atol=1e-5)
    True
    """
    useless = r"position_ids$|pooler\.|seq_relationship\."
    state, config = _read_model(model, config, "BertConfig", "bert.", useless)
    if getattr(config, "position_embedding_type", "absolute") not in ("absolute", None):
        raise ValueError(f"only absolute positions are supported, got {config.position_embedding_type!r}")
    words = state["embeddings.word_embeddings.weight"]
    head = state.get("cls.predictions.decoder.weight", words)
    tied = head is words or bool(torch.equal(head, words))
    encoder = Encoder(EncoderConfig(**_options(config, BERT_FIELDS), embedding_norm=True, tied=tied))
    positions = state["embeddings.position_embeddings.weight"]
    weights = {
        "embedding.weight": words,
        "embedding.places.weight": positions + state["embeddings.token_type_embeddings.weight"][0],
        **_rename(state, "embedding_norm", "embeddings.LayerNorm"),
        **_rename(state, "guess.dense", "cls.predictions.transform.dense"),
        **_rename(state, "guess.norm", "cls.predictions.transform.LayerNorm"),
        "guess.bias": state.get("cls.predictions.decoder.bias", state["cls.predictions.bias"]),
        **({} if tied else {"guess.weight": head}),
    }
    for n in range(config.num_hidden_layers):
        ours, theirs = f"layers.{n}", f"encoder.layer.{n}"
        for kind in ("weight", "bias"):
            parts = [state[f"{theirs}.attention.self.{name}.{kind}"] for name in ("query", "key", "value")]
            weights[f"{ours}.attention.qkv.{kind}"] = torch.cat(parts)
        weights |= _rename(state, f"{ours}.attention.out", f"{theirs}.attention.output.dense")
        weights |= _rename(state, f"{ours}.attention_norm", f"{theirs}.attention.output.LayerNorm")
        weights |= _rename(state, f"{ours}.feed.up", f"{theirs}.intermediate.dense")
        weights |= _rename(state, f"{ours}.feed.down", f"{theirs}.output.dense")
        weights |= _rename(state, f"{ours}.feed_norm", f"{theirs}.output.LayerNorm")
    return _load(encoder, weights)


class _State(dict[str, Tensor]):
    """A state dict that raises a helpful error for a missing name."""

    def __missing__(self, name: str) -> Tensor:
        first = ", ".join(sorted(self)[:3]) or "nothing"
        raise ValueError(f"the state dict has no {name!r}, which the model needs; its first names are {first}")


def _read_model(model: Source, config: Any, kind: str, prefix: str, useless: str) -> tuple[_State, Any]:
    """Return the weights without the prefix and without names that match `useless`, and the configuration."""
    state = model.state_dict() if isinstance(model, nn.Module) else model
    config = getattr(model, "config", None) if config is None else config
    if config is None:
        raise TypeError(f"a state dict does not contain the number of heads: pass its {kind} as config=")
    weights = {name.removeprefix(prefix): x.detach() for name, x in state.items() if not re.search(useless, name)}
    return _State(weights), config


def _options(config: Any, fields: dict[str, str]) -> dict[str, Any]:
    """Return the options of regard's configuration that Hugging Face's configuration determines."""
    if missing := [name for name in fields.values() if not hasattr(config, name)]:
        raise TypeError(f"config must be the configuration of the model, got one without {', '.join(missing)}")
    options = {ours: getattr(config, theirs) for ours, theirs in fields.items()}
    if options["activation"] not in ACTIVATIONS:
        raise ValueError(f"the activation must be one of {', '.join(ACTIVATIONS)}, got {options['activation']!r}")
    changes = {"activation": ACTIVATIONS[options["activation"]], "epsilon": float(options["epsilon"])}
    return {**options, **changes, "positions": "learned"}


def _rename(state: _State, ours: str, theirs: str) -> dict[str, Tensor]:
    return {f"{ours}.{kind}": state[f"{theirs}.{kind}"] for kind in ("weight", "bias")}


def _load(model: M, weights: dict[str, Tensor]) -> M:
    first = next(iter(weights.values()))
    with explain_damage("the state dict", "that of the model in config", "pass both of the same model"):
        model.to(device=first.device, dtype=first.dtype).load_state_dict(weights)
    return model.eval()
