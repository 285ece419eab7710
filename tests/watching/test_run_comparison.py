"""`regard.agree`: two ways of running a model that agree, and the first place where two do not."""

from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

import regard
from support.checked_models import IDS, LEFT, LLAMA, TOKENS, build

INPUTS = {"input_ids": IDS, "attention_mask": LEFT}
GPT2 = {**TOKENS, "n_embd": 32, "n_layer": 2, "n_head": 4}


def test_implementations_of_a_correct_model_agree() -> None:
    model: Any = build("Llama", "sdpa", **LLAMA)
    report = regard.agree(model, INPUTS, "sdpa", "eager")
    assert report
    assert "no difference" in str(report)
    assert 0 < report.difference < 1e-5
    assert model.config._attn_implementation == "sdpa"


def test_the_first_layer_head_and_query_that_differ() -> None:
    model, other = build("Llama", "sdpa", **LLAMA), build("Llama", "sdpa", **LLAMA)
    with torch.no_grad():  # head 2 of the second layer gets other queries
        other.model.layers[1].self_attn.q_proj.weight[16:24] *= 3.0  # type: ignore[union-attr, index]
    report = regard.agree(model, INPUTS, model, other)
    assert not report
    assert (report.call, report.head) == ("model.layers.1.self_attn", 2)
    assert report.difference > report.tolerance
    assert "differ first in model.layers.1.self_attn, head 2" in str(report)


def test_items_alone_and_in_a_left_padded_batch() -> None:
    llama = build("Llama", "sdpa", **LLAMA)  # rotary positions are relative: padding does not matter
    assert regard.agree(llama, INPUTS, "alone", "padded")
    gpt2 = build("GPT2", "sdpa", **GPT2)  # absolute positions, counted from the padding
    report = regard.agree(gpt2, INPUTS, "alone", "padded")
    assert (report.call, report.batch) == ("transformer.h.0.attn", 1)
    positions = (LEFT.cumsum(1) - 1).clamp_min(0)
    assert regard.agree(gpt2, {**INPUTS, "position_ids": positions}, "alone", "padded")
    with pytest.raises(ValueError, match="need padding="):
        regard.agree(gpt2, IDS, "alone", "padded")


class Heads(nn.Module):
    """Causal attention that splits heads by a transpose, or wrongly by a view."""

    def __init__(self, wrong: bool) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.wrong, self.qkv = wrong, nn.Linear(32, 96)

    def forward(self, x: Tensor) -> Tensor:
        parts = self.qkv(x).chunk(3, -1)
        shape = (len(x), 4, -1, 8) if self.wrong else (len(x), -1, 4, 8)
        q, k, v = (part.reshape(shape) if self.wrong else part.reshape(shape).transpose(1, 2) for part in parts)
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        return (y if self.wrong else y.transpose(1, 2)).reshape(x.shape)


def test_a_prefix_shows_heads_that_are_split_by_a_view() -> None:
    x = torch.randn(2, 8, 32)
    assert regard.agree(Heads(False), x, "prefix", "whole")
    report = regard.agree(Heads(True), x, "prefix", "whole")
    assert not report
    assert report.call == ""


def test_kernels_of_torch_agree() -> None:
    assert regard.agree(Heads(False), torch.randn(2, 8, 32), "math", "flash")


def test_an_unknown_way_is_refused() -> None:
    with pytest.raises(ValueError, match="no set_attn_implementation"):
        regard.agree(Heads(False), torch.randn(2, 8, 32), "math", "eager")
