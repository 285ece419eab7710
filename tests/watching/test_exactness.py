"""Recorded calls are exact in unusual ways of running a model, or are reported as not seen."""

import threading
import warnings
from concurrent.futures import ThreadPoolExecutor
from copy import deepcopy

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

import regard
from regard.watching import Recording

B, H, L, D = 2, 4, 6, 8
X = torch.randn(B, L, H * D, generator=torch.Generator().manual_seed(1))


class Attention(nn.Module):
    """Self-attention on torch's fused function; `options` are those of the function."""

    def __init__(self, **options: object) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.qkv, self.out = nn.Linear(H * D, 3 * H * D), nn.Linear(H * D, H * D)
        self.num_heads, self.options = H, options

    def parts(self, x: Tensor) -> list[Tensor]:
        return [y.unflatten(-1, (H, D)).transpose(-2, -3) for y in self.qkv(x).chunk(3, -1)]

    def weights(self, x: Tensor, visible: Tensor | None = None) -> Tensor:
        """Compute the weights without being seen."""
        with torch.no_grad(), torch._C.DisableTorchFunction():
            q, k, _ = self.parts(x)
            scores = q @ k.mT / D**0.5
            return (scores if visible is None else scores.masked_fill(~visible, -torch.inf)).softmax(-1)

    def forward(self, x: Tensor) -> Tensor:
        y = F.scaled_dot_product_attention(*self.parts(x), **self.options)
        return self.out(y.transpose(-2, -3).flatten(-2))


def watch(model: nn.Module, *inputs: object, **options: object) -> Recording:
    with torch.no_grad(), regard.watch(model, **options) as seen:
        model(*inputs)
    return seen


