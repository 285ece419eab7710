"""Small random models of many libraries, watched and checked: `python bench/coverage.py`.

One model per family of `transformers`, and models of timm, diffusers, x-transformers, torchvision, open_clip and torch,
on fused ("sdpa") and on eager attention. A recorded call is checked against the map that the model returns for
`output_attentions=True`, and by the product of its weights with its values, which must be the model's own output.

| result | meaning |
|---|---|
| exact | every call was checked and is right, and every map that the model returns was recorded |
| reported | the same, but some modules are listed in `seen.unseen` |
| unchecked | a call has neither a map nor values to check it with |
| missed | the model returns a map that was neither recorded nor reported |
| wrong | a call contradicts the model, or watching changed the output of the model |
| no attention | nothing was recorded, reported or returned |
| not built | the small model could not be made or run |

The models run in another process, with a time limit. Results are kept in bench/results/coverage.json, so that an
interrupted run continues (`--fresh` starts again); `--docs` writes docs/coverage.md; names select cases.
"""

# ruff: noqa: E402

import sys
from pathlib import Path

if __name__ == "coverage":  # numba looks for the package of this name, and finds this script next to other benchmarks
    raise ImportError("bench/coverage.py is a script, not the package coverage")

HERE = Path(__file__).resolve().parent
sys.path[:] = [p for p in sys.path if Path(p or ".").resolve() != HERE]  # numba imports another module named coverage

import argparse
import contextlib
import importlib
import importlib.metadata
import inspect
import json
import multiprocessing
import platform
import warnings
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from multiprocessing.connection import Connection
from typing import Any

import torch
from rich.console import Console
from rich.progress import Progress
from rich.table import Table
from torch import Tensor, nn

import regard

SECONDS = 30  # time limit of one case
MAX_PARAMETERS = 60_000_000
RESULTS, DOCS = HERE / "results" / "coverage.json", HERE.parent / "docs" / "coverage.md"
LIBRARIES = {  # names of their distributions
    **{name: name for name in ("torch", "transformers", "timm", "diffusers", "x-transformers", "torchvision")},
    "open_clip": "open_clip_torch",
}
Inputs = dict[str, Any]


@dataclass
class Result:
    """What was found out about one model."""

    status: str
    detail: str = ""
    calls: int = 0
    maps: int = 0


# The check


def check(
    model: nn.Module, run: Callable[[nn.Module], Any], returned_maps: Callable[[], list[Tensor]] = lambda: []
) -> Result:
    """Watch one run of a model and compare what was recorded with what the model computed."""
    with torch.no_grad():
        torch.manual_seed(0)
        plain = _tensors(run(model))
        torch.manual_seed(0)
        with regard.watch(model) as seen:
            watched = _tensors(run(model))
        maps = returned_maps()
    if not _equal(plain, watched):
        return Result("wrong", "watching changed the output", len(seen.calls), len(maps))
    try:
        right: dict[int, Any] = {i: _product_is_output(call) for i, call in enumerate(seen.calls)}
        unmatched = _match(seen.calls, maps, right)
    except Exception as error:
        return Result("wrong", f"{type(error).__name__}: {error}", len(seen.calls), len(maps))
    wrong = [seen.calls[i].name for i, fine in right.items() if fine is False]
    if wrong:
        return Result("wrong", f"weights @ v is not the output in {wrong[0]}", len(seen.calls), len(maps))
    reports = [str(unseen) for unseen in seen.unseen]
    spare = sum(1 for fine in right.values() if fine and fine != "map")
    if unmatched and spare < len(unmatched) and not reports:
        return Result("missed", f"{len(unmatched)} maps, such as {unmatched[0]}", len(seen.calls), len(maps))
    unchecked = [seen.calls[i].name for i, fine in right.items() if fine is None]
    if unchecked:
        return Result("unchecked", unchecked[0], len(seen.calls), len(maps))
    status = "reported" if reports else "exact" if seen.calls else "no attention"
    return Result(status, reports[0] if reports else "", len(seen.calls), len(maps))


