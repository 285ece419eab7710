"""regard.intervene on the layers of torch, regard and transformers: caches, cross-attention, training, threads."""

import threading
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

import regard
from regard.interventions import ablate, knockout, patch, reweight
from tests.support.edited_attention import Layer, Reference, multiplied

transformers = pytest.importorskip("transformers")


def gpt2(implementation: str = "sdpa", **changes: Any) -> nn.Module:
    torch.manual_seed(0)
    config = transformers.GPT2Config(
        n_layer=2, n_embd=32, n_head=4, vocab_size=50, n_positions=64, bos_token_id=0, eos_token_id=0, **changes
    )
    model = transformers.GPT2LMHeadModel._from_config(config, attn_implementation=implementation).eval()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.mul_(3)
    return model


IDS = torch.tensor([[5, 9, 2, 7, 7, 3, 1, 8], [4, 4, 6, 2, 9, 1, 3, 3]])


@pytest.mark.parametrize("need_weights", [False, True])
@pytest.mark.parametrize("grad", [False, True])
def test_multihead_attention_of_torch_on_every_path(need_weights: bool, grad: bool) -> None:
    torch.manual_seed(0)
    layer = nn.MultiheadAttention(12, 4, batch_first=True).eval()
    x, padding = torch.randn(2, 6, 12), torch.tensor([[False] * 6, [False] * 4 + [True] * 2])
    with torch.set_grad_enabled(grad):
        expected = layer(x, x, x, key_padding_mask=padding | (torch.arange(6) == 1), need_weights=need_weights)
        with regard.intervene(layer, {"*": knockout(keys=1)}), regard.watch(layer) as seen:
            out = layer(x, x, x, key_padding_mask=padding, need_weights=need_weights)
    torch.testing.assert_close(out[0], expected[0])
    if need_weights:
        torch.testing.assert_close(out[1], expected[1])
    assert (seen[0].weights(keys=1) == 0).all()
    assert torch.backends.mha.get_fastpath_enabled()


def test_encoder_and_decoder_of_torch_leave_their_native_path() -> None:
    torch.manual_seed(0)
    model = nn.Transformer(12, 2, 2, 2, 24, batch_first=True).eval()
    source, target = torch.randn(2, 5, 12), torch.randn(2, 4, 12)
    hidden = torch.zeros(4, 5, dtype=torch.bool)
    hidden[:, 3] = True
    with torch.no_grad():
        expected = model(source, target, memory_mask=hidden)
        with regard.intervene(model, {"decoder.*.multihead_attn": knockout(keys=3)}):
            out = model(source, target)
        encoded = model.encoder(source)
        with regard.intervene(model.encoder, {"layers.0.*": ablate(0), "layers.1.*": ablate([0, 1])}):
            changed = model.encoder(source)
    torch.testing.assert_close(out, expected)
    assert not torch.allclose(encoded, changed)


@pytest.mark.parametrize("implementation", ["sdpa", "eager"])
def test_a_generation_with_a_cache_is_changed_as_one_pass_over_the_text(implementation: str) -> None:
    model = gpt2(implementation)
    changes = {"*": [knockout(queries=slice(5, None), keys=[1, 2]), reweight(keys=-1, by=0.2)]}
    ablation = regard.intervene(model, {"*.1.attn": ablate(2, queries=[3, 9])})
    with torch.no_grad(), regard.intervene(model, changes), regard.watch(model) as seen, ablation:
        ids = model.generate(
            IDS, attention_mask=torch.ones_like(IDS), max_new_tokens=5, do_sample=False, pad_token_id=0,
            return_dict_in_generate=True, output_logits=True,
        )  # fmt: skip
    with torch.no_grad():
        for length in range(IDS.shape[1], ids.sequences.shape[1]):
            # The cached keys and values of earlier tokens were changed when their last key was another.
            with regard.intervene(model, changes), regard.watch(model) as whole:
                logits = model(ids.sequences[:, :length], use_cache=False).logits[:, -1]
            step = length - IDS.shape[1]
            assert logits.shape == ids.logits[step].shape
            first = seen.calls[2 * step].weights(queries=-1)
            torch.testing.assert_close(first, whole.calls[0].weights(queries=-1), atol=1e-5, rtol=1e-5)
    assert (seen.calls[-2].weights(keys=[1, 2]) == 0).all()
    assert (seen.calls[3].output[:, 2] != 0).any()  # position 8
    assert (seen.calls[5].output[:, 2] == 0).all()  # position 9


