"""Every kind of attention call is recorded and kwargs, and watching changes no result."""

import subprocess
import sys
import warnings
from concurrent.futures import ThreadPoolExecutor

import pytest
import torch
from torch import nn

import regard
from regard import masks
from regard.watching import Recording


def run(model: nn.Module, *inputs, **kwargs) -> tuple[object, object, Recording]:
    """Return the output unwatched, the output watched, and the recording."""
    with torch.no_grad():
        plain = model(*inputs, **kwargs)
        with regard.watch(model) as seen:
            watched = model(*inputs, **kwargs)
    return plain, watched, seen


def first(out: object) -> torch.Tensor:
    return out if isinstance(out, torch.Tensor) else out[0]


X = torch.randn(2, 7, 16, generator=torch.Generator().manual_seed(0))
PADDED = torch.arange(7) >= torch.tensor([[7], [4]])

LAYERS = {
    "mha, fast path": (
        lambda: nn.MultiheadAttention(16, 2, batch_first=True).eval(),
        (X, X, X),
        {},
        "native multi-head",
    ),
    "mha, fused": (lambda: nn.MultiheadAttention(16, 2), (X, X, X), {"need_weights": False}, "scaled_dot"),
    "mha, with weights": (lambda: nn.MultiheadAttention(16, 2), (X, X, X), {}, "eager"),
    "encoder layer": (
        lambda: nn.TransformerEncoderLayer(16, 2, 32, batch_first=True).eval(),
        (X,),
        {},
        "native encoder",
    ),
    "encoder layer, norm first": (
        lambda: nn.TransformerEncoderLayer(16, 2, 32, batch_first=True, norm_first=True).eval(),
        (X,),
        {},
        "native encoder",
    ),
    "encoder layer, padded": (
        lambda: nn.TransformerEncoderLayer(16, 2, 32, batch_first=True).eval(),
        (X,),
        {"src_key_padding_mask": PADDED},
        "native encoder",
    ),
    "encoder layer, training": (
        lambda: nn.TransformerEncoderLayer(16, 2, 32, dropout=0.0, batch_first=True).train(),
        (X,),
        {},
        "scaled_dot",
    ),
    "ours": (lambda: regard.nn.MultiHeadAttention(16, 2, causal=True), (X,), {}, "regard.attend"),
    "ours, cross": (lambda: regard.nn.MultiHeadAttention(16, 4, kv_heads=2), (X, X[:, :3]), {}, "regard.attend"),
}


@pytest.mark.parametrize(("make", "inputs", "kwargs", "kernel"), LAYERS.values(), ids=LAYERS.keys())
def test_watching_changes_no_bit_and_records_the_call(make, inputs, kwargs, kernel) -> None:
    plain, watched, seen = run(make(), *inputs, **kwargs)
    assert torch.equal(first(plain), first(watched))
    assert len(seen.calls) == 1
    assert seen.calls[0].kernel.startswith(kernel)


def test_weights_of_a_fast_path_equal_those_of_the_layer() -> None:
    for padding in (None, PADDED):
        for norm_first in (False, True):
            layer = nn.TransformerEncoderLayer(16, 2, 32, batch_first=True, norm_first=norm_first).eval()
            _, _, seen = run(layer, X, src_key_padding_mask=padding)
            x = layer.norm1(X) if norm_first else X
            _, maps = layer.self_attn(x, x, x, key_padding_mask=padding, average_attn_weights=False)
            torch.testing.assert_close(seen.calls[0].weights(), maps, atol=1e-6, rtol=1e-5)
            assert seen.calls[0].name == "self_attn"


def test_nested_tensors_inside_an_encoder() -> None:
    model = nn.TransformerEncoder(nn.TransformerEncoderLayer(16, 2, 32, batch_first=True), 2).eval()
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="The PyTorch API of nested tensors")
        plain, watched, seen = run(model, X, src_key_padding_mask=PADDED)
    assert torch.equal(plain, watched)
    assert [call.name for call in seen.calls] == ["layers.0.self_attn", "layers.1.self_attn"]
    weights = seen.calls[1].weights(batch=1, head=0)
    assert (weights[:4, 4:] == 0).all()
    torch.testing.assert_close(weights[:4].sum(-1), torch.ones(4))