def _equal(a: list[Tensor], b: list[Tensor]) -> bool:
    return len(a) == len(b) and all(torch.equal(x.nan_to_num(), y.nan_to_num()) for x, y in zip(a, b, strict=True))


def _product_is_output(call: Any) -> bool | None:
    """Whether weights @ v is the output of the call; None if v or the output is not known."""
    try:
        v, output = call.v.float(), call.output.float()
    except (ValueError, RuntimeError):  # not known, or changed in place after the call
        return None
    weights = call.weights()
    v = v.repeat_interleave(weights.shape[1] // v.shape[1], 1) if v.shape[1] > 1 else v
    error = (weights @ v - output).abs().max() if output.numel() else torch.zeros(())
    return bool(error <= 1e-4 * (1 + output.abs().max()))


def _match(calls: list[Any], maps: list[Tensor], right: dict[int, Any]) -> list[tuple[int, ...]]:
    """Mark the calls that equal a returned map; return the shapes of the maps that no call equals."""
    unmatched = []
    for returned in maps:
        for i, call in enumerate(calls):
            part = returned.shape[-1] < call.shape[3]  # a call may be returned in several parts
            if (right[i] != "map" or part) and _same(call.weights(), returned.float()):
                right[i] = "map"
                break
        else:
            unmatched.append(tuple(returned.shape))
    return unmatched


def _same(weights: Tensor, returned: Tensor) -> bool:
    """Whether a map holds these weights: of the first or last tokens, in other axes, or before the softmax."""
    rows, keys = returned.shape[-2:]
    weights = weights[..., weights.shape[-2] - rows :, :]
    for part in (weights[..., weights.shape[-1] - keys :], weights[..., :keys]):
        if returned.numel() == part.numel() and returned.dim() > 2:
            table = returned.reshape(part.shape)
            if any(torch.allclose(part, x, atol=2e-5) for x in (table, table.softmax(-1))):
                return True
    return False


def _tensors(out: Any) -> list[Tensor]:
    if isinstance(out, Tensor):
        return [out]
    items = out.values() if isinstance(out, dict) else out if isinstance(out, tuple | list) else []
    return [x for item in items for x in _tensors(item) if x.is_floating_point()]


# transformers

SIZES: dict[str, int] = {
    **dict.fromkeys(("hidden_size", "d_model", "n_embd", "dim", "embed_dim"), 32),
    **dict.fromkeys(("num_hidden_layers", "num_layers", "n_layer", "n_layers", "encoder_layers", "decoder_layers"), 2),
    **dict.fromkeys(("num_attention_heads", "n_head", "n_heads", "num_heads", "encoder_attention_heads"), 4),
    **dict.fromkeys(("intermediate_size", "ffn_dim", "encoder_ffn_dim", "decoder_ffn_dim", "d_ff", "n_inner"), 64),
    **dict.fromkeys(("max_position_embeddings", "n_positions", "n_ctx", "hidden_dim", "d_inner"), 64),
    **dict.fromkeys(("qk_rope_head_dim", "qk_nope_head_dim", "rotary_dim", "attention_window"), 4),
    **dict.fromkeys(("kv_lora_rank", "q_lora_rank", "v_head_dim", "head_dim", "d_kv", "patch_size"), 8),
    **dict.fromkeys(("num_experts", "n_routed_experts", "num_local_experts", "decoder_attention_heads"), 4),
    **dict.fromkeys(("num_key_value_heads", "num_experts_per_tok", "type_vocab_size", "eos_token_id", "block_size"), 2),
    **dict.fromkeys(("embedding_size", "moe_intermediate_size"), 16),
    "num_decoder_layers": 2, "vocab_size": 99, "image_size": 32, "pad_token_id": 0, "bos_token_id": 1,
    "num_random_blocks": 1,
}  # fmt: skip
IMAGES = {"image_size", "patch_size", "embed_dim", "num_heads", "dim"}
# What is left as it is in each attempt to build a model.
ATTEMPTS = (set(), IMAGES, SIZES.keys() - {"num_hidden_layers", "num_layers", "encoder_layers", "decoder_layers"})


def shrink(config: Any, kept: Any = ()) -> None:
    """Make a configuration of `transformers` small, with the configurations inside it."""
    for name, size in SIZES.items():
        try:
            old = getattr(config, name)
            if name in kept or old is None or isinstance(old, dict | bool):
                continue
            if not isinstance(old, list | tuple):
                setattr(config, name, size)
            elif name not in ("image_size", "patch_size"):
                setattr(config, name, type(old)([size] * len(old)))
        except Exception:  # some attributes are computed, or differ between layers
            continue
    types = getattr(config, "layer_types", None)
    if types:
        with contextlib.suppress(AttributeError):
            config.layer_types = types[:2] if len(set(types[:2])) > 1 else [types[0], types[-1]]
    for inner in list(vars(config).values()):
        if hasattr(inner, "model_type") and hasattr(inner, "to_dict"):
            shrink(inner, kept)


def transformers_model(name: str, implementation: str, kept: Any = ()) -> nn.Module:
    """Return a small random model of a family."""
    from transformers import CONFIG_MAPPING, AutoModel

    config = CONFIG_MAPPING[name]()
    shrink(config, kept)
    if kept:
        with torch.device("meta"):
            count = sum(x.numel() for x in AutoModel.from_config(config).parameters())
        if count > MAX_PARAMETERS:
            raise ValueError(f"{count:,} parameters")
    torch.manual_seed(0)
    model: nn.Module = AutoModel.from_config(config, attn_implementation=implementation)
    return model.eval()


def transformers_inputs(model: Any) -> Inputs:
    """Return the inputs that the signature of a model asks for."""
    names, made = inspect.signature(model.forward).parameters, torch.Generator().manual_seed(0)
    size = getattr(model.config, "image_size", 32)
    size = size if isinstance(size, int) else 32
    inputs: Inputs = {}
    if "input_ids" in names:
        inputs["input_ids"] = torch.randint(3, 90, (2, 8), generator=made)
    elif "pixel_values" in names:
        inputs["pixel_values"] = torch.randn(2, 3, size, size, generator=made)
    elif "input_values" in names:
        inputs["input_values"] = torch.randn(2, 1600, generator=made)
    elif "input_features" in names:
        inputs["input_features"] = torch.randn(2, 80, 60, generator=made)
    if "decoder_input_ids" in names:
        inputs["decoder_input_ids"] = torch.randint(3, 90, (2, 5), generator=made)
    return inputs


def transformers_case(name: str, implementation: str) -> Result:
    """Check one family on one implementation; the maps come from the eager twin of the model."""
    error: Exception | None = None
    for kept in ATTEMPTS:
        try:
            model = transformers_model(name, implementation, kept)
            inputs = transformers_inputs(model)
            with torch.no_grad():
                model(**inputs)
            break
        except Exception as problem:
            error = error or problem
    else:
        raise error or RuntimeError

    def returned_maps() -> list[Tensor]:
        torch.manual_seed(0)
        try:
            twin = model
            if implementation != "eager":
                twin = transformers_model(name, "eager", kept)
                twin.load_state_dict(model.state_dict())
            torch.manual_seed(0)
            out = twin(**inputs, output_attentions=True)
        except Exception:  # no eager implementation, or no maps
            return []
        keys = [key for key in out if "attentions" in key and out[key] is not None]
        return [x for key in keys for x in out[key] if isinstance(x, Tensor)]

    return check(model, lambda m: m(**inputs), returned_maps)


def transformers_names() -> list[str]:
    import transformers

    return list(transformers.CONFIG_MAPPING.keys())


# Other libraries


def timm_names() -> list[str]:
    """Return one small model of every module of timm that mentions attention."""
    import timm

    chosen = []
    for module in timm.list_modules():
        if "attn" not in inspect.getsource(importlib.import_module(f"timm.models.{module}")):
            continue
        names = timm.list_models(module=module)
        small = [x for x in names if any(s in x for s in ("tiny", "nano", "xx", "_s_", "small", "pico", "atto", "_t_"))]
        chosen += [min(small or names, key=lambda x: (len(x), x))] if names else []
    return [*chosen, *(x for x in ("botnet26t_256", "lambda_resnet26t", "gcresnet33ts") if x not in chosen)]


def timm_case(name: str, implementation: str) -> Result:
    import timm

    timm.layers.set_fused_attn(implementation == "sdpa")
    torch.manual_seed(0)
    with torch.device("meta"):
        if sum(x.numel() for x in timm.create_model(name).parameters()) > MAX_PARAMETERS:
            raise ValueError("too many parameters")
    model = timm.create_model(name, pretrained=False).eval()
    images = torch.randn(2, *model.default_cfg["input_size"], generator=torch.Generator().manual_seed(0))
    return check(model, lambda m: m(images))


def diffusers_models() -> dict[str, Callable[[], tuple[nn.Module, Inputs]]]:
    import diffusers as d

    made = torch.Generator().manual_seed(0)

    def normal(*shape: int) -> Tensor:
        return torch.randn(*shape, generator=made)

    step = torch.tensor([3, 3])
    unet = {"block_out_channels": (32, 64), "norm_num_groups": 8, "layers_per_block": 1, "sample_size": 8}
    vae = {"block_out_channels": (32, 32), "norm_num_groups": 8, "latent_channels": 4,
           "down_block_types": ("DownEncoderBlock2D",) * 2, "up_block_types": ("UpDecoderBlock2D",) * 2}  # fmt: skip
    dit = {"num_attention_heads": 4, "attention_head_dim": 8, "num_layers": 2, "sample_size": 8, "patch_size": 2}
    return {
        "UNet2DConditionModel": lambda: (
            d.UNet2DConditionModel(**unet, cross_attention_dim=16, attention_head_dim=8,
                                   down_block_types=("CrossAttnDownBlock2D", "DownBlock2D"),
                                   up_block_types=("UpBlock2D", "CrossAttnUpBlock2D")),
            {"sample": normal(2, 4, 8, 8), "timestep": 3, "encoder_hidden_states": normal(2, 5, 16)}),
        "UNet2DModel": lambda: (
            d.UNet2DModel(**unet, down_block_types=("DownBlock2D", "AttnDownBlock2D"),
                          up_block_types=("AttnUpBlock2D", "UpBlock2D")),
            {"sample": normal(2, 3, 8, 8), "timestep": 3}),
        "AutoencoderKL": lambda: (d.AutoencoderKL(**vae), {"sample": normal(2, 3, 16, 16)}),
        "DiTTransformer2DModel": lambda: (
            d.DiTTransformer2DModel(**dit, in_channels=4, norm_num_groups=8, num_embeds_ada_norm=10),
            {"hidden_states": normal(2, 4, 8, 8), "timestep": step, "class_labels": step}),
        "PixArtTransformer2DModel": lambda: (
            d.PixArtTransformer2DModel(**dit, in_channels=4, norm_num_groups=8, cross_attention_dim=32,
                                       caption_channels=16),
            {"hidden_states": normal(2, 4, 8, 8), "timestep": step, "encoder_hidden_states": normal(2, 5, 16),
             "added_cond_kwargs": {"resolution": None, "aspect_ratio": None}}),
        "SD3Transformer2DModel": lambda: (
            d.SD3Transformer2DModel(**dit, in_channels=4, joint_attention_dim=16, caption_projection_dim=32,
                                    pooled_projection_dim=16, out_channels=4),
            {"hidden_states": normal(2, 4, 8, 8), "encoder_hidden_states": normal(2, 5, 16),
             "pooled_projections": normal(2, 16), "timestep": step}),
        "FluxTransformer2DModel": lambda: (
            d.FluxTransformer2DModel(in_channels=4, num_layers=1, num_single_layers=1, attention_head_dim=16,
                                     num_attention_heads=2, joint_attention_dim=16, pooled_projection_dim=16,
                                     axes_dims_rope=(4, 4, 8)),
            {"hidden_states": normal(2, 16, 4), "encoder_hidden_states": normal(2, 5, 16),
             "pooled_projections": normal(2, 16), "timestep": step.float(), "img_ids": torch.zeros(16, 3),
             "txt_ids": torch.zeros(5, 3)}),
        "StableAudioDiTModel": lambda: (
            d.StableAudioDiTModel(sample_size=16, in_channels=4, num_layers=2, attention_head_dim=8,
                                  num_attention_heads=4, num_key_value_attention_heads=2, out_channels=4,
                                  cross_attention_dim=16, time_proj_dim=16, global_states_input_dim=16,
                                  cross_attention_input_dim=16),
            {"hidden_states": normal(2, 4, 16), "timestep": step.float(), "encoder_hidden_states": normal(2, 5, 16),
             "global_hidden_states": normal(2, 1, 16)}),
        "PriorTransformer": lambda: (
            d.PriorTransformer(num_attention_heads=4, attention_head_dim=8, num_layers=2, embedding_dim=16,
                               num_embeddings=5, additional_embeddings=4),
            {"hidden_states": normal(2, 16), "timestep": step, "proj_embedding": normal(2, 16),
             "encoder_hidden_states": normal(2, 5, 16)}),
    }  # fmt: skip


def diffusers_case(name: str, implementation: str) -> Result:
    from diffusers.models.attention_processor import AttnProcessor

    torch.manual_seed(0)
    model, inputs = diffusers_models()[name]()
    model.eval()
    if implementation == "eager":
        if not hasattr(model, "set_attn_processor") or name.startswith(("SD3", "Flux", "StableAudio")):
            raise ValueError("it has no eager implementation")
        model.set_attn_processor(AttnProcessor())
    return check(model, lambda m: m(**inputs, return_dict=False))


X_OPTIONS: dict[str, dict[str, Any]] = {
    "decoder": {}, "one key/value head": {"attn_one_kv_head": True}, "grouped": {"attn_kv_heads": 2},
    "talking heads": {"attn_pre_talking_heads": True, "attn_post_talking_heads": True},
    "qk norm": {"attn_qk_norm": True}, "rotary": {"rotary_pos_emb": True}, "alibi": {"alibi_pos_bias": True},
    "relative positions": {"rel_pos_bias": True}, "memory keys": {"attn_num_mem_kv": 3},
    "gated values": {"attn_gate_values": True}, "softclamp": {"attn_softclamp_logits": True},
    "one more in the denominator": {"attn_add_zero_kv": True}, "top-k": {"attn_sparse_topk": 3},
    "differential": {"attn_qk_norm": True, "attn_head_scale": True}, "macaron": {"macaron": True},
}  # fmt: skip


def x_transformers_case(name: str, implementation: str) -> Result:
    from x_transformers import Decoder, TransformerWrapper

    torch.manual_seed(0)
    layers = Decoder(dim=32, depth=2, heads=4, attn_dim_head=8, attn_flash=implementation == "sdpa", **X_OPTIONS[name])
    model = TransformerWrapper(num_tokens=50, max_seq_len=16, attn_layers=layers).eval()
    ids = torch.randint(0, 50, (2, 8), generator=torch.Generator().manual_seed(0))
    return check(model, lambda m: m(ids))


def torchvision_models() -> dict[str, Callable[[], tuple[nn.Module, int]]]:
    import torchvision.models as m

    small = {"image_size": 32, "patch_size": 8, "num_layers": 2, "num_heads": 4, "hidden_dim": 32, "mlp_dim": 64}
    swin = {"patch_size": [4, 4], "embed_dim": 16, "depths": [2, 2], "num_heads": [2, 4], "window_size": [4, 4]}
    return {
        "VisionTransformer": lambda: (m.VisionTransformer(**small), 32),
        "SwinTransformer": lambda: (m.SwinTransformer(**swin), 32),
        "SwinTransformer V2": lambda: (
            m.swin_transformer.SwinTransformer(
                **swin,
                block=m.swin_transformer.SwinTransformerBlockV2,
                downsample_layer=m.swin_transformer.PatchMergingV2,
            ),
            32,
        ),
        "MaxVit": lambda: (
            m.MaxVit((64, 64), 16, 2, [16, 32], [1, 1], 8, 0.0, num_classes=10, mlp_ratio=2, mlp_dropout=0.0,
                     attention_dropout=0.0),
            64,
        ),
    }  # fmt: skip


def torchvision_case(name: str, implementation: str) -> Result:
    torch.manual_seed(0)
    model, size = torchvision_models()[name]()
    images = torch.randn(2, 3, size, size, generator=torch.Generator().manual_seed(0))
    return check(model.eval(), lambda m: m(images))


def open_clip_case(name: str, implementation: str) -> Result:
    from open_clip.model import CLIP, CLIPTextCfg, CLIPVisionCfg

    pooled = (
        {"attentional_pool": True, "attn_pooler_queries": 4, "attn_pooler_heads": 4} if name == "CoCa pooler" else {}
    )
    layers = [1, 1, 1, 1] if name == "ResNet" else 2
    vision = CLIPVisionCfg(layers=layers, width=32, head_width=8, patch_size=8, image_size=32, **pooled)
    text = CLIPTextCfg(context_length=8, vocab_size=50, width=32, heads=4, layers=2)
    torch.manual_seed(0)
    model = CLIP(32, vision, text).eval()
    made = torch.Generator().manual_seed(0)
    images, ids = torch.randn(2, 3, 32, 32, generator=made), torch.randint(0, 50, (2, 8), generator=made)
    return check(model, lambda m: (m.encode_image(images), m.encode_text(ids)))


def torch_models() -> dict[str, Callable[[], tuple[nn.Module, Callable[[Any], Any]]]]:
    x = torch.randn(2, 7, 16, generator=torch.Generator().manual_seed(0))
    options: Any = {"dim_feedforward": 32, "batch_first": True}
    return {
        "MultiheadAttention": lambda: (nn.MultiheadAttention(16, 4, batch_first=True), lambda m: m(x, x, x)),
        "MultiheadAttention, no weights": lambda: (
            nn.MultiheadAttention(16, 4, batch_first=True), lambda m: m(x, x, x, need_weights=False)),
        "MultiheadAttention, cross": lambda: (
            nn.MultiheadAttention(16, 4, batch_first=True), lambda m: m(x, x[:, :3], x[:, :3])),
        "TransformerEncoder": lambda: (
            nn.TransformerEncoder(nn.TransformerEncoderLayer(16, 4, **options), 2), lambda m: m(x)),
        "TransformerDecoder": lambda: (
            nn.TransformerDecoder(nn.TransformerDecoderLayer(16, 4, **options), 2), lambda m: m(x, x[:, :5])),
        "Transformer": lambda: (
            nn.Transformer(16, 4, 2, 2, **options), lambda m: m(x, x[:, :5])),
    }  # fmt: skip


def torch_case(name: str, implementation: str) -> Result:
    torch.manual_seed(0)
    model, run = torch_models()[name]()
    return check(model.eval() if implementation == "sdpa" else model.train(False), run)


NAMES: dict[str, Callable[[], list[str]]] = {
    "torch": lambda: list(torch_models()),
    "transformers": transformers_names,
    "diffusers": lambda: list(diffusers_models()),
    "x-transformers": lambda: list(X_OPTIONS),
    "torchvision": lambda: list(torchvision_models()),
    "open_clip": lambda: ["ViT", "CoCa pooler", "ResNet"],
    "timm": timm_names,
}
CASES: dict[str, Callable[[str, str], Result]] = {
    "torch": torch_case, "transformers": transformers_case, "timm": timm_case, "diffusers": diffusers_case,
    "x-transformers": x_transformers_case, "torchvision": torchvision_case, "open_clip": open_clip_case,
}  # fmt: skip
ONE_IMPLEMENTATION = ("torch", "torchvision", "open_clip")


# Running many cases


def work(connection: Connection) -> None:
    """Check the cases that the parent process sends, in a process that may crash."""
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    try:
        import transformers

        transformers.logging.set_verbosity_error()
    except ImportError:
        pass
    while True:
        library, name, implementation = connection.recv()
        try:
            result = CASES[library](name, implementation)
        except Exception as error:
            text = " ".join(f"{type(error).__name__}: {error}".split())
            result = Result("not built", text[:160])
        connection.send(result)


class Worker:
    """A process that checks one case after another, and is replaced when it crashes or takes too long."""

    def __init__(self) -> None:
        self.process: Any = None
        self.count = 0

    def start(self) -> None:
        context = multiprocessing.get_context("spawn")
        self.connection, other = context.Pipe()
        self.process = context.Process(target=work, args=(other,), daemon=True)
        self.process.start()
        other.close()

    def check(self, case: tuple[str, str, str]) -> Result:
        self.count += 1
        if self.count % 50 == 0:  # some libraries keep their models in memory
            self.stop()
        if self.process is None:
            self.start()
        try:
            self.connection.send(case)
            if self.connection.poll(SECONDS):
                result: Result = self.connection.recv()
                return result
            return self._replace(Result("not built", f"took more than {SECONDS} s"))
        except (EOFError, OSError):
            return self._replace(Result("not built", "its process crashed"))

    def _replace(self, result: Result) -> Result:
        self.stop()
        return result

    def stop(self) -> None:
        if self.process is not None:
            self.process.kill()
            self.process.join()
            self.process = None


def cases(wanted: list[str]) -> Iterator[tuple[str, str, str]]:
    """Yield the cases of the libraries that are installed: library, name, implementation."""
    for library, names in NAMES.items():
        if installed(library) is None:
            continue
        for name in names():
            if not wanted or library in wanted or name in wanted:
                for implementation in ("sdpa",) if library in ONE_IMPLEMENTATION else ("sdpa", "eager"):
                    yield library, name, implementation


def installed(library: str) -> str | None:
    try:
        return importlib.metadata.version(LIBRARIES[library])
    except importlib.metadata.PackageNotFoundError:
        return None


def run(wanted: list[str], fresh: bool) -> dict[str, Result]:
    """Check all cases that have no result yet; what is done is kept when the run is interrupted."""
    stored = json.loads(RESULTS.read_text()) if RESULTS.exists() and not fresh else {}
    results = {key: Result(**value) for key, value in stored.items()}
    todo = [case for case in cases(wanted) if wanted or "/".join(case) not in results]
    worker = Worker()
    RESULTS.parent.mkdir(exist_ok=True)
    try:
        with Progress(console=Console(stderr=True)) as progress:
            task = progress.add_task("models", total=len(todo))
            for case in todo:
                progress.update(task, advance=1, description=" ".join(case)[:50].ljust(50))
                results["/".join(case)] = worker.check(case)
                RESULTS.write_text(json.dumps({key: vars(value) for key, value in results.items()}, indent=0))
    except KeyboardInterrupt:
        print("interrupted; run it again to continue", file=sys.stderr)
    finally:
        worker.stop()
    return {key: value for key, value in results.items() if not wanted or key in {"/".join(case) for case in todo}}


# The report

ORDER = ("exact", "reported", "unchecked", "missed", "wrong", "no attention", "not built")


def counts(results: dict[str, Result]) -> dict[tuple[str, str], Counter[str]]:
    """Return how many models of a library on an implementation have each result."""
    found: dict[tuple[str, str], Counter[str]] = {}
    for key, result in results.items():
        library, *_, implementation = key.split("/")
        found.setdefault((library, implementation), Counter())[result.status] += 1
    return found


def show(results: dict[str, Result]) -> None:
    table = Table(title="Watched models", title_justify="left")
    for column in ("library", "attention", *ORDER):
        table.add_column(column, justify="left" if column in ("library", "attention") else "right")
    for (library, implementation), count in counts(results).items():
        table.add_row(library, implementation, *(str(count[status] or "") for status in ORDER))
    console = Console()
    console.print(table)
    for key, result in results.items():
        if result.status in ("wrong", "missed", "unchecked", "reported"):
            console.print(f"{result.status}: {key}: {result.detail}", highlight=False, soft_wrap=True, markup=False)


def document(results: dict[str, Result]) -> str:
    """Return the page docs/coverage.md, which names the cases that have no result yet."""
    pending = Counter(library for library, *case in cases([]) if "/".join((library, *case)) not in results)
    waiting = ", ".join(f"{count} of {library}" for library, count in pending.items())
    built = [result for result in results.values() if result.status not in ("not built", "no attention")]
    exact = sum(result.status == "exact" for result in built)
    versions = ", ".join(f"{library} {version}" for library in LIBRARIES if (version := installed(library)))
    missing = [library for library in LIBRARIES if installed(library) is None]
    absent = f" Not installed: {', '.join(missing)}." if missing else ""
    rows = [
        f"| {library} | {implementation} | {' | '.join(str(count[status]) for status in ORDER)} |"
        for (library, implementation), count in counts(results).items()
    ]
    reasons: dict[str, list[str]] = {}
    for key, result in results.items():
        if result.status not in ("exact", "no attention", "not built"):
            reason = result.detail.partition(": ")[2] if result.status == "reported" else result.detail
            reasons.setdefault(f"{result.status} | {reason.partition(';')[0]}", []).append(_model(key))
    others = {status: sorted({_model(k) for k, r in results.items() if r.status == status}) for status in ORDER}
    not_built = sorted(set(others["not built"]) - {_model(k) for k, r in results.items() if r.status != "not built"})
    lines = [
        "# Models that were watched and checked",
        "",
        f"{exact} of {len(built)} models with attention are exact. `python bench/coverage.py --docs` makes this page.",
        "One small random model per family runs on fused and on eager attention. It is compared with the maps that it",
        "returns and with the product of weights and values. The head of that file explains the columns.",
        "",
        f"Python {platform.python_version()}, {versions}.{absent}",
        *([f"The run was interrupted; these cases have not run yet: {waiting}."] if pending else []),
        "",
        f"| library | attention | {' | '.join(ORDER)} |",
        f"|---|---|{'---:|' * len(ORDER)}",
        *rows,
        "",
        "## Not exact",
        "",
        "| result | reason | models |",
        "|---|---|---|",
        *(f"| {reason} | {', '.join(dict.fromkeys(names))} |" for reason, names in sorted(reasons.items())),
        "",
        "## Exact",
        "",
        ", ".join(others["exact"]) + ".",
        "",
        "## Without attention",
        "",
        ", ".join(others["no attention"]) + ".",
        "",
        "## Not built",
        "",
        "These need inputs or sizes that the script does not make, or packages that are not installed: "
        + ", ".join(not_built) + ".",
        "",
    ]  # fmt: skip
    return "\n".join(lines)


def _model(key: str) -> str:
    library, *name, _ = key.split("/")
    return "/".join(name) if library == "transformers" else f"{library} {'/'.join(name)}"


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("names", nargs="*", help="libraries or models; all if none are given")
    parser.add_argument("--fresh", action="store_true", help="forget earlier results")
    parser.add_argument("--docs", action="store_true", help="write docs/coverage.md")
    options = parser.parse_args()
    results = run(options.names, options.fresh)
    show(results)
    if options.docs:
        DOCS.write_text(document(results))
