"""Models without mistakes, padded, cached, with encoder and decoder: the doctor must find nothing."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from support import small_models
from support.checked_models import IDS, LEFT, LLAMA, RIGHT, SMALL, TOKENS, build, findings


def forward(**inputs: Any) -> Callable[[nn.Module], Any]:
    return lambda model: model(**inputs)


def generate(**options: Any) -> Callable[[Any], Any]:
    return lambda model: model.generate(
        IDS, attention_mask=LEFT, max_new_tokens=5, do_sample=False, eos_token_id=None, **options
    )


DECODERS: dict[str, dict[str, Any]] = {
    "Llama": LLAMA,
    "Qwen2": LLAMA,
    "Qwen3": {**LLAMA, "head_dim": 8},
    "Mistral": {**LLAMA, "sliding_window": 4},
    "Gemma2": {**LLAMA, "head_dim": 8, "query_pre_attn_scalar": 24, "sliding_window": 4},  # softcap: eager only
    "Gemma": {**LLAMA, "head_dim": 16},
    "GPT2": {**TOKENS, "n_embd": 32, "n_layer": 2, "n_head": 4, "scale_attn_by_inverse_layer_idx": True},
}


@pytest.mark.parametrize("implementation", ["sdpa", "eager"])
@pytest.mark.parametrize("name", DECODERS)
class TestDecoders:
    @pytest.mark.parametrize("padding", [LEFT, RIGHT], ids=["left", "right"])
    def test_padded_batch(self, name: str, implementation: str, padding: Tensor) -> None:
        model = build(name, implementation, **DECODERS[name])
        run = forward(input_ids=IDS, attention_mask=padding)
        assert findings(model, run, padding=padding, causal=True) == []

    def test_generation_with_left_padding(self, name: str, implementation: str) -> None:
        model = build(name, implementation, **DECODERS[name])
        assert findings(model, generate(), keep="copies", padding=LEFT, causal=True) == []


@pytest.mark.parametrize("implementation", ["sdpa", "eager"])
def test_small_parameters(implementation: str) -> None:
    model = build("Llama", implementation, **LLAMA)
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if "q_proj" in name or "k_proj" in name:
                parameter.div_(parameter.abs().max() * 500)
    assert findings(model, forward(input_ids=IDS), causal=True) == []


def test_configurations_with_fields_that_differ_between_layers() -> None:
    class Config:
        @property
        def qk_nope_head_dim(self) -> int:
            raise ValueError("a per-layer attribute")

        num_attention_heads = sliding_window = layer_types = qk_nope_head_dim

    model = build("Llama", "eager", **LLAMA)
    for layer in model.model.layers:
        layer.self_attn.config = Config()
        layer.self_attn.config._attn_implementation = "eager"
    assert findings(model, forward(input_ids=IDS), causal=True) == []


def test_sinks() -> None:
    options = {**LLAMA, "head_dim": 8, "num_local_experts": 2, "num_experts_per_tok": 1, "sliding_window": 4}
    model = build("GptOss", "eager", **options)
    assert findings(model, forward(input_ids=IDS, attention_mask=LEFT), padding=LEFT, causal=True) == []


def test_static_cache() -> None:
    model = build("Llama", "sdpa", **LLAMA)
    run = generate(cache_implementation="static", disable_compile=True)
    assert findings(model, run, keep="copies", padding=LEFT, causal=True) == []


def test_beams() -> None:
    model = build("Llama", "sdpa", **LLAMA)
    assert findings(model, generate(num_beams=3), keep="copies", padding=LEFT, causal=True) == []


@pytest.mark.parametrize("implementation", ["sdpa", "eager"])
def test_statistics_only(implementation: str) -> None:
    model = build("Llama", implementation, **LLAMA)
    run = forward(input_ids=IDS, attention_mask=RIGHT)
    result = findings(model, run, keep="statistics", padding=RIGHT, causal=True)
    assert result == []
    assert ("model.layers.0.self_attn", "future") in result.checked
    assert any(check == "scale" for _, check, _ in result.not_checked)


ENCODERS: dict[str, dict[str, Any]] = {
    "Bert": {**SMALL, "vocab_size": 50},
    "Albert": {**SMALL, "vocab_size": 50, "embedding_size": 16, "num_hidden_layers": 3},
    "Esm": {**SMALL, "vocab_size": 50, "pad_token_id": 1, "position_embedding_type": "rotary"},
    "DebertaV2": {**SMALL, "vocab_size": 50, "relative_attention": True, "pos_att_type": ["p2c", "c2p"]},
}


@pytest.mark.parametrize("implementation", ["sdpa", "eager"])
@pytest.mark.parametrize("name", ENCODERS)
def test_encoders(name: str, implementation: str) -> None:
    model = build(name, implementation, **ENCODERS[name])
    assert findings(model, forward(input_ids=IDS, attention_mask=RIGHT), padding=RIGHT) == []


WIDE = {"d_model": 32, "encoder_layers": 2, "decoder_layers": 2, "encoder_attention_heads": 4,
        "decoder_attention_heads": 4, "encoder_ffn_dim": 48, "decoder_ffn_dim": 48}  # fmt: skip


@pytest.mark.parametrize("implementation", ["sdpa", "eager"])
@pytest.mark.parametrize("length", [9, 6])
@pytest.mark.parametrize("name", ["T5", "Bart", "Marian"])
def test_encoder_decoder(name: str, implementation: str, length: int) -> None:
    t5 = {"d_model": 32, "d_kv": 8, "d_ff": 48, "num_layers": 2, "num_heads": 4, "decoder_start_token_id": 0}
    options = {**TOKENS, **(t5 if name == "T5" else {**WIDE, "decoder_start_token_id": 2})}
    model = build(name, implementation, **options)
    run = forward(input_ids=IDS, attention_mask=RIGHT, decoder_input_ids=IDS.flip(0)[:, :length])
    result = findings(model, run, padding=RIGHT, causal=True)
    assert result == []
    names = {call for call, check in result.checked if check == "future"}
    assert names
    assert all("decoder" in name for name in names)


def test_whisper() -> None:
    options = {**WIDE, "vocab_size": 50, "num_mel_bins": 8, "max_source_positions": 12, "max_target_positions": 20}
    model = build("Whisper", "sdpa", **options, pad_token_id=0, bos_token_id=1, eos_token_id=2)
    run = forward(input_features=torch.randn(2, 8, 24), decoder_input_ids=IDS)
    assert findings(model, run, causal=True) == []


def test_vit() -> None:
    model = build("ViT", "sdpa", **SMALL, image_size=16, patch_size=4)
    assert findings(model, forward(pixel_values=torch.randn(2, 3, 16, 16))) == []


@pytest.mark.filterwarnings("ignore:The PyTorch API of nested tensors")
@pytest.mark.parametrize("fast", [True, False])
def test_torch_encoder(fast: bool) -> None:
    torch.manual_seed(0)
    layer = nn.TransformerEncoderLayer(32, 4, 48, batch_first=True)
    model = nn.TransformerEncoder(layer, 3, enable_nested_tensor=fast).eval()
    x = torch.randn(2, 9, 32)
    assert findings(model, lambda m: m(x, src_key_padding_mask=RIGHT == 0), padding=RIGHT) == []
    causal = nn.Transformer.generate_square_subsequent_mask(9)
    assert findings(model, lambda m: m(x, mask=causal, is_causal=True), causal=True) == []


@pytest.mark.filterwarnings("ignore:The PyTorch API of nested tensors")
def test_torch_transformer() -> None:
    torch.manual_seed(0)
    model = nn.Transformer(32, 4, 2, 2, 48, batch_first=True).eval()
    causal = nn.Transformer.generate_square_subsequent_mask(9)
    source, target, ignored = torch.randn(2, 9, 32), torch.randn(2, 9, 32), RIGHT == 0

    def run(m: nn.Module) -> None:
        m(source, target, tgt_mask=causal, src_key_padding_mask=ignored, memory_key_padding_mask=ignored)

    assert findings(model, run, padding=RIGHT, causal=True) == []


def test_own_models() -> None:
    ids = small_models.tokens(2, 9)
    lengths = torch.tensor([9, 5])
    for name, variant in small_models.VARIANTS.items():
        decoder = small_models.decoder(**variant)
        assert findings(decoder, lambda m: m(ids), causal=True) == [], name
        encoder = small_models.encoder(**variant)
        assert findings(encoder, lambda m: m(ids, lengths), padding=lengths) == [], name
    model = small_models.seq2seq()
    assert findings(model, lambda m: m(ids, ids, lengths), padding=lengths, causal=True) == []


@pytest.mark.parametrize("flash", [True, False])
def test_x_transformers(flash: bool) -> None:
    from x_transformers import Decoder, Encoder, TransformerWrapper

    torch.manual_seed(0)
    for layers in (
        Decoder(dim=32, depth=2, heads=4, attn_dim_head=8, attn_flash=flash, rotary_pos_emb=True),
        Decoder(dim=32, depth=2, heads=4, attn_dim_head=8, attn_flash=flash, attn_qk_norm=True, attn_kv_heads=2),
        Decoder(dim=32, depth=2, heads=4, attn_dim_head=8, attn_flash=flash, alibi_pos_bias=True),
    ):
        model = TransformerWrapper(num_tokens=50, max_seq_len=16, attn_layers=layers).eval()
        assert findings(model, lambda m: m(IDS, mask=RIGHT.bool()), padding=RIGHT, causal=True) == []
    layers = Encoder(dim=32, depth=2, heads=4, attn_dim_head=8, attn_flash=flash)
    model = TransformerWrapper(num_tokens=50, max_seq_len=16, attn_layers=layers).eval()
    assert findings(model, lambda m: m(IDS, mask=RIGHT.bool()), padding=RIGHT) == []