def test_a_static_cache_numbers_queries_by_position() -> None:
    model = gpt2()
    cache = transformers.StaticCache(config=model.config, max_cache_len=16)
    with torch.no_grad(), regard.intervene(model, {"*.0.attn": ablate(1, queries=8)}), regard.watch(model) as seen:
        model(IDS, past_key_values=cache, use_cache=True)
        for token in range(2):
            position = torch.tensor([8 + token])
            model(IDS[:, :1], past_key_values=cache, use_cache=True, position_ids=position[None].expand(2, 1))
    ablated = [bool((call.output[:, 1] == 0).all()) for call in seen.calls if "0.attn" in call.name]
    assert ablated == [False, True, False]


def test_grouped_heads_of_a_padded_generation_are_those_of_the_queries() -> None:
    torch.manual_seed(0)
    config = transformers.LlamaConfig(
        hidden_size=32, intermediate_size=64, num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=2,
        vocab_size=50, max_position_embeddings=64,
    )  # fmt: skip
    models = [
        transformers.LlamaForCausalLM._from_config(config, attn_implementation=x).eval() for x in ("sdpa", "eager")
    ]
    models[1].load_state_dict(models[0].state_dict())
    mask = torch.ones_like(IDS)
    mask[1, :3] = 0
    logits = []
    for model in models:
        with torch.no_grad(), regard.intervene(model, {"*": [ablate(3), knockout(keys=4, heads=[1], queries=-1)]}):
            out = model.generate(
                IDS, attention_mask=mask, max_new_tokens=3, do_sample=False, pad_token_id=0, output_logits=True,
                return_dict_in_generate=True,
            )  # fmt: skip
        logits.append(torch.stack(out.logits))
    torch.testing.assert_close(*logits, atol=1e-5, rtol=1e-4)


def test_layers_of_regard_with_caches_and_sinks() -> None:
    torch.manual_seed(0)
    layer = regard.nn.MultiHeadAttention(12, 4, kv_heads=2, causal=True, sinks=True).eval()
    x = torch.randn(2, 6, 12)
    change = {"*": [knockout(keys=2, queries=slice(4, None)), ablate(1)]}
    with torch.no_grad(), regard.intervene(layer, change):
        expected = layer(x)
        cache = layer.new_cache(2, 6) if hasattr(layer, "new_cache") else None
        if cache is not None:
            out = torch.cat([layer(x[:, i : i + 1], cache=cache) for i in range(6)], 1)
            torch.testing.assert_close(out, expected, atol=1e-5, rtol=1e-5)
    assert expected.isfinite().all()


def test_attend_with_lse_returns_the_log_sum_exp_of_the_visible_keys() -> None:
    torch.manual_seed(0)
    q, k, v = torch.randn(3, 2, 4, 6, 8)

    class Model(nn.Module):
        def forward(self, k: Tensor, v: Tensor) -> Any:
            return regard.attend_with_lse(q, k, v)

    model, kept = Model(), [0, 1, 3, 4, 5]
    with regard.intervene(model, {"*": knockout(keys=2)}):
        out = model(k, v)
    torch.testing.assert_close(out, model(k[:, :, kept], v[:, :, kept]))