def llama(kv_heads: int = 2, **options: object) -> nn.Module:
    from transformers import LlamaConfig, LlamaForCausalLM

    torch.manual_seed(0)
    sizes = {"hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 2, "num_attention_heads": 4}
    special = {"bos_token_id": 1, "eos_token_id": 2, "pad_token_id": 0}
    config = LlamaConfig(vocab_size=60, num_key_value_heads=kv_heads, **sizes, **special)
    model = LlamaForCausalLM._from_config(config, **options)
    for parameter in model.parameters():  # larger weights than a new model has, so that heads differ
        parameter.data *= 4
    return model.eval()


IDS = torch.tensor([[0, 0, 5, 6, 7, 8], [9, 10, 11, 12, 13, 14]])
MASK = (IDS != 0).long()


def generate(implementation: str, kv_heads: int = 2, **options: object) -> Recording:
    model = llama(kv_heads, attn_implementation=implementation)
    with torch.no_grad(), regard.watch(model) as seen:
        model.generate(IDS, attention_mask=MASK, max_new_tokens=5, do_sample=False, min_new_tokens=5, **options)
    return seen


@pytest.mark.parametrize("options", [{}, {"cache_implementation": "static"}], ids=["dynamic", "static"])
def test_generation_with_padding_and_grouped_heads(options: dict) -> None:
    fused, eager = generate("sdpa", **options), generate("eager")
    assert len(fused.calls) == len(eager.calls) == 2 * 5
    for call, expected in zip(fused.calls, eager.calls, strict=True):
        size = expected.shape[3]
        assert call.shape[:3] == expected.shape[:3]
        real = torch.ones(expected.shape[:3], dtype=torch.bool)
        if call.shape[2] > 1:
            real &= MASK[:, None].bool()
        difference = (call.weights()[..., :size] - expected.weights()).abs().amax(-1)
        assert difference[real].max() < 1e-5
        assert (call.weights()[..., size:][real] == 0).all()
        assert call.positions.tolist() == expected.positions.tolist() == list(range(size - call.shape[2], size))
        torch.testing.assert_close(call.distance()[real], expected.distance()[real], atol=1e-4, rtol=0)
        torch.testing.assert_close(call.at_offset(0)[real], expected.at_offset(0)[real], atol=1e-5, rtol=0)


def test_keys_of_a_growing_cache_are_stored_once() -> None:
    seen = generate("sdpa")
    stored = {x.untyped_storage().data_ptr() for call in seen.calls for x in (call.k, call.v)}
    assert len(stored) <= 4  # two layers, keys and values


class Reordering(Attention):
    """Attention over a cache that is reordered, or whose heads are repeated in another order than grouped heads."""

    def __init__(self, change: object) -> None:
        super().__init__()
        self.change, self.keys, self.weights_used = change, None, []

    def forward(self, x: Tensor) -> Tensor:
        q, k, _ = self.parts(x)
        self.keys = torch.cat([k[:, :, :0] if self.keys is None else self.change(self.keys), k], 2)
        keys = self.keys
        with torch._C.DisableTorchFunction():
            self.weights_used.append((q @ keys.mT / D**0.5).softmax(-1))
        return F.scaled_dot_product_attention(q, keys, keys)


@pytest.mark.parametrize(
    "change", [lambda k: k, lambda k: k[[1, 0]], lambda k: k[torch.tensor([1, 0])], lambda k: k[:, [3, 2, 1, 0]]]
)
def test_reordered_caches(change: object) -> None:
    model = Reordering(change)
    with torch.no_grad(), regard.watch(model) as seen:
        for i in range(L):
            model(X[:, i : i + 1])
    for call, weights in zip(seen.calls, model.weights_used, strict=True):
        torch.testing.assert_close(call.weights(), weights)


def test_heads_repeated_as_a_whole_are_not_grouped_heads() -> None:
    class Tiled(Attention):
        keys = None

        def forward(self, x: Tensor) -> Tensor:
            q, k, _ = self.parts(x)
            k = k[:, :2]
            self.keys = torch.cat([k[:, :, :0] if self.keys is None else self.keys, k], 2)
            repeated = self.keys[:, None].expand(-1, 2, -1, -1, -1).reshape(B, H, -1, D)
            with torch._C.DisableTorchFunction():
                self.used = (q @ repeated.mT / D**0.5).softmax(-1)
            return F.scaled_dot_product_attention(q, repeated, repeated)

    model = Tiled()
    with torch.no_grad(), regard.watch(model) as seen:
        for i in range(3):
            model(X[:, i : i + 1])
    torch.testing.assert_close(seen.calls[-1].weights(), model.used)


def test_native_layers_in_inference_mode_keep_their_projections() -> None:
    model = nn.MultiheadAttention(16, 2, batch_first=True).eval()
    with torch.inference_mode(), regard.watch(model) as seen:
        x = torch.randn(1, 5, 16)
        expected = model(x, x, x, average_attn_weights=False)[1]
        model(x, x, x, need_weights=False)
        x.zero_()
    torch.testing.assert_close(seen.calls[-1].weights(), expected.clone())


@pytest.mark.parametrize("options", [{}, {"cache_implementation": "static"}], ids=["dynamic", "static"])
@pytest.mark.parametrize("implementation", ["sdpa", "eager"])
def test_steps_of_a_generation_are_one_call(implementation: str, options: dict) -> None:
    seen = generate(implementation, **options)
    generation = seen.generation()
    assert generation.steps == [0] * 6 + [1, 2, 3, 4]
    assert [call.shape for call in generation.calls] == [(2, 4, 10, 10)] * 2
    for call in generation.calls:
        steps = [step for step in seen.calls if step.name == call.name]
        start = 0
        for step in steps:
            weights = step.weights()[..., :10]
            rows = call.weights(queries=slice(start, start + step.shape[2]))
            torch.testing.assert_close(rows[..., : weights.shape[-1]], weights, atol=1e-6, rtol=0)
            assert (rows[..., weights.shape[-1] :] == 0).all()
            start += step.shape[2]
        torch.testing.assert_close(call.distance()[:, :, 6:7], steps[1].distance(), atol=1e-4, rtol=0)
    assert len(generation.summary()) == 8


def test_two_generations_in_one_block() -> None:
    model = llama(attn_implementation="sdpa")
    with torch.no_grad(), regard.watch(model) as seen:
        for _ in range(2):
            model.generate(IDS, attention_mask=MASK, max_new_tokens=3, do_sample=False, min_new_tokens=3)
    with pytest.raises(ValueError, match="contains 2 generations"):
        seen.generation()
    assert seen.generation(number=1).calls[0].shape == (2, 4, 8, 8)
    with pytest.raises(ValueError, match="contains no generation"):
        watch(Attention(), X).generation()


class InChunks(Attention):
    def forward(self, x: Tensor) -> Tensor:
        q, k, v = self.parts(x)
        parts = [F.scaled_dot_product_attention(q[:, :, i : i + 2], k, v) for i in range(0, L, 2)]
        return self.out(torch.cat(parts, 2).transpose(1, 2).flatten(2))


def test_chunks_of_queries_have_their_positions() -> None:
    model = InChunks()
    calls = watch(model, X).calls
    assert [call.positions.tolist() for call in calls] == [[0, 1], [2, 3], [4, 5]]
    torch.testing.assert_close(torch.cat([call.weights() for call in calls], 2), model.weights(X))


class Cross(Attention):
    def forward(self, x: Tensor, context: Tensor) -> Tensor:
        q, (_, k, v) = self.parts(x)[0], self.parts(context)
        return F.scaled_dot_product_attention(q, k, v)


def test_positions_are_unknown_in_cross_attention_unless_given() -> None:
    call = watch(Cross(), X[:, :3], X).calls[0]
    assert call.cross
    assert call.positions is None
    with pytest.raises(ValueError, match="distance needs the position of each query"):
        call.distance()
    assert call.entropy().shape == (B, H, 3)
    assert watch(Cross(), X[:, :3], X)[0].statistics.position.shape == (B, H, 3)


class Pooling(Attention):
    def forward(self, x: Tensor) -> Tensor:
        q, k, v = self.parts(x)
        return F.scaled_dot_product_attention(q[:, :, :1], k, v)


def test_given_positions_are_used() -> None:
    assert watch(Pooling(), X).calls[0].positions is None
    call = watch(Pooling(), X, positions=[0]).calls[0]
    expected = -(call.weights() * torch.arange(L)).sum(-1)
    torch.testing.assert_close(call.distance().float(), expected)


class Overwriting(Attention):
    """Attention that overwrites its keys and its mask after the call."""

    def __init__(self, mask: Tensor | None = None) -> None:
        super().__init__()
        self.mask = mask

    def forward(self, x: Tensor) -> Tensor:
        q, k, v = self.parts(x)
        k = k.clone()
        y = F.scaled_dot_product_attention(q, k, v, self.mask)
        (k if self.mask is None else self.mask).zero_()
        return y


def test_inference_tensors_are_copied() -> None:
    model = Overwriting()
    with torch.inference_mode(), regard.watch(model) as seen:
        model(X)
    torch.testing.assert_close(seen.calls[0].weights(), model.weights(X))


@pytest.mark.parametrize("dtype", [torch.bool, torch.float32])
def test_overwritten_masks_are_detected_or_copied(dtype: torch.dtype) -> None:
    visible = torch.ones(L, L, dtype=torch.bool).tril()
    mask = visible if dtype == torch.bool else torch.zeros(L, L).masked_fill(~visible, -torch.inf)
    with pytest.raises(RuntimeError, match="changed in place"):
        watch(Overwriting(mask.clone()), X).calls[0].weights()
    for keep in ("copies", "inference"):
        model = Overwriting(mask.clone())
        if keep == "copies":
            call = watch(model, X, keep="copies").calls[0]
        else:
            with torch.inference_mode():
                model.mask = mask.clone()
                call = watch(model, X).calls[0]
        torch.testing.assert_close(call.weights(), model.weights(X, visible))


def test_a_changed_bias_of_a_native_layer_is_detected() -> None:
    model = nn.MultiheadAttention(16, 2, batch_first=True).eval()
    x = torch.randn(1, 5, 16)
    seen = watch(model, x, x, x)
    with torch.no_grad():
        model.in_proj_bias += 1
    with pytest.raises(RuntimeError, match="changed in place"):
        seen.calls[0].weights()


def test_a_boolean_mask_is_shared_by_all_calls() -> None:
    mask = torch.ones(L, L, dtype=torch.bool).tril()
    seen = watch(nn.Sequential(Attention(attn_mask=mask), Attention(attn_mask=mask)), X)
    assert {call.boolean_mask.untyped_storage().data_ptr() for call in seen.calls} == {mask.data_ptr()}
    assert seen.calls[0].boolean_mask.dtype == torch.bool


class Broadcast(nn.Module):
    def forward(self, q: Tensor, k: Tensor, mask: Tensor | None = None) -> Tensor:
        return F.scaled_dot_product_attention(q, k, k, mask)


@pytest.mark.parametrize(
    ("query", "key", "mask"),
    [((1, 2, 4, 8), (3, 2, 5, 8), None), ((2, 3, 2, 4, 8), (2, 3, 2, 5, 8), (2, 1, 1, 4, 5)), ((4, 8), (5, 8), (4, 5))],
)
def test_broadcast_batches(query: tuple, key: tuple, mask: tuple | None) -> None:
    q, k = torch.randn(query), torch.randn(key)
    visible = None if mask is None else torch.rand(mask) > 0.3
    call = watch(Broadcast(), q, k, visible).calls[0]
    scores = q @ k.mT / 8**0.5
    scores = scores if visible is None else scores.masked_fill(~visible, -torch.inf)
    expected = scores.softmax(-1).nan_to_num()
    torch.testing.assert_close(call.weights().flatten(), expected.flatten())


def test_sinks_of_layers() -> None:
    layer = regard.nn.MultiHeadAttention(32, 4, causal=True, sinks=True)
    with torch.no_grad():
        layer.sinks.copy_(torch.tensor([0.0, 1.0, -1.0, 2.0]))
    seen = watch(layer, X)
    assert len(seen.calls) == 1
    call = seen.calls[0]
    expected = layer(X, weights=True)[1]
    torch.testing.assert_close(call.weights(), expected)
    torch.testing.assert_close(call.sink(), 1 - expected.sum(-1))
    torch.testing.assert_close(call.entropy(), -torch.special.xlogy(expected, expected).sum(-1), atol=1e-5, rtol=0)
    torch.testing.assert_close(call.received(), expected.sum(-2), atol=1e-5, rtol=0)
    torch.testing.assert_close(call.mass(0), expected[..., 0])
    torch.testing.assert_close(watch(layer, X, keep="statistics").calls[0].sink(), call.sink())


def test_alibi_of_layers() -> None:
    layer = regard.nn.MultiHeadAttention(32, 4, causal=True, alibi=True)
    call = watch(layer, X).calls[0]
    expected = layer(X, weights=True)[1]
    torch.testing.assert_close(call.weights(), expected)
    torch.testing.assert_close(call.entropy(), -torch.special.xlogy(expected, expected).sum(-1), atol=1e-5, rtol=0)
    assert call.bias is None  # no L×S table


def test_nested_tensors() -> None:
    model = Attention()
    items = [torch.randn(3, H * D), torch.randn(5, H * D)]
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="The PyTorch API of nested tensors")
        nested = torch.nested.nested_tensor(items, layout=torch.jagged)

        class OnNested(Attention):
            def forward(self, x: Tensor) -> Tensor:
                parts = [y.contiguous().unflatten(-1, (H, D)).transpose(1, 2) for y in self.qkv(x).chunk(3, -1)]
                return F.scaled_dot_product_attention(*parts)

        call = watch(OnNested(), nested).calls[0]
    for i, item in enumerate(items):
        n = len(item)
        torch.testing.assert_close(call.weights(batch=i)[:, :n, :n], model.weights(item[None])[0])


