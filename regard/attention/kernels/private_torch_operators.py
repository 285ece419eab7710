"""Private names of torch that regard's attention depends on; only this file depends on the version of torch."""

from typing import Any, Literal

import torch
import torch.nn.functional as F
from torch import Tensor

flash_forward: Any = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu
"""(q, k, v, dropout, is_causal, *, attn_mask, scale) → output, log-sum-exp."""

flash_backward: Any = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu_backward.default
"""(grad, q, k, v, output, lse, dropout, is_causal, *, attn_mask, scale) → gradients of q, k and v."""


FUSED_DEVICES = {"cuda"}

FusedOperator = Literal["flash", "efficient", "cudnn"]


def choose_fused_operator(q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None, causal: bool) -> FusedOperator | None:
    """Return the operator of the device that returns the log-sum-exp for these arguments; None if there is none.

    The log-sum-exp of ROCm's operators is not documented, so they are not used.
    """
    if q.device.type not in FUSED_DEVICES or torch.version.hip is not None or q.dtype == torch.float64:
        return None
    cuda = torch.backends.cuda
    square, grouped = q.shape[-2] == k.shape[-2], q.shape[1] != k.shape[1]
    if mask is None and (square or not causal):
        params = cuda.SDPAParams(q, k, v, None, 0.0, causal, grouped)
        if cuda.can_use_flash_attention(params):
            return "flash"
    if causal and not square:
        return None
    params = cuda.SDPAParams(q, *_keys_of_each_head(q, k, v), mask, 0.0, causal, False)
    if cuda.can_use_efficient_attention(params):
        return "efficient"
    return "cudnn" if cuda.can_use_cudnn_attention(params) else None


def fused_forward(
    q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None, causal: bool, scale: float
) -> tuple[Tensor, Tensor] | None:
    """Return output and log-sum-exp from a fused operator of the device; None if it has none for these arguments.

    The operators need heads of a multiple of 8 channels, and rows of a mask that begin at a multiple of 16 numbers.
    The efficient one pads the log-sum-exp to a multiple of 32 queries, and has no grouped heads. torch's own function
    prepares its arguments in the same way, but does not return the log-sum-exp.

    These operators run on CUDA only, where this code has not been run: the tests compare their shapes on torch's meta
    device, and the preparation of arguments and results with a simulated operator.
    """
    name = choose_fused_operator(q, k, v, mask, causal)
    if name is None:
        return None
    length, width = q.shape[-2:]
    q, k, v = (x if width % 8 == 0 else F.pad(x, (0, -width % 8)) for x in (q, k, v))
    aten = torch.ops.aten
    if name == "flash":
        out, lse = aten._scaled_dot_product_flash_attention(q, k, v, 0.0, causal, False, scale=scale)[:2]
        return out[..., :width], lse
    k, v = _keys_of_each_head(q, k, v)
    if mask is not None:
        keys = k.shape[-2]
        mask = F.pad(mask, (0, -keys % 16))[..., :keys].expand(*q.shape[:3], keys)
    if name == "efficient":
        out, lse = aten._scaled_dot_product_efficient_attention(q, k, v, mask, True, 0.0, causal, scale=scale)[:2]
    else:
        out, lse = aten._scaled_dot_product_cudnn_attention(q, k, v, mask, True, 0.0, causal, False, scale=scale)[:2]
        lse = lse.flatten(2)
    return out[..., :width], lse[..., :length]


def _keys_of_each_head(q: Tensor, k: Tensor, v: Tensor) -> tuple[Tensor, Tensor]:
    """Return keys and values repeated for the query heads that share them."""
    group = q.shape[1] // k.shape[1]
    return (k, v) if group == 1 else (k.repeat_interleave(group, 1), v.repeat_interleave(group, 1))


def in_func_transform() -> bool:
    """Return whether the code runs inside vmap, grad or another torch.func transform."""
    return torch._C._functorch.peek_interpreter_stack() is not None


def in_jit_trace() -> bool:
    """Return whether torch.jit.trace is recording, which does not support the autograd functions of regard."""
    return torch._C._get_tracing_state() is not None


def in_dispatch_mode() -> bool:
    """Return whether a TorchDispatchMode is active, as for fake tensors."""
    return torch._C._len_torch_dispatch_stack() > 0
