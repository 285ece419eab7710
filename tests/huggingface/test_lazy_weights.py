"""Attention weights that are computed when they are read: they behave as the tensors that eager returns."""

import copy
import json
import pickle
import re
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

import regard
from regard.huggingface import LazyWeights

transformers = pytest.importorskip("transformers")
pytestmark = pytest.mark.filterwarnings("ignore")
IDS = torch.randint(5, 64, (2, 9), generator=torch.Generator().manual_seed(0))


@pytest.fixture(scope="module")
def model() -> Any:
    regard.huggingface.register()
    torch.manual_seed(0)
    config = transformers.GPT2Config(n_layer=2, n_head=4, n_embd=32, vocab_size=64, n_positions=32)
    return transformers.GPT2Model._from_config(config, attn_implementation="eager").eval()


def weights_of(model: Any, implementation: str) -> tuple[Tensor, ...]:
    model.set_attn_implementation(implementation)
    return model(IDS, output_attentions=True).attentions


@pytest.fixture
def eager(model: Any) -> Tensor:
    return weights_of(model, "eager")[1]


@pytest.fixture
def lazy(model: Any) -> Tensor:
    return weights_of(model, "regard")[1]


USES = {
    "head": lambda w: w[0, 3],
    "negative index": lambda w: w[-1, -2],
    "row": lambda w: w[0, 1, 4],
    "number": lambda w: w[0, 1, 4, 2],
    "slices": lambda w: w[:, 1:3, ::2, 1:],
    "ellipsis": lambda w: w[..., 0],
    "batch item": lambda w: w[1],
    "new axis": lambda w: w[:, None],
    "list": lambda w: w[:, [0, 2]],
    "tensor": lambda w: w[torch.tensor([1, 0])],
    "booleans": lambda w: w[w > 0.2],
    "mean": lambda w: w.mean(1),
    "torch.mean": lambda w: torch.mean(w, dim=1),
    "as_tensor": torch.as_tensor,
    "stack": lambda w: torch.stack([w, w]),
    "cat": lambda w: torch.cat((w, w), 0),
    "squeeze": lambda w: w.squeeze(0),
    "detach, cpu": lambda w: w.detach().cpu(),
    "to": lambda w: w.to(torch.float64),
    "numpy": lambda w: torch.from_numpy(w.detach().numpy()),
    "asarray": lambda w: torch.from_numpy(np.asarray(w.detach())),
    "tolist": lambda w: torch.tensor(w.tolist()),
    "iteration": lambda w: torch.stack([item[0] for item in w]),
    "unpacking": lambda w: torch.stack([*w]),
    "product": lambda w: w @ w,
    "addition": lambda w: 1 + w * 2,
    "einsum": lambda w: torch.einsum("bhij,bhjk->bik", w, w),
    "max": lambda w: w.max(dim=-1).values,
    "copy": lambda w: copy.deepcopy(w.detach()),
    "pickle": lambda w: pickle.loads(pickle.dumps(w.detach())),
}


@pytest.mark.parametrize("use", USES)
def test_every_use_gives_what_eager_gives(eager: Tensor, lazy: Tensor, use: str) -> None:
    assert isinstance(lazy, LazyWeights)
    expected, result = USES[use](eager), USES[use](lazy)
    assert result.shape == expected.shape
    assert result.dtype == expected.dtype
    assert (torch.as_tensor(result) - expected).abs().max() <= 1e-6


def test_one_head_computes_one_head(lazy: LazyWeights) -> None:
    assert lazy.shape == (2, 4, 9, 9)
    assert lazy.size(-1) == 9
    assert lazy.dim() == lazy.ndim == 4
    assert len(lazy) == 2
    assert lazy.dtype == torch.float32
    assert lazy.device == torch.device("cpu")
    assert lazy.requires_grad
    _ = lazy[0, 2], lazy.detach(), lazy.cpu(), lazy.to("cpu"), lazy.float(), next(iter(lazy))
    assert not lazy.is_computed
    _ = lazy.sum()
    assert lazy.is_computed


def test_changes_in_place_persist(lazy: LazyWeights) -> None:
    weights = lazy.detach()
    weights[0] = 0.0
    weights.mul_(2)
    assert weights[0].sum() == 0
    assert torch.allclose(weights[1].sum(-1), torch.tensor(2.0))


