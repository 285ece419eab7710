"""The factor of the scores, compared with 1/√d_k and with what the model states."""

from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor

from regard.watching.doctor.findings import Finding
from regard.watching.doctor.subject import Subject, recorded
from regard.watching.recorder.call_site import config_value

CLOSE = 0.02  # relative difference that is a rounding error of the factor
SCALING = ("scaling", "scale", "softmax_scale", "scale_factor", "attention_scale", "norm_factor", "inv_norm_factor",
           "sm_scale", "scale_attn")  # fmt: skip
STATED = ("scal", "mult"), ("attn", "attention", "softmax", "query")  # one of each is in a field that states the factor
WIDTHS = ("query_pre_attn_scalar", "head_dim", "qk_head_dim", "attention_head_dim", "kv_channels")
UNSCALED_FAMILIES = ("relative_attention_num_buckets", "relative_attention_max_distance")  # T5 and relatives
UNSCALED_TYPES = ("gpt_neo",)
WIDE_TYPES = ("cvt",)  # families that divide by √d_model


def find_scale(subject: Subject) -> list[Finding] | str:
    """Return a finding if the scores are multiplied by something else than 1/√d_k, and nothing explains it."""
    call = subject.call
    factor, q, k = call.scale, recorded(call, "q"), recorded(call, "k")
    if call.eager_weights is not None:
        return _find_eager_scale(subject)
    if factor is None or q is None or k is None:
        return "the queries and keys were not recorded"
    width, scale = q.shape[-1], float(factor)
    expected = width**-0.5
    if _is_close(scale, expected) or any(_is_close(scale, x) for x in _stated_factors(subject.config, width)):
        return []
    if _is_unscaled_family(subject) and scale == 1.0:
        return []
    if (used := _used_width(q, k)) and _is_close(scale, used**-0.5):
        return []  # heads padded with zeros
    if _has_constant_norm(q) and _has_constant_norm(k):
        return []  # cosine attention, normalized queries and keys
    if _adds_numbers(call.bias) and scale == 1.0:
        return []  # T5: the scale is part of the initialization
    ratio = float(q.float().norm(dim=-1).mean() / k.float().norm(dim=-1).mean().clamp_min(1e-30))
    if scale == 1.0 and ratio < width**-0.25:
        return []  # the queries were scaled before
    if scale == 1.0 and any(_is_close(x, expected) for x in _module_factors(subject)) and ratio < width**-0.125:
        return []
    guess = _explain(scale, width, call.shape[1])
    message = f"scores are multiplied by {scale:.4g}, but 1/√d is {expected:.4g} for heads of width {width}{guess}; "
    message += "check the scale, or state it in the model's configuration"
    return [Finding("unusual scale", call.name, None, None, None, message)]


def _find_eager_scale(subject: Subject) -> list[Finding] | str:
    """Return a finding if eager attention multiplies its scores by a number that is a known mistake."""
    call, width = subject.call, subject.call.score_width
    if call.scale is None or width is None or width < 2:
        return "the scale of eager attention is not recorded where it is not one number"
    guess = "" if _is_close(call.scale, width**-0.5) else _explain(call.scale, width, call.shape[1])
    stated = any(_is_close(call.scale, x) for x in _stated_factors(subject.config, width))
    unscaled = call.scale == 1.0 and (
        call.score_bias or _is_unscaled_family(subject) or _normalizes(subject) or _has_small_scores(subject)
    )
    wide = "d_model" in guess and config_value(subject.config, "model_type") in WIDE_TYPES
    if not guess or stated or unscaled or wide:
        return []
    message = f"scores are multiplied by {call.scale:.4g}, but 1/√d is {width**-0.5:.4g} for heads of width {width}"
    message += f"{guess}; check the scale, or state it in the model's configuration"
    return [Finding("unusual scale", call.name, None, None, None, message)]