@pytest.mark.parametrize("way", ["sdpa", "attend", "eager"])
def test_training_with_dropout_drops_changed_weights(way: str) -> None:
    """With values 1 the output is the sum of the weights after dropout: each is 0 or doubled, hidden ones are 0."""
    torch.manual_seed(0)
    layer = Layer(way, dropout=0.5)
    with torch.no_grad():
        layer.value.weight.zero_()
        layer.value.bias.fill_(1.0)
        layer.query.weight.zero_()
        layer.query.bias.zero_()
    x, seen = torch.randn(200, 5, 12), []
    layer.out = nn.Identity()
    with regard.intervene(layer, {"*": knockout(keys=[0, 1, 2])}):
        seen.append(layer(x))
    values = seen[0].detach().unique().round(decimals=4).unique().tolist()  # two keys with weight ½
    assert values == [0.0, 1.0, 2.0]
    with regard.intervene(layer, {"*": knockout(keys=[0], queries=2)}):
        assert layer(x).isfinite().all()


def test_gradient_checkpointing_inside_the_block_has_the_right_gradients() -> None:
    from torch.utils.checkpoint import checkpoint

    torch.manual_seed(0)
    layer, x = Layer("sdpa").double(), torch.randn(2, 6, 12, dtype=torch.float64, requires_grad=True)

    class Model(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer = layer

        def forward(self, x: Tensor) -> Tensor:
            return checkpoint(self.layer, x, use_reentrant=False)

    factors = torch.ones(2, 4, 6, 6, dtype=torch.float64)
    factors[..., 3] = 0.1
    expected = torch.autograd.grad(Reference(layer, lambda w: multiplied(w, factors))(x).square().sum(), x)
    model = Model()
    with regard.intervene(model, {"layer": reweight(keys=3, by=0.1)}):
        model(x).square().sum().backward()
        again = torch.autograd.grad(model(x).square().sum(), x)
    torch.testing.assert_close(x.grad, expected[0])
    torch.testing.assert_close(again, expected)


@pytest.mark.filterwarnings("ignore:flex_attention called without")
def test_flex_attention_and_compiled_models() -> None:
    torch.manual_seed(0)
    layer, x = Layer("flex", causal=True, width=4), torch.randn(2, 6, 12)  # torch 2.6 has powers of 2 only
    factors = torch.ones(2, 4, 6, 6)
    factors[:, 1, 3:, 2] = 0
    reference = Reference(layer, lambda w: multiplied(w, factors))
    with torch.no_grad(), regard.intervene(layer, {"*": knockout(keys=2, heads=1, queries=slice(3, None))}):
        with regard.watch(layer) as seen:
            out = layer(x)
        torch.testing.assert_close(out, reference(x), atol=1e-5, rtol=1e-5)
        torch.testing.assert_close(seen[0].weights(), reference.weights(x), atol=1e-6, rtol=1e-5)
    model = torch.compile(Layer("sdpa"), backend="eager")
    with torch.no_grad():
        plain = model(x)
        with regard.intervene(model, {"*": ablate()}):
            out = model(x)
    assert not torch.allclose(plain, out)


def test_a_model_that_runs_in_another_thread_is_changed() -> None:
    torch.manual_seed(0)
    layer, x, results = Layer("sdpa"), torch.randn(2, 6, 12), []
    with torch.no_grad(), regard.intervene(layer, {"*": ablate()}):
        expected = layer(x)
        thread = threading.Thread(target=lambda: results.append(layer(x)))
        thread.start()
        thread.join()
    torch.testing.assert_close(results[0].detach(), expected)


def test_autocast_and_half_precision() -> None:
    torch.manual_seed(0)
    layer, x = Layer("sdpa", causal=True), torch.randn(2, 40, 12)
    change = {"*": [reweight(keys=slice(0, 20), by=0.3), ablate(1)]}
    with torch.no_grad(), regard.intervene(layer, change):
        expected = layer(x)
        with torch.autocast("cpu", torch.bfloat16):
            out = layer(x)
        half = layer.bfloat16()(x.bfloat16())
    assert out.dtype == torch.bfloat16
    torch.testing.assert_close(out.float(), expected, atol=0.03, rtol=0.03)
    torch.testing.assert_close(half.float(), expected, atol=0.03, rtol=0.03)


def test_ablation_to_the_mean_of_a_reference_run() -> None:
    torch.manual_seed(0)
    layer, x = Layer("sdpa"), torch.randn(2, 6, 12)
    with torch.no_grad(), regard.watch(layer) as reference:
        layer(torch.randn(3, 9, 12))
        layer(torch.randn(1, 4, 12))
    outputs = torch.cat([call.output.transpose(1, 2).flatten(0, 1) for call in reference.calls])
    with torch.no_grad(), regard.intervene(layer, {"*": ablate(2, to=reference)}), regard.watch(layer) as seen:
        layer(x)
    torch.testing.assert_close(seen[0].output[:, 2], outputs.mean(0)[2].expand(2, 6, 3))


def test_patched_values_of_eager_attention() -> None:
    torch.manual_seed(0)
    eager, fused = Layer("eager"), Layer("sdpa")
    fused.load_state_dict(eager.state_dict())
    x, other = torch.randn(2, 2, 6, 12)
    outputs = []
    for layer in (eager, fused):
        with torch.no_grad(), regard.watch(layer) as seen:
            layer(other)
        with torch.no_grad(), regard.intervene(layer, {"*": patch(seen, "v", heads=1, keys=[0, 4])}):
            outputs.append(layer(x))
    torch.testing.assert_close(*outputs)


def test_the_model_is_as_before_after_the_block() -> None:
    model = gpt2()
    with torch.no_grad():
        before = model(IDS).logits
        with regard.intervene(model, {"*": ablate()}):
            assert not torch.equal(model(IDS).logits, before)
        with pytest.raises(KeyError), regard.intervene(model, {"*": ablate()}):
            raise KeyError
        assert torch.equal(model(IDS).logits, before)
    from regard.attention.listeners import call_changers, call_listeners

    assert not call_changers
    assert not call_listeners


def test_softmax_over_experts_is_left_as_it_is() -> None:
    class Mixture(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.gate, self.attention = nn.Linear(12, 4), Layer("eager")

        def forward(self, x: Tensor) -> Tensor:
            experts = F.softmax(self.gate(x), -1)
            return self.attention(x) * experts.sum(-1, keepdim=True)

    torch.manual_seed(0)
    model, x = Mixture(), torch.randn(2, 6, 12)
    with torch.no_grad(), regard.intervene(model, {"*": knockout(keys=0)}):
        out = model(x)
    factors = torch.ones(2, 4, 6, 6)
    factors[..., 0] = 0
    torch.testing.assert_close(out, Reference(model.attention, lambda w: multiplied(w, factors))(x))


@pytest.mark.parametrize("form", ["norm", "log-sum-exp"])
@pytest.mark.parametrize("grad", [False, True])
def test_softmax_by_hand_whose_rows_sum_to_one(form: str, grad: bool) -> None:
    class ByHand(nn.Module):
        hidden = torch.zeros(5)

        def forward(self, x: Tensor) -> Tensor:
            scores = x @ x.mT / 2 + self.hidden
            if form == "norm":
                e = torch.expm1(scores) + 1
                return e / e.norm(p=1, dim=-1, keepdim=True) @ x
            total = scores[..., :1]
            for j in range(1, 5):
                total = torch.logaddexp(total, scores[..., j : j + 1])
            return (scores - total).exp() @ x

    torch.manual_seed(0)
    model, x = ByHand(), torch.randn(2, 5, 4, requires_grad=grad)
    with torch.set_grad_enabled(grad):
        with regard.intervene(model, {"*": knockout(keys=1)}), regard.watch(model) as seen:
            out = model(x)
        model.hidden = torch.zeros(5).index_fill(0, torch.tensor(1), float("-inf"))
        expected = model(x)
    torch.testing.assert_close(out, expected)
    assert (seen[0].weights(keys=1) == 0).all()
    if grad:
        gradients = [torch.autograd.grad(y.square().sum(), x)[0] for y in (out, expected)]
        torch.testing.assert_close(*gradients)
