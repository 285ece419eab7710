"""The weights of Hugging Face's models in ours: the same scores."""

import pytest
import torch

from regard.models import from_hf_bert, from_hf_gpt2, generate

transformers = pytest.importorskip("transformers")

TEXT = torch.randint(60, (2, 11), generator=torch.Generator().manual_seed(0))


def lively(model):
    """Randomise biases and enlarge weights, so that both affect the scores."""
    torch.manual_seed(1)
    with torch.no_grad():
        for value in model.parameters():
            value.add_(torch.randn_like(value), alpha=0.1)
    return model.double().eval()


def gpt2(**changes):
    sizes = {"vocab_size": 60, "n_positions": 32, "n_embd": 24, "n_layer": 3, "n_head": 4, "bos_token_id": 0}
    config = transformers.GPT2Config(**{**sizes, "eos_token_id": None, "pad_token_id": 0, **changes})
    return lively(transformers.GPT2LMHeadModel(config))


def bert(**changes):
    sizes = {"vocab_size": 60, "hidden_size": 24, "num_hidden_layers": 2, "num_attention_heads": 4}
    sizes |= {"intermediate_size": 40, "max_position_embeddings": 32}
    return lively(transformers.BertForMaskedLM(transformers.BertConfig(**{**sizes, **changes})))


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"n_inner": 50},
        {"activation_function": "relu"},
        {"activation_function": "gelu"},
        {"tie_word_embeddings": False},
        {"layer_norm_epsilon": 1e-3},
    ],
    ids=str,
)
@torch.no_grad()
def test_gpt2_gives_equal_scores(changes) -> None:
    theirs = gpt2(**changes)
    ours = from_hf_gpt2(theirs)
    torch.testing.assert_close(ours(TEXT), theirs(TEXT).logits, rtol=0, atol=1e-9)
    assert ours.config.tied == changes.get("tie_word_embeddings", True)
    from_state = from_hf_gpt2(theirs.state_dict(), theirs.config)
    assert torch.equal(from_state(TEXT), ours(TEXT))


@torch.no_grad()
def test_gpt2_generates_the_same_tokens() -> None:
    theirs = gpt2()
    expected = theirs.generate(TEXT[:1], attention_mask=torch.ones_like(TEXT[:1]), max_new_tokens=15, do_sample=False)[
        0, 11:
    ]
    assert generate(from_hf_gpt2(theirs), TEXT[:1], new_tokens=15)[0].tolist() == expected.tolist()


@torch.no_grad()
def test_a_gpt2_without_its_head() -> None:
    theirs = gpt2()
    assert torch.equal(from_hf_gpt2(theirs.transformer)(TEXT), from_hf_gpt2(theirs)(TEXT))


@pytest.mark.parametrize("changes", [{}, {"hidden_act": "relu"}, {"tie_word_embeddings": False}], ids=str)
@torch.no_grad()
def test_bert_gives_equal_scores(changes) -> None:
    theirs = bert(**changes)
    ours = from_hf_bert(theirs)
    torch.testing.assert_close(ours.logits(TEXT), theirs(TEXT).logits, rtol=0, atol=1e-9)
    lengths = torch.tensor([11, 6])
    real = torch.arange(11) < lengths[:, None]
    padded = theirs(TEXT, attention_mask=real.long()).logits
    torch.testing.assert_close(ours.logits(TEXT, lengths)[real], padded[real], rtol=0, atol=1e-9)
    torch.testing.assert_close(ours(TEXT), theirs.bert(TEXT).last_hidden_state, rtol=0, atol=1e-9)


def test_unsupported_models_are_rejected() -> None:
    theirs = gpt2()
    with pytest.raises(TypeError, match="pass its GPT2Config as config="):
        from_hf_gpt2(theirs.state_dict())
    with pytest.raises(ValueError, match=r"the state dict has no 'wte\.weight'"):
        from_hf_gpt2(bert().state_dict(), theirs.config)
    with pytest.raises(ValueError, match="scores here do not depend on the layer's number"):
        from_hf_gpt2(gpt2(scale_attn_by_inverse_layer_idx=True))
    with pytest.raises(ValueError, match=r"the activation must be one of .*, got 'silu'"):
        from_hf_gpt2(gpt2(activation_function="silu"))


def test_the_weights_are_copies() -> None:
    theirs = gpt2()
    ours = from_hf_gpt2(theirs)
    with torch.no_grad():
        before = ours(TEXT)
        theirs.transformer.wte.weight.zero_()
        assert torch.equal(ours(TEXT), before)