def _normalizes(subject: Subject) -> bool:
    """Whether the module has norms for its queries and its keys, by their names: q_norm and k_norm, for example."""
    names = [] if subject.module is None else [name.lower() for name, _ in subject.module.named_children()]
    norms = [name for name in names if "norm" in name or name.endswith("ln")]
    return all(any(name.startswith(first) for name in norms) for first in ("q", "k"))


def _has_small_scores(subject: Subject) -> bool:
    """Whether the scores are small although they are not scaled: the weights may include the scale."""
    weights = subject.call.weights(queries=slice(0, 64))
    visible = (weights > 0).sum(-1)
    largest = weights.amax(-1) * visible  # 1 where the weights are even
    return bool(largest[visible > 2].median() < 1.5) if bool((visible > 2).any()) else True


def _is_close(a: float, b: float) -> bool:
    return abs(a - b) <= CLOSE * abs(b)


def _explain(scale: float, width: int, heads: int) -> str:
    reasons = {
        "the scores are not scaled": 1.0,
        "the scale is applied twice": 1 / width,
        "the scores are multiplied by √d instead of divided": width**0.5,
        "1/√d_model is used": (width * heads) ** -0.5,
    }
    return next((f": {reason}" for reason, value in reasons.items() if _is_close(scale, value)), "")


def _stated_factors(config: Any, width: int) -> Iterator[float]:
    """Yield the factors that a configuration states, directly or as a width."""
    if config is None:
        return
    for name, value in list(vars(config).items()):
        if isinstance(value, bool):
            if name == "scale_attn_weights" and not value:
                yield 1.0
            if name == "scale_attn_by_inverse_layer_idx" and value:
                yield from (width**-0.5 / n for n in range(1, 1 + int(config_value(config, "num_hidden_layers", 1))))
        elif isinstance(value, int | float) and value > 0:
            if name in WIDTHS:
                yield value**-0.5
            elif all(any(part in name for part in parts) for parts in STATED):
                yield from (float(value), value * width**-0.5, value**-0.5)
        elif name in ("rope_scaling", "rope_parameters") and isinstance(value, dict):
            for key in ("mscale", "mscale_all_dim", "attention_factor"):
                if isinstance(number := value.get(key), int | float):
                    scaled = 0.1 * number * torch.tensor(float(value.get("factor") or 1)).log().item() + 1.0
                    yield scaled**2 * width**-0.5
        elif hasattr(value, "to_dict"):
            yield from _stated_factors(value, width)
    nope, rope = (config_value(config, f"qk_{part}_head_dim") for part in ("nope", "rope"))
    if isinstance(nope, int) and isinstance(rope, int) and nope + rope > 0:
        yield (nope + rope) ** -0.5
    if (kinds := config_value(config, "pos_att_type")) is not None:  # DeBERTa: content and positions
        yield ((1 + len(kinds)) * width) ** -0.5


def _module_factors(subject: Subject) -> Iterator[float]:
    for name in SCALING:
        value = getattr(subject.module, name, None)
        if isinstance(value, Tensor) and value.numel() == 1:
            value = float(value)
        if isinstance(value, int | float) and value > 0:
            yield from (float(value), 1 / value)


def _is_unscaled_family(subject: Subject) -> bool:
    config = subject.config
    families = any(config_value(config, name) is not None for name in UNSCALED_FAMILIES)
    return families or config_value(config, "model_type") in UNSCALED_TYPES


def _used_width(q: Tensor, k: Tensor) -> int:
    """Return the number of features that are not zero in all queries and keys."""
    return int(min((x != 0).flatten(0, -2).any(0).sum() for x in (q, k)))


def _has_constant_norm(x: Tensor) -> bool:
    """Whether all vectors of a head have nearly the same norm."""
    norms = x.float().norm(dim=-1)
    return norms.shape[-1] > 1 and bool(((norms - norms.mean(-1, keepdim=True)).abs() <= 1e-2 * norms).all())


def _adds_numbers(bias: Tensor | None) -> bool:
    """Whether a bias holds numbers other than 0 and those that hide keys."""
    return bias is not None and bool(((bias != 0) & (bias > -100)).any())
