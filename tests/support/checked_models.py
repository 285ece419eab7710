"""Small models of transformers, a padded batch, and a function that watches and checks a model."""

from collections.abc import Callable
from typing import Any

import torch
import transformers
from torch import nn

import regard

IDS = torch.randint(5, 50, (2, 9), generator=torch.Generator().manual_seed(3))
LEFT = torch.tensor([[1] * 9, [0] * 4 + [1] * 5])
RIGHT = LEFT.flip(1)
SMALL: dict[str, Any] = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 48}
TOKENS = {"vocab_size": 50, "pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2}


def build(name: str, implementation: str, **options: Any) -> nn.Module:
    """Return a small random model of transformers."""
    torch.manual_seed(0)
    config = getattr(transformers, f"{name}Config")(**options)
    kind = "ForCausalLM" if name in ("Llama", "Qwen2", "Mistral", "Gemma", "Gemma2", "Qwen3") else "Model"
    implementation = "eager" if name in ("Gemma2", "DebertaV2") else implementation
    kind = "LMHeadModel" if name == "GPT2" else kind
    return getattr(transformers, name + kind)._from_config(config, attn_implementation=implementation).eval()


def findings(model: nn.Module, run: Callable[[nn.Module], Any], keep: Any = "inputs", **arguments: Any) -> Any:
    with torch.no_grad(), regard.watch(model, keep=keep) as seen:
        run(model)
    return seen.check(**arguments)


LLAMA = {**SMALL, **TOKENS, "num_key_value_heads": 2}
