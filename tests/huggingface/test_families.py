"""Models of transformers on attn_implementation="regard" compared with eager: logits, gradients, weights, caches."""

import copy
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import regard
from regard.huggingface.mask_creation import LazyMask

transformers = pytest.importorskip("transformers")
pytestmark = pytest.mark.filterwarnings("ignore")

SMALL = {
    "vocab_size": 64, "hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 2, "num_attention_heads": 4,
    "max_position_embeddings": 64, "pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2,
}  # fmt: skip
GROUPED = {**SMALL, "num_key_value_heads": 2}
HEADS_OF_8 = {**GROUPED, "head_dim": 8, "sliding_window": 5}
DECODERS: dict[str, tuple[str, dict[str, Any]]] = {
    "llama": ("Llama", GROUPED),
    "mistral": ("Mistral", {**GROUPED, "sliding_window": 5}),
    "gemma2": ("Gemma2", {**HEADS_OF_8, "query_pre_attn_scalar": 8, "attn_logit_softcapping": 2.0}),
    "gemma3": (
        "Gemma3Text",
        {**HEADS_OF_8, "query_pre_attn_scalar": 8, "layer_types": ["sliding_attention", "full_attention"]},
    ),
    "gpt_oss": ("GptOss", {**HEADS_OF_8, "num_local_experts": 2, "num_experts_per_tok": 1}),
    "gpt2": ("GPT2", {"vocab_size": 64, "n_embd": 32, "n_layer": 2, "n_head": 4, "n_positions": 64, "pad_token_id": 0}),
    "qwen3": ("Qwen3", {**GROUPED, "head_dim": 8}),
    "phi": ("Phi", SMALL),
    "mixtral": ("Mixtral", {**GROUPED, "num_local_experts": 2, "num_experts_per_tok": 1, "sliding_window": 6}),
    "olmo2": ("Olmo2", GROUPED),
    "cohere2": ("Cohere2", {**GROUPED, "sliding_window": 5}),
    "llama4": (
        "Llama4Text",
        {
            **GROUPED, "head_dim": 8, "intermediate_size_mlp": 48, "num_local_experts": 2, "attention_chunk_size": 4,
            "layer_types": ["chunked_attention", "full_attention"],
        },
    ),
}  # fmt: skip
CLASSES = {"Gemma3Text": "Gemma3ForCausalLM", "Llama4Text": "Llama4ForCausalLM", "GPT2": "GPT2LMHeadModel"}
SEQ2SEQ: dict[str, tuple[str, dict[str, Any]]] = {
    "t5": ("T5", {"vocab_size": 64, "d_model": 32, "d_kv": 8, "d_ff": 48, "num_layers": 2, "num_heads": 4,
                  "decoder_start_token_id": 0, "pad_token_id": 0}),
    "bart": ("Bart", {"vocab_size": 64, "d_model": 32, "encoder_layers": 2, "decoder_layers": 2, "pad_token_id": 0,
                      "encoder_attention_heads": 4, "decoder_attention_heads": 4, "encoder_ffn_dim": 48,
                      "decoder_ffn_dim": 48, "max_position_embeddings": 64, "decoder_start_token_id": 2}),
}  # fmt: skip
IDS = torch.randint(5, 64, (3, 13), generator=torch.Generator().manual_seed(0))
RIGHT = torch.ones(3, 13, dtype=torch.long)
RIGHT[0, 8:], RIGHT[1, 12:] = 0, 0
PADDINGS = {"none": None, "right": RIGHT, "left": RIGHT.flip(1)}


@pytest.fixture(scope="module", autouse=True)
def registered() -> None:
    regard.huggingface.register()
    regard.huggingface.register()  # a second call changes nothing
    transformers.logging.set_verbosity_error()


def pair(config: Any, kind: Any) -> tuple[nn.Module, nn.Module]:
    """Return a model on eager and the same model on regard."""
    models = []
    for implementation in ("eager", "regard"):
        model = kind._from_config(copy.deepcopy(config), attn_implementation=implementation).eval()
        torch.manual_seed(1)
        for name, parameter in model.named_parameters():
            with torch.no_grad():
                parameter.normal_(std=0.1).add_(1.0 if "norm" in name and parameter.dim() == 1 else 0.0)
        models.append(model)
    assert models[1].config._attn_implementation == "regard"
    return models[0], models[1]


def decoders(family: str) -> tuple[nn.Module, nn.Module]:
    name, options = DECODERS[family]
    config = getattr(transformers, f"{name}Config")(**options)
    return pair(config, getattr(transformers, CLASSES.get(name, f"{name}ForCausalLM")))


def seq2seq(family: str) -> tuple[nn.Module, nn.Module]:
    name, options = SEQ2SEQ[family]
    config = getattr(transformers, f"{name}Config")(**options)
    return pair(config, getattr(transformers, f"{name}ForConditionalGeneration"))


