"""What users of torch expect from the models of regard.models."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor
from torch._subclasses.fake_tensor import FakeTensorMode

from regard.models import (
    BoardNet,
    Decoder,
    DecoderConfig,
    Encoder,
    EncoderConfig,
    Layer,
    Recurrent,
    RecurrentConfig,
    Seq2Seq,
    Seq2SeqConfig,
)
from regard.models.board import attention_patterns, line_bias
from tests.support import layer_conventions as conventions

pytestmark = pytest.mark.usefixtures("unchecked")

TOKENS, TARGET = torch.arange(12).view(2, 6), torch.arange(8).view(2, 4)
SIZES: dict[str, Any] = {"d_model": 16, "heads": 2, "layers": 2}
TABLE = {"lines": 4, "opening_table": (6, 7, 8), "opening_table_bits": 8, "bias": "lines"}
MODELS: dict[str, Any] = {
    "layer": (lambda **f: Layer(DecoderConfig(9, d_model=16, heads=2), causal=True, **f), torch.randn(2, 5, 16)),
    "decoder": (lambda **f: Decoder(DecoderConfig(20, **SIZES, positions="learned", tied=False), **f), TOKENS),
    "llama": (
        lambda **f: Decoder(
            DecoderConfig(20, **SIZES, positions="rotary", normalisation="rms", activation="swiglu"), **f
        ),
        TOKENS,
    ),
    "encoder": (lambda **f: Encoder(EncoderConfig(20, **SIZES, embedding_norm=True, tied=False), **f), TOKENS),
    "seq2seq": (lambda **f: Seq2Seq(Seq2SeqConfig(20, 30, **SIZES), **f), TOKENS, TARGET),
    "recurrent": (lambda **f: Recurrent(RecurrentConfig(20, 30, d_model=16, attention=True), **f), TOKENS, TARGET),
    "board": (lambda **f: BoardNet("tiny", **TABLE, **f), torch.zeros(2, 2, 6, 7)),
    "board without norm": (lambda **f: BoardNet("tiny", norm="none", **f), torch.randn(2, 2, 6, 7)),
    "board with group norm": (lambda **f: BoardNet("tiny", norm="group", **f), torch.randn(2, 2, 6, 7)),
}


@pytest.mark.parametrize("name", MODELS)
def test_device_and_dtype(name: str) -> None:
    conventions.check_factory_arguments(MODELS[name][0])


@pytest.mark.parametrize("name", MODELS)
def test_reset_after_to_empty(name: str) -> None:
    conventions.check_reset(*MODELS[name])


@pytest.mark.parametrize("name", MODELS)
def test_copies(name: str) -> None:
    conventions.check_copies(*MODELS[name])


@pytest.mark.parametrize("name", [name for name in MODELS if "board" not in name])  # a trace cannot return None
def test_traced(name: str) -> None:
    conventions.check_trace(*MODELS[name])


@pytest.mark.parametrize("name", ["decoder", "board"])
def test_exported(name: str) -> None:
    conventions.check_export(*MODELS[name])


def _run_in_a_transform(model: BoardNet, x: Tensor) -> None:
    parameters = dict(model.named_parameters())
    torch.func.grad(lambda p: torch.func.functional_call(model, p, (x,))[0].sum())(parameters)


def _run_on_fake_tensors(model: BoardNet, x: Tensor) -> None:
    with FakeTensorMode(allow_non_fake_inputs=True) as mode:
        model(mode.from_tensor(x))


@pytest.mark.parametrize("first_run", [
    _run_in_a_transform,
    _run_on_fake_tensors,
    lambda model, x: torch.export.export(model, (x,), strict=False),
], ids=["transform", "fake tensors", "export"])  # fmt: skip
def test_first_run_of_a_board_size_that_is_not_eager(first_run: Callable[[BoardNet, Tensor], object]) -> None:
    model, x = BoardNet("tiny", sees=("all", "row"), bias="lines").eval(), torch.randn(2, 2, 5, 9)
    for cached in (line_bias._cached_indices, attention_patterns._cached_masks):
        cached.cache_clear()
    first_run(model, x)
    policy = model(x)[0]
    policy.sum().backward()
    for cached in (line_bias._cached_indices, attention_patterns._cached_masks):
        cached.cache_clear()
    assert torch.equal(model(x)[0], policy)


# torch has no forward-mode derivatives of packed sequences, nor of group norms of channels-last tensors.
@pytest.mark.parametrize("name", [name for name in MODELS if name not in ("recurrent", "board with group norm")])
def test_forward_mode(name: str) -> None:
    conventions.check_forward_mode(*MODELS[name])