def test_vmap() -> None:
    model = Attention()
    x = torch.randn(3, B, L, H * D)
    with torch.no_grad(), regard.watch(model) as seen, warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="There is a performance drop")
        torch.vmap(model)(x)
    torch.testing.assert_close(seen.calls[0].weights(), model.weights(x).flatten(0, 1))


def test_statistics_under_autocast() -> None:
    model = Attention()
    with torch.autocast("cpu", torch.bfloat16):
        seen = watch(model, X)
        inside = seen.calls[0].weights()
        stored = watch(model, X, keep="statistics").calls[0].entropy()
    call = seen.calls[0]
    torch.testing.assert_close(inside, call.weights())
    assert (call.weights().sum(-1) - 1).abs().max() < 1e-6
    torch.testing.assert_close(stored, call.entropy(), atol=1e-5, rtol=0)


def test_gradient_checkpointing_records_each_call_once() -> None:
    from torch.utils.checkpoint import checkpoint

    class Checkpointed(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.inner = Attention()

        def forward(self, x: Tensor) -> Tensor:
            return checkpoint(self.inner, x, use_reentrant=False)

    model = Checkpointed()
    with regard.watch(model) as seen:
        model(X).sum().backward()
    assert [call.name for call in seen.calls] == ["inner"]
    torch.testing.assert_close(seen.calls[0].weights(), model.inner.weights(X))


def test_other_threads() -> None:
    model = Attention()

    def run() -> None:
        with torch.no_grad():
            model(X)

    with regard.watch(model) as seen:
        thread = threading.Thread(target=run)
        thread.start()
        thread.join()
    torch.testing.assert_close(seen.calls[0].weights(), model.weights(X))
    assert "forward" not in vars(model)


def test_parts_of_a_model_may_run_in_other_threads() -> None:
    class Parallel(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.parts = nn.ModuleList([Attention(), Attention()])

        def forward(self, x: Tensor) -> Tensor:
            with ThreadPoolExecutor(1) as pool:
                return sum(pool.map(lambda part: part(x), self.parts))

    model = Parallel()
    forward = Attention.forward
    with regard.watch(model) as seen:
        model(X)
    assert [call.name for call in seen.calls] == ["parts.0", "parts.1"]
    for call, part in zip(seen.calls, model.parts, strict=True):
        torch.testing.assert_close(call.weights(), part.weights(X))
    assert Attention.forward is forward


def test_copies_of_a_watched_model_run_their_own_code() -> None:
    model = Attention()
    with torch.no_grad(), regard.watch(model) as seen:
        copy = deepcopy(model)
        for parameter in copy.parameters():
            parameter.mul_(2)
        assert not torch.equal(copy(X), model(X))
    assert [unseen.module for unseen in seen.unseen] == ["Attention"]
    assert len(seen.calls) == 1


def test_direct_operators() -> None:
    class Direct(Attention):
        def forward(self, x: Tensor) -> Tensor:
            return torch.ops.aten._scaled_dot_product_flash_attention_for_cpu(*self.parts(x), 0.0, True)[0]

    model = Direct()
    torch.testing.assert_close(
        watch(model, X).calls[0].weights(), model.weights(X, torch.ones(L, L, dtype=torch.bool).tril())
    )


def test_exported_models() -> None:
    model = Attention().eval()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FutureWarning)
        exported = torch.export.export(model, (X,))
        graphs = [exported.module(), exported.run_decompositions().module()]
    for graph in graphs:
        seen = watch(graph, X)
        torch.testing.assert_close(seen.calls[0].weights(), model.weights(X))


def test_scripted_models_are_reported() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        scripted = torch.jit.trace(Attention().eval(), X)
    seen = watch(nn.Sequential(scripted), X)
    assert not seen.calls
    assert [(unseen.module, "TorchScript" in unseen.reason) for unseen in seen.unseen] == [("0", True)]


def test_compiled_models_run_uncompiled() -> None:
    model = Attention().eval()
    compiled = torch.compile(model, backend="eager", fullgraph=True)
    with torch.no_grad():
        compiled(X)
    seen = watch(compiled, X)
    torch.testing.assert_close(seen.calls[0].weights(), model.weights(X))
    assert any("uncompiled" in note for note in seen.notes)


def test_flex_attention() -> None:
    from torch.nn.attention.flex_attention import create_block_mask, flex_attention

    def score_mod(score: Tensor, b: Tensor, h: Tensor, i: Tensor, j: Tensor) -> Tensor:
        return 5 * torch.tanh(score / 5) - (h + 1) * (i - j)

    block_mask = create_block_mask(lambda b, h, i, j: i >= j, None, None, L, L, device="cpu")

    class Flex(Attention):
        def forward(self, x: Tensor) -> Tensor:
            return flex_attention(*self.parts(x), score_mod=score_mod, block_mask=block_mask)

    model = Flex()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        call = watch(model, X).calls[0]
    with torch.no_grad():
        q, k, _ = model.parts(X)
        i, j, h = torch.arange(L)[:, None], torch.arange(L), torch.arange(H)[:, None, None]
        scores = 5 * torch.tanh(q @ k.mT / D**0.5 / 5) - (h + 1) * (i - j)
        expected = scores.masked_fill(i < j, -torch.inf).softmax(-1)
    torch.testing.assert_close(call.weights(), expected)
    torch.testing.assert_close(call.at_offset(-1)[..., 1:], expected.diagonal(-1, -2, -1))
    torch.testing.assert_close(call.entropy(), -torch.special.xlogy(expected, expected).sum(-1), atol=1e-5, rtol=0)
    torch.testing.assert_close(expected @ call.v, call.output, atol=1e-5, rtol=0)


def test_attention_classes_without_a_recorded_call_are_reported() -> None:
    class LinearAttention(Attention):
        def forward(self, x: Tensor) -> Tensor:
            q, k, v = self.parts(x)
            return F.elu(q) @ (F.elu(k).mT @ v)

    seen = watch(nn.Sequential(LinearAttention()), X)
    assert not seen.calls
    assert [unseen.module for unseen in seen.unseen] == ["0"]


def test_values_outputs_and_contributions() -> None:
    model = Attention()
    call = watch(model, X).calls[0]
    weights = model.weights(X)
    with torch.no_grad():
        v = model.parts(X)[2]
        torch.testing.assert_close(call.v, v)
        torch.testing.assert_close(call.output, weights @ v)
        matrix = model.out.weight.T.unflatten(0, (H, D))
        expected = (weights[..., None] * (v @ matrix)[:, :, None]).norm(dim=-1)
    torch.testing.assert_close(call.contributions(), expected)
    torch.testing.assert_close(call.contributions(head=1, batch=0, queries=2), expected[0, 1, 2])


def test_vmap_over_a_mask_without_heads() -> None:
    class Masked(nn.Module):
        def forward(self, q: Tensor, k: Tensor, v: Tensor, mask: Tensor) -> Tensor:
            return F.scaled_dot_product_attention(q, k, v, mask)

    q, k, v = (torch.randn(B, H, L, D) for _ in range(3))
    mask = torch.ones(L, L, dtype=torch.bool).tril() & (torch.arange(L) != torch.arange(B)[:, None, None] + 2)
    mask[..., 0] = True
    with regard.watch(Masked()) as seen, warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="There is a performance drop")
        torch.vmap(seen.model)(q, k, v, mask)
    scores = (q @ k.mT * D**-0.5).masked_fill(~mask[:, None], float("-inf"))
    torch.testing.assert_close(seen.calls[0].weights(), scores.softmax(-1))