def check_same(eager: nn.Module, ours: nn.Module, real: Tensor | None, **inputs: Any) -> None:
    """Compare logits, attention weights and the gradients of all parameters; rows of padding are undefined."""
    outputs = [model(**inputs, output_attentions=True) for model in (eager, ours)]
    logits = [x.logits for x in outputs]
    chosen = torch.ones(logits[0].shape[:2], dtype=torch.bool) if real is None else real.bool()
    assert (logits[0] - logits[1])[chosen].abs().max() <= 1e-5
    for name in ("attentions", "encoder_attentions", "decoder_attentions", "cross_attentions"):
        expected, weights = (getattr(x, name, None) or () for x in outputs)
        assert len(expected) == len(weights)
        for a, b in zip(expected, weights, strict=True):
            assert a.shape == b.shape
            rows = chosen if chosen.shape == (len(a), a.shape[2]) else torch.ones(len(a), a.shape[2], dtype=torch.bool)
            assert (a - b).transpose(1, 2)[rows].abs().max() <= 3e-6
    direction = torch.randn(logits[0].shape, generator=torch.Generator().manual_seed(2)) * chosen[..., None]
    gradients = []
    for model, x in zip((eager, ours), logits, strict=True):
        parameters = [p for p in model.parameters() if p.requires_grad]
        gradients.append(torch.autograd.grad((x * direction).sum(), parameters, allow_unused=True))
    largest = max(float(g.abs().max()) for g in gradients[0] if g is not None)
    for a, b in zip(*gradients, strict=True):
        assert (a is None) == (b is None)
        assert a is None or (a - b).abs().max() <= 1e-5 * largest


@pytest.mark.parametrize("padding", PADDINGS)
@pytest.mark.parametrize("family", DECODERS)
def test_decoders(family: str, padding: str) -> None:
    mask = PADDINGS[padding]
    check_same(*decoders(family), mask, input_ids=IDS, **({} if mask is None else {"attention_mask": mask}))


@pytest.mark.parametrize("padding", PADDINGS)
@pytest.mark.parametrize("family", SEQ2SEQ)
def test_encoders_with_decoders(family: str, padding: str) -> None:
    mask = PADDINGS[padding]
    inputs = {} if mask is None else {"attention_mask": mask}
    check_same(*seq2seq(family), None, input_ids=IDS, decoder_input_ids=IDS[:, :6], **inputs)


@pytest.mark.parametrize("padding", PADDINGS)
def test_bidirectional_encoders(padding: str) -> None:
    mask = PADDINGS[padding]
    models = pair(transformers.BertConfig(**SMALL), transformers.BertForMaskedLM)
    check_same(*models, mask, input_ids=IDS, **({} if mask is None else {"attention_mask": mask}))
    options = {**SMALL, "local_attention": 6, "global_attn_every_n_layers": 2, "cls_token_id": 3, "sep_token_id": 4}
    models = pair(transformers.ModernBertConfig(**options), transformers.ModernBertForMaskedLM)
    check_same(*models, mask, input_ids=IDS, **({} if mask is None else {"attention_mask": mask}))


def test_images_and_speech() -> None:
    options = {key: SMALL[key] for key in ("hidden_size", "intermediate_size", "num_hidden_layers")}
    config = transformers.ViTConfig(**options, num_attention_heads=4, image_size=16, patch_size=4, num_labels=5)
    eager, ours = pair(config, transformers.ViTForImageClassification)
    image = torch.randn(2, 3, 16, 16)
    assert (eager(image).logits - ours(image).logits).abs().max() <= 1e-5
    config = transformers.WhisperConfig(
        vocab_size=64, d_model=32, encoder_layers=1, decoder_layers=1, encoder_attention_heads=4, num_mel_bins=8,
        decoder_attention_heads=4, encoder_ffn_dim=48, decoder_ffn_dim=48, max_source_positions=20, pad_token_id=0,
        max_target_positions=30, bos_token_id=1, eos_token_id=2, decoder_start_token_id=1,
    )  # fmt: skip
    models = pair(config, transformers.WhisperForConditionalGeneration)
    check_same(*models, None, input_features=torch.randn(3, 8, 40), decoder_input_ids=IDS[:, :6])


@pytest.mark.parametrize("cache", ["dynamic", "static"])
@pytest.mark.parametrize("family", ["llama", "mistral", "gemma2", "gpt_oss", "llama4", "t5", "bart"])
def test_generation_with_a_cache(family: str, cache: str) -> None:
    models = seq2seq(family) if family in SEQ2SEQ else decoders(family)
    options: dict[str, Any] = {"cache_implementation": "static"} if cache == "static" else {}
    options |= {"max_new_tokens": 8, "do_sample": False, "return_dict_in_generate": True}
    options |= {"output_logits": True, "output_attentions": True}
    runs = [model.generate(IDS, attention_mask=PADDINGS["left"], **options) for model in models]
    assert (runs[0].sequences == runs[1].sequences).all()
    for a, b in zip(runs[0].logits, runs[1].logits, strict=True):
        assert (a - b).abs().max() <= 1e-5
    name = "decoder_attentions" if family in SEQ2SEQ else "attentions"
    for step, (expected, weights) in enumerate(zip(getattr(runs[0], name), getattr(runs[1], name), strict=True)):
        for a, b in zip(expected, weights, strict=True):
            assert a.shape == b.shape
            rows = PADDINGS["left"].bool() if step == 0 and family not in SEQ2SEQ else slice(None)
            assert (a - b).transpose(1, 2)[rows].abs().max() <= 3e-6


