"""Relevance, importance and rollout by autograd on eager attention of transformers, with S×S matrices."""

import copy
from typing import Any, NamedTuple

import torch
from torch import Tensor

VOCABULARY = 64
SIZES: dict[str, Any] = {"vocab_size": VOCABULARY, "bos_token_id": 1, "eos_token_id": 2, "pad_token_id": 0}
WIDTHS: dict[str, Any] = {"hidden_size": 32, "num_hidden_layers": 3, "num_attention_heads": 4, "intermediate_size": 64}
GPT2 = {"n_embd": 32, "n_layer": 3, "n_head": 4}
T5 = {"d_model": 32, "d_kv": 8, "d_ff": 64, "num_layers": 2, "num_heads": 4, "decoder_start_token_id": 0}
BART = {
    "d_model": 32, "encoder_layers": 2, "decoder_layers": 2, "encoder_attention_heads": 4, "decoder_attention_heads": 4,
    "encoder_ffn_dim": 64, "decoder_ffn_dim": 64, "decoder_start_token_id": 2, "forced_eos_token_id": None,
}  # fmt: skip
FAMILIES = ("gpt2", "bert", "llama", "mistral", "gpt_neox", "vit", "bart", "t5")


def config(family: str, length: int) -> Any:
    """Return a small configuration; models read `length` tokens."""
    import transformers as T

    return {
        "gpt2": lambda: T.GPT2Config(**SIZES, **GPT2, n_positions=length),
        "bert": lambda: T.BertConfig(**SIZES, **WIDTHS, max_position_embeddings=length),
        "llama": lambda: T.LlamaConfig(**SIZES, **WIDTHS, num_key_value_heads=2, max_position_embeddings=length),
        "mistral": lambda: T.MistralConfig(**SIZES, **WIDTHS, num_key_value_heads=2, sliding_window=length // 3),
        "gpt_neox": lambda: T.GPTNeoXConfig(**SIZES, **WIDTHS, max_position_embeddings=length),
        "vit": lambda: T.ViTConfig(**WIDTHS, image_size=(4, 4 * (length - 1)), patch_size=4, num_labels=5),
        "bart": lambda: T.BartConfig(**SIZES, **BART, max_position_embeddings=length),
        "t5": lambda: T.T5Config(**SIZES, **T5),
    }[family]()  # fmt: skip


def build(family: str, length: int) -> tuple[Any, Any]:
    """Return a random model on fused attention, and the same on eager attention."""
    import transformers as T

    names = {
        "gpt2": T.GPT2LMHeadModel, "bert": T.BertForMaskedLM, "llama": T.LlamaForCausalLM,
        "mistral": T.MistralForCausalLM, "gpt_neox": T.GPTNeoXForCausalLM, "vit": T.ViTForImageClassification,
        "bart": T.BartForConditionalGeneration, "t5": T.T5ForConditionalGeneration,
    }  # fmt: skip
    torch.manual_seed(0)
    settings = config(family, length)
    models = [names[family]._from_config(copy.deepcopy(settings), attn_implementation=x) for x in ("sdpa", "eager")]
    with torch.no_grad():
        for name, parameter in models[0].named_parameters():  # larger, so that attention is not almost even
            if parameter.dim() > 1 and "shared" not in name and "embed" not in name:
                parameter.mul_(1.0 if family == "t5" else 4.0)
    models[1].load_state_dict(models[0].state_dict())
    return models[0].eval(), models[1].eval()


def inputs(family: str, length: int) -> dict[str, Tensor]:
    """Return inputs of a batch of two."""
    generator = torch.Generator().manual_seed(1)
    if family == "vit":
        return {"pixel_values": torch.randn(2, 3, 4, 4 * (length - 1), generator=generator)}
    ids = torch.randint(3, VOCABULARY, (2, length), generator=generator)
    if family in ("bart", "t5"):
        return {"input_ids": ids, "decoder_input_ids": ids.flip(0)[:, : max(2, length // 2)], "use_cache": False}
    return {"input_ids": ids}


def target(output: Any) -> Tensor:
    """Return one number for each item of the batch, from the last token or the class."""
    logits = output.logits
    return logits[:, 3] if logits.dim() == 2 else logits[:, -1, 5]


class Reference(NamedTuple):
    """Results of autograd on eager attention."""

    relevance: Tensor  # (B, tokens)
    source: Tensor | None  # (B, source tokens)
    importance: Tensor  # (calls, H)


def reference(model: Any, arguments: dict[str, Any], query: int) -> Reference:
    """Return relevance and importance from the S×S weights of an eager model and their gradients."""
    output = model(**arguments, output_attentions=True)
    encoder = list(getattr(output, "encoder_attentions", None) or ())
    cross = list(getattr(output, "cross_attentions", None) or ())
    own = list(output.decoder_attentions if encoder else output.attentions)
    # In the order in which a model runs them: encoder, then self-attention and cross-attention of each decoder layer.
    weights = encoder + [x for pair in zip(own, cross, strict=True) for x in pair] if encoder else own
    gradients = torch.autograd.grad(target(output).sum(), weights)
    products = [(w * g).detach() for w, g in zip(weights, gradients, strict=True)]
    importance = torch.stack([x.sum((0, 2, 3)) for x in products])
    passed = [x.clamp(min=0).mean(1) for x in products]
    batch, size = own[0].shape[0], own[0].shape[-1]
    # A source token is one more row: R = [target tokens; source tokens].
    sources = encoder[0].shape[-1] if encoder else 0
    total = torch.eye(size + sources).repeat(batch, 1, 1)
    for number, matrix in enumerate(passed):
        full = torch.zeros_like(total)
        if number < len(encoder):
            full[:, size:, size:] = matrix
        elif encoder and (number - len(encoder)) % 2:
            full[:, :size, size:] = matrix
        else:
            full[:, :size, :size] = matrix
        total = total + full @ total
    row = total[:, query % size]
    return Reference(row[:, :size], row[:, size:] if encoder else None, importance)