def test_gradients_flow_through_the_weights(model: Any) -> None:
    gradients = []
    for implementation in ("eager", "regard"):
        model.zero_grad()
        whole, head = weights_of(model, implementation)
        (whole.square().sum() + head[0, 1, 3].square().sum()).backward()
        gradients.append(model.h[0].attn.c_attn.weight.grad.clone())
    assert (gradients[0] - gradients[1]).abs().max() <= 1e-5 * gradients[0].abs().max()


def test_a_wrong_index_is_refused(lazy: LazyWeights) -> None:
    with pytest.raises(IndexError, match="index 4 is out of bounds for dimension 1 with size 4"):
        _ = lazy[0, 4]


def test_weights_are_read_while_the_model_is_watched(model: Any) -> None:
    model.set_attn_implementation("regard")
    with regard.watch(model) as seen:
        attentions = model(IDS, output_attentions=True).attentions
        _ = [w.sum() for w in attentions], attentions[0][0, 0]
    assert len(seen.calls) == 2
    assert (seen.calls[1].weights() - attentions[1]).abs().max() <= 1e-6


def test_without_output_attentions_nothing_is_kept(model: Any) -> None:
    model.set_attn_implementation("regard")
    assert model(IDS).attentions is None


def test_weights_of_an_overwritten_cache_are_an_error(model: Any) -> None:
    """A module called by itself does not say whether weights are wanted, so their keys are not copied."""
    from regard.huggingface.attention_function import attention

    q, k, v = torch.randn(3, 1, 2, 5, 4)
    _, weights = attention(model, q, k, v, None)
    assert weights is not None
    k[:, :, 0] = 0.0
    with pytest.raises(RuntimeError, match="overwritten by a later step"):
        _ = weights[0]


def test_arguments_that_are_not_supported_are_refused(model: Any) -> None:
    from regard.huggingface.attention_function import attention

    q = torch.randn(1, 2, 5, 4)
    with pytest.raises(ValueError, match="does not support the argument 'block_indices' of GPT2Model"):
        attention(model, q, q, q, None, block_indices=torch.zeros(1))


def test_keys_chosen_by_an_indexer(model: Any) -> None:
    from regard.huggingface.attention_function import attention

    q, k, v = torch.randn(3, 1, 2, 5, 4)
    chosen = torch.tensor([[[0, 1], [2, 3], [0, 4], [1, 2], [4, 3]]])
    visible = torch.zeros(1, 1, 5, 5, dtype=torch.bool).scatter_(-1, chosen[:, None], True)
    out, weights = attention(model, q, k, v, None, is_causal=False, indices=chosen)
    assert torch.allclose(out.transpose(1, 2), regard.attend(q, k, v, visible), atol=1e-6)
    assert weights is not None
    assert ((weights[0] > 0) == visible[0]).all()


def test_sinks_of_each_row(model: Any) -> None:
    from regard.huggingface.attention_function import attention

    q, k, v = torch.randn(3, 2, 3, 5, 4)
    sinks = torch.randn(2, 3, 5, 1)
    out, weights = attention(model, q, k, v, None, is_causal=False, sinks=sinks)
    scores = torch.cat([q @ k.transpose(-1, -2) / 2, sinks], -1)
    expected = scores.softmax(-1)[..., :-1]
    assert torch.allclose(weights, expected, atol=1e-6)
    assert torch.allclose(out.transpose(1, 2), expected @ v, atol=1e-6)


def test_bertviz_shows_the_same_numbers(model: Any) -> None:
    bertviz = pytest.importorskip("bertviz", reason="bertviz is not installed: pip install bertviz")
    tokens, numbers = [f"token {i}" for i in range(IDS.shape[1])], []
    for implementation in ("eager", "regard"):
        model.set_attn_implementation(implementation)
        for view in (bertviz.head_view, bertviz.model_view):
            with torch.no_grad():
                attentions = model(IDS[:1], output_attentions=True).attentions
            page = view(attentions, tokens, html_action="return").data
            numbers.append(torch.tensor(json.loads(re.findall(r'"attn": (\[\[\[\[.*?\]\]\]\])', page, re.DOTALL)[0])))
            assert numbers[-1].shape == (2, 4, 9, 9)
    head_view, model_view, our_head_view, our_model_view = numbers
    assert (our_head_view - head_view).abs().max() <= 1e-6
    assert (our_model_view - model_view).abs().max() <= 1e-6