def test_calls_are_named_by_module_path() -> None:
    model = nn.Transformer(16, 2, 1, 2, 32, dropout=0.0, batch_first=True)
    _, _, seen = run(model, X, X[:, :5])
    assert [call.name for call in seen.calls] == [
        "encoder.layers.0.self_attn",
        "decoder.layers.0.self_attn",
        "decoder.layers.0.multihead_attn",
        "decoder.layers.1.self_attn",
        "decoder.layers.1.multihead_attn",
    ]
    assert seen["decoder.layers.0.multihead_attn"].shape == (2, 2, 5, 7)


@pytest.fixture(scope="module")
def transformers():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        module = pytest.importorskip("transformers")
        module.logging.set_verbosity_error()
        return module


SMALL = {"vocab_size": 100, "bos_token_id": 0, "eos_token_id": 0, "pad_token_id": 0}
IDS = torch.randint(0, 100, (2, 9), generator=torch.Generator().manual_seed(0))
REAL = (torch.arange(9) < torch.tensor([[9], [6]])).long()
WIDE = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 64}
HUGGING_FACE_MODELS = {
    "gpt2": ("GPT2Model", {"n_layer": 2, "n_embd": 32, "n_head": 4, **SMALL}, {"input_ids": IDS}),
    "gpt2, padded": (
        "GPT2Model",
        {"n_layer": 2, "n_embd": 32, "n_head": 4, **SMALL},
        {"input_ids": IDS, "attention_mask": REAL},
    ),
    "bert": ("BertModel", {**WIDE, **SMALL}, {"input_ids": IDS, "attention_mask": REAL}),
    "llama": ("LlamaModel", {**WIDE, "num_key_value_heads": 2, **SMALL}, {"input_ids": IDS}),
    "vit": ("ViTModel", {**WIDE, "image_size": 32, "patch_size": 8}, {"pixel_values": torch.randn(1, 3, 32, 32)}),
    "t5": (
        "T5Model",
        {"num_layers": 2, "d_model": 32, "num_heads": 4, "d_ff": 64, "d_kv": 8, **SMALL, "decoder_start_token_id": 0},
        {"input_ids": IDS, "decoder_input_ids": IDS[:, :5]},
    ),
}


@pytest.mark.parametrize(("kind", "options", "inputs"), HUGGING_FACE_MODELS.values(), ids=HUGGING_FACE_MODELS.keys())
@pytest.mark.filterwarnings("ignore")
def test_hugging_face_models_on_fused_attention(transformers, kind: str, options: dict, inputs: dict) -> None:
    config = getattr(transformers, kind.replace("Model", "Config"))(**options)
    model = getattr(transformers, kind)._from_config(config, attn_implementation="sdpa").eval()
    eager = getattr(transformers, kind)._from_config(config, attn_implementation="eager").eval()
    eager.load_state_dict(model.state_dict())
    plain, watched, seen = run(model, **inputs)
    assert torch.equal(plain.last_hidden_state, watched.last_hidden_state)
    with torch.no_grad(), regard.watch(eager) as eager_seen:
        eager(**inputs)
    assert [call.name for call in seen.calls] == [call.name for call in eager_seen.calls]
    for call, eager_call in zip(seen.calls, eager_seen.calls, strict=True):
        assert eager_call.kernel == "eager softmax"
        real = eager_call.eager_weights.sum(-1) > 0.5
        assert (call.weights() - eager_call.eager_weights)[real].abs().max() < 1e-5
        one = call.weights(head=1, queries=[0, -1], batch=0)
        torch.testing.assert_close(one, call.weights()[0, 1][[0, -1]])