@pytest.mark.parametrize("family", ["llama", "mistral", "gemma2", "gpt_oss"])
def test_packed_documents_and_prompts_in_pieces(family: str) -> None:
    eager, ours = decoders(family)
    positions = torch.tensor([[*range(5), *range(6), *range(2)]] * 3)
    logits = [model(IDS, position_ids=positions).logits for model in (eager, ours)]
    assert (logits[0] - logits[1]).abs().max() <= 1e-5
    for kind, options in ((transformers.DynamicCache, {}), (transformers.StaticCache, {"max_cache_len": 20})):
        results = []
        for model in (eager, ours):
            cache = kind(config=model.config, **options)
            pieces = [model(IDS[:, a:b], past_key_values=cache).logits for a, b in ((0, 6), (6, 12), (12, 13))]
            results.append(torch.cat(pieces, 1))
        assert (results[0] - results[1]).abs().max() <= 1e-5


def test_masks_of_the_user() -> None:
    eager, ours = decoders("gpt_oss")
    visible = (torch.rand(3, 1, 13, 13) > 0.4) | torch.eye(13, dtype=torch.bool)
    added = torch.where(visible, 0.0, torch.finfo(torch.float32).min)
    expected = eager(IDS, attention_mask=added).logits
    assert (ours(IDS, attention_mask=added).logits - expected).abs().max() <= 1e-5
    assert (ours(IDS, attention_mask=visible).logits - expected).abs().max() <= 1e-5


def forbid(*_: Any, **__: Any) -> Any:
    raise AssertionError("an L×S mask was created")


@pytest.mark.parametrize("family", [*DECODERS, *SEQ2SEQ])
def test_no_square_mask_is_created(family: str, monkeypatch: pytest.MonkeyPatch) -> None:
    from transformers import masking_utils

    ours = (seq2seq(family) if family in SEQ2SEQ else decoders(family))[1]
    monkeypatch.setattr(masking_utils, "sdpa_mask", forbid)
    monkeypatch.setattr(LazyMask, "_compute", forbid)
    extra = {"decoder_input_ids": IDS[:, :6]} if family in SEQ2SEQ else {}
    for mask in PADDINGS.values():
        ours(IDS, attention_mask=mask, **extra)
    for cache in ("dynamic", "static"):
        options = {"cache_implementation": "static"} if cache == "static" else {}
        ours.generate(IDS, attention_mask=PADDINGS["left"], max_new_tokens=3, **options)


def test_unknown_mask_functions_are_evaluated() -> None:
    from transformers.masking_utils import create_causal_mask

    eager, ours = decoders("llama")

    def both_ways_at_the_start(b: Any, h: Any, q: Any, k: Any) -> Any:
        return (q < 4) & (k < 4)

    embeddings, logits = eager.get_input_embeddings()(IDS), []
    for model in (eager, ours):
        mask = create_causal_mask(model.config, embeddings, None, None, or_mask_function=both_ways_at_the_start)
        logits.append(model(IDS, attention_mask=mask).logits)
    assert (logits[0] - logits[1]).abs().max() <= 1e-5
    assert (logits[1] - ours(IDS).logits).abs().max() > 1e-4


def test_training_with_dropout_and_recomputed_layers() -> None:
    options = DECODERS["gemma2"][1]
    config = transformers.Gemma2Config(**options, attention_dropout=0.5)
    model = transformers.Gemma2ForCausalLM._from_config(config, attn_implementation="regard").train()
    first, second = (model(IDS).logits for _ in range(2))
    assert (first - second).abs().max() > 0
    first.sum().backward()
    config.attention_dropout = 0.0
    model = transformers.Gemma2ForCausalLM._from_config(config, attn_implementation="regard").train()
    gradients = []
    for enable in (lambda: None, model.gradient_checkpointing_enable):
        enable()
        model.zero_grad()
        model(IDS).logits.square().sum().backward()
        gradients.append(model.model.layers[0].self_attn.q_proj.weight.grad.clone())
    assert torch.allclose(*gradients, rtol=1e-4)


@pytest.mark.parametrize("family", ["gpt_oss", "gemma2", "llama"])
def test_watch_records_exactly(family: str) -> None:
    eager, ours = decoders(family)
    mask = PADDINGS["left"]
    expected = eager(IDS, attention_mask=mask, output_attentions=True).attentions
    with regard.watch(ours) as seen:
        ours(IDS, attention_mask=mask)
    assert [call.name for call in seen.calls] == [f"model.layers.{i}.self_attn" for i in range(2)]
    for call, weights in zip(seen.calls, expected, strict=True):
        rows = mask.bool()
        assert (call.weights() - weights).transpose(1, 2)[rows].abs().max() <= 3e-6
        missing = 1 - weights.sum(-1)
        assert (call.sink() - missing).transpose(1, 2)[rows].abs().max() <= 3e-6
        assert call.mask is not None
        assert bool(call.softcap) == (family == "gemma2")
    assert not seen.unseen