def test_forward_derivatives() -> None:
    class Eager(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            return (x @ x.mT).softmax(-1) @ x

    x = torch.randn(B, L, D)
    with regard.watch(Eager()) as seen:
        torch.func.jvp(seen.model, (x,), (x,))
    torch.testing.assert_close(seen.calls[0].weights(), (x @ x.mT).softmax(-1)[:, None])


def test_one_head_of_keys_in_a_static_cache() -> None:
    fused, eager = (generate(name, 1, cache_implementation="static") for name in ("sdpa", "eager"))
    for call, expected in zip(fused.calls, eager.calls, strict=True):
        real = MASK[:, None].bool().expand(call.shape[:3]) if call.shape[2] > 1 else torch.ones(call.shape[:3]) > 0
        assert (call.weights() - expected.weights()).abs().amax(-1)[real].max() < 1e-5


def test_cross_attention_under_vmap() -> None:
    class Cross(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.q = nn.Linear(D, D)

        def forward(self, query: Tensor, key: Tensor) -> Tensor:
            return F.scaled_dot_product_attention(self.q(query), key, key)

    x, y = torch.randn(2, B, L, D), torch.randn(2, B, L, D)
    with torch.no_grad(), regard.watch(Cross()) as seen, warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="There is a performance drop")
        torch.vmap(seen.model)(x, y)
    assert [call.cross for call in seen.calls] == [True]