@pytest.mark.filterwarnings("ignore")
def test_decoding_with_a_cache(transformers) -> None:
    config = transformers.GPT2Config(n_layer=1, n_embd=32, n_head=4, **SMALL)
    model = transformers.GPT2Model._from_config(config, attn_implementation="sdpa").eval()
    with torch.no_grad(), regard.watch(model) as seen:
        past = model(input_ids=IDS[:, :6]).past_key_values
        model(input_ids=IDS[:, 6:7], past_key_values=past)
    assert [call.shape[2:] for call in seen.calls] == [(6, 6), (1, 7)]
    torch.testing.assert_close(seen.calls[1].weights().sum(-1), torch.ones(2, 4, 1))
    with torch.no_grad(), regard.watch(model) as whole:
        model(input_ids=IDS[:, :7])
    torch.testing.assert_close(seen.calls[1].weights(), whole.calls[0].weights(queries=[6]), atol=1e-6, rtol=1e-4)


@pytest.mark.filterwarnings("ignore")
def test_x_transformers_with_flash() -> None:
    x_transformers = pytest.importorskip("x_transformers")
    model = x_transformers.Encoder(dim=32, depth=2, heads=4, attn_dim_head=8, attn_flash=True).eval()
    plain, watched, seen = run(model, torch.randn(1, 6, 32))
    assert torch.equal(plain, watched)
    assert len(seen.calls) == 2
    assert seen.calls[0].shape == (1, 4, 6, 6)
    assert seen.calls[0].name


def test_training_and_autocast() -> None:
    model = regard.nn.MultiHeadAttention(16, 2, causal=True)
    with regard.watch(model) as seen:
        model(X).square().sum().backward()
        with torch.autocast("cpu", dtype=torch.bfloat16):
            model(X)
    assert model.qkv.weight.grad is not None
    assert len(seen.calls) == 2
    torch.testing.assert_close(seen.calls[1].weights(), seen.calls[0].weights(), atol=2e-2, rtol=0)


# -- the options keep, only and max_calls ---------------------------------------------------------------------


def test_inputs_are_copied_only_with_keep_copies() -> None:
    class Attention(nn.Module):
        def forward(self, q: torch.Tensor) -> torch.Tensor:
            return nn.functional.scaled_dot_product_attention(q, q, q)

    q = torch.randn(1, 2, 5, 4)
    model = Attention()
    for keep, same in (("inputs", True), ("copies", False)):
        with regard.watch(model, keep=keep) as seen:
            model(q)
        assert (seen.calls[0].q.data_ptr() == q.data_ptr()) is same


def test_in_place_change_after_the_call_is_detected() -> None:
    model = regard.nn.MultiHeadAttention(16, 2)
    with torch.no_grad(), regard.watch(model) as seen:
        model(X)
    seen.calls[0].queries.mul_(2)
    with pytest.raises(RuntimeError, match=r"changed in place .* keep='statistics'"):
        seen.calls[0].weights()


def test_keep_statistics_stores_no_queries_and_keys() -> None:
    model = regard.nn.MultiHeadAttention(16, 2, causal=True)
    with torch.no_grad():
        with regard.watch(model) as full:
            model(X)
        with regard.watch(model, keep="statistics") as seen:
            model(X)
    assert len(seen.calls) == 1
    torch.testing.assert_close(seen.calls[0].entropy(), full.calls[0].entropy())
    assert seen.calls[0].queries is None
    with pytest.raises(ValueError, match="keep='inputs'"):
        seen.calls[0].weights()


def test_only_and_max_calls() -> None:
    model = nn.Transformer(16, 2, 2, 2, 32, dropout=0.0, batch_first=True)
    for only, count in (("encoder", 2), ("*.multihead_attn", 2), (["decoder.layers.0"], 2), (lambda name: True, 6)):
        with torch.no_grad(), regard.watch(model, only=only) as seen:
            model(X, X)
        assert len(seen.calls) == count, only
    with torch.no_grad(), regard.watch(model, max_calls=3) as seen:
        model(X, X)
    assert len(seen.calls) == 3
    assert seen.skipped


def test_torch_is_restored_after_an_error() -> None:
    from regard.attention.listeners import call_listeners

    before = torch.overrides.has_torch_function, torch.nn.functional.has_torch_function
    model = regard.nn.MultiHeadAttention(16, 2)
    with pytest.raises(ValueError, match="takes x of shape"), regard.watch(model) as seen:
        model(torch.randn(2, 7, 3))
    assert not seen.calls
    assert (torch.overrides.has_torch_function, torch.nn.functional.has_torch_function) == before
    assert not call_listeners
    assert not torch.nn.modules.module._global_forward_hooks
    model(X)
    assert not seen.calls


@pytest.mark.parametrize("keep", ["inputs", "statistics"])
def test_each_thread_records_its_own_calls(keep) -> None:
    from regard.attention.listeners import call_listeners

    before = torch.overrides.has_torch_function, torch.nn.functional.has_torch_function
    model = regard.nn.MultiHeadAttention(16, 2).eval()
    queries = [torch.randn(1, length, 16) for length in (3, 4, 5, 6)]

    def watched(x: torch.Tensor) -> list[tuple[int, ...]]:
        shapes = []
        for _ in range(30):
            with torch.no_grad(), regard.watch(model, keep=keep) as seen:
                model(x)
                model(x)
            shapes += [call.shape for call in seen.calls]
        return shapes

    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)  # makes threads switch as often as possible
    try:
        with ThreadPoolExecutor(len(queries)) as pool:
            shapes = list(pool.map(watched, queries))
    finally:
        sys.setswitchinterval(interval)
    assert shapes == [[(1, 2, x.shape[1], x.shape[1])] * 60 for x in queries]
    assert not call_listeners
    assert (torch.overrides.has_torch_function, torch.nn.functional.has_torch_function) == before


def test_error_without_calls_lists_reasons() -> None:
    model = nn.Linear(4, 4)
    with regard.watch(model) as seen:
        model(torch.randn(2, 4))
    with pytest.raises(ValueError, match=r"no attention call was recorded.*kernel of its own"):
        seen.summary()


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda: regard.watch(lambda x: x).__enter__(), TypeError, "nn.Module, got function"),
        (
            lambda: regard.watch(nn.Linear(1, 1), keep="all").__enter__(),
            ValueError,
            "'inputs', 'copies' or 'statistics'",
        ),
        (lambda: regard.watch(nn.Linear(1, 1), max_calls=0).__enter__(), ValueError, "at least 1"),
    ],
)
def test_invalid_arguments(call, error, message, unchecked) -> None:
    with pytest.raises(error, match=message):
        call()


@pytest.mark.parametrize("order", ["import regard", "import regard.watching.recording, regard"])
def test_watch_is_a_function_in_any_import_order(order: str) -> None:
    code = f"{order}; import torch, regard\nwith regard.watch(torch.nn.Linear(1, 1)) as seen: pass\nprint(len(seen))"
    process = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert process.stdout.strip() == "0", process.stderr


def test_causal_mask_of_torch_is_aligned_at_the_start() -> None:
    class StartAligned(nn.Module):
        def forward(self, q: torch.Tensor, k: torch.Tensor) -> torch.Tensor:
            return nn.functional.scaled_dot_product_attention(q, k, k, is_causal=True)

    q, k = torch.randn(1, 1, 2, 4), torch.randn(1, 1, 5, 4)
    _, _, seen = run(StartAligned(), q, k)
    assert (seen.calls[0].weights()[0, 0] > 0).tolist() == [[True] + [False] * 4, [True, True] + [False] * 3]
    assert isinstance(seen.calls[0].mask, masks.Mask)


@pytest.mark.parametrize(
    "make",
    [lambda: nn.TransformerEncoderLayer(16, 2, batch_first=True).eval(), lambda: regard.nn.MultiHeadAttention(16, 2)],
)
def test_inference_mode(make) -> None:
    model, x = make(), torch.randn(1, 4, 16)
    with torch.inference_mode(), regard.watch(model) as seen:
        model(x)
        inside = seen.calls[0].weights(head=0)
    with torch.no_grad(), regard.watch(model) as plain:
        model(x)
    assert torch.allclose(inside, plain.calls[0].weights(head=0), atol=1e-6)
    assert torch.allclose(seen.calls[0].entropy(), plain.calls[0].entropy(), atol=1e-6)
