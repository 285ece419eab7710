"""Private names of torch that regard's attention depends on; only this file depends on the version of torch."""

from functools import cache
from typing import Any, Literal

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor
from torch._subclasses.fake_tensor import FakeTensor
from torch.autograd import forward_ad
from torch.utils._python_dispatch import _disable_current_modes

from regard.attention import reference
from regard.torch_version import check_torch_version

check_torch_version(torch.__version__)

_forward: Any = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu.default
_backward: Any = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu_backward.default


def _graph_has_float64() -> bool:
    x = torch.empty(1, 1, 1, 8, dtype=torch.float64, device="meta")
    return bool(_forward(x, x, x, 0.0, False, attn_mask=None, scale=1.0)[1].dtype == torch.float64)


# In a graph, torch 2.10 takes the log-sum-exp of float64 inputs for float32: the compiled backward pass fails.
GRAPH_HAS_FLOAT64 = _graph_has_float64()


def flash_forward(
    q: Tensor, k: Tensor, v: Tensor, dropout: float, causal: bool, *, attn_mask: Tensor | None, scale: float
) -> tuple[Tensor, Tensor]:
    """Return output and log-sum-exp from torch's CPU operator."""
    q, scale = with_positive_scale(q, scale)
    attn_mask = with_regular_strides(attn_mask)
    if q.shape[1] != k.shape[1] and not flash_is_exact(grouped=True):
        k, v = _keys_of_each_head(q, k, v)
    out, lse = _forward(q, k, v, dropout, causal, attn_mask=attn_mask, scale=scale)
    return out, lse


def flash_backward(
    grad: Tensor,
    q: Tensor,
    k: Tensor,
    v: Tensor,
    out: Tensor,
    lse: Tensor,
    dropout: float,
    causal: bool,
    *,
    attn_mask: Tensor | None,
    scale: float,
) -> tuple[Tensor, Tensor, Tensor]:
    """Return the gradients of q, k and v from torch's CPU operator."""
    signed, positive = with_positive_scale(q, scale)
    attn_mask = with_regular_strides(attn_mask)
    groups = k.shape[1] if q.shape[1] != k.shape[1] and not flash_is_exact(grouped=True) else None
    if groups is not None:
        k, v = _keys_of_each_head(q, k, v)
    dq, dk, dv = _backward(grad, signed, k, v, out, lse, dropout, causal, attn_mask=attn_mask, scale=positive)
    if groups is not None:
        dk, dv = (x.unflatten(1, (groups, -1)).sum(2) for x in (dk, dv))
    factor = _query_factor(q, scale)
    return dq if factor == 1 else dq * factor, dk, dv


def with_positive_scale(q: Tensor, scale: float) -> tuple[Tensor, float]:
    """Return queries and a scale > 0 with the same scores; torch's causal kernels multiply −inf by the scale."""
    factor = _query_factor(q, scale)
    return (q, scale) if factor == 1 else (q * factor, -scale if factor == -1 else 1.0)


def _query_factor(q: Tensor, scale: float) -> float:
    """Return ±1, or the scale itself if the precision of the scores may round it to 0."""
    tiny = torch.finfo(torch.float64 if q.dtype == torch.float64 else torch.float32).tiny
    return 1.0 if scale >= tiny else -1.0 if scale <= -tiny else scale


def with_regular_strides(mask: Tensor | None) -> Tensor | None:
    """Return a mask whose keys are consecutive in memory, or expanded; before torch 2.8 the CPU operators assume it."""
    return mask if mask is None or mask.stride(-1) in (0, 1) or mask.shape[-1] == 1 else mask.contiguous()


@cache
def flash_is_exact(grouped: bool) -> bool:
    """Return whether torch's CPU operators agree with the reference; tested once for each value of `grouped`.

    Before torch 2.9 they do not know grouped heads and access memory beyond the keys. The keys of this test are
    therefore a view of as many heads as the queries have, and the backward operator, which allocates its results
    itself, is called only if the forward operator is correct.
    """
    with torch.no_grad(), torch._C.DisableTorchFunction(), _disable_current_modes():
        q, k, v, grad = torch.arange(768, dtype=torch.float32).mul(0.7).sin().view(4, 1, 4, 6, 8)
        k, v = (k[:, :2], v[:, :2]) if grouped else (k, v)
        hidden = torch.zeros(6, 6).index_fill(0, torch.tensor([2]), float("-inf"))
        for added, causal in ((hidden, False), (None, True)):
            visible = np.tri(6, dtype=bool) if causal else hidden.numpy() == 0
            out, lse = _forward(q, k, v, 0.0, causal, attn_mask=added, scale=0.5)
            q_64, g = (x.numpy().astype(np.float64) for x in (q, grad))
            k_64, v_64 = (x.numpy().astype(np.float64).repeat(q.shape[1] // k.shape[1], 1) for x in (k, v))
            expected, w = reference.attention(q_64, k_64, v_64, visible, scale=0.5, weights=True)
            if not np.allclose(out.numpy(), expected, atol=1e-5):
                return False
            ds = w * (g @ v_64.swapaxes(-1, -2) - (g * expected).sum(-1, keepdims=True)) * 0.5
            per_head = (ds @ k_64, ds.swapaxes(-1, -2) @ q_64, w.swapaxes(-1, -2) @ g)
            gradients = _backward(grad, q, k, v, out, lse, 0.0, causal, attn_mask=added, scale=0.5)
            for x, y in zip(gradients, per_head, strict=True):
                y = y.reshape(1, x.shape[1], -1, 6, 8).sum(2)
                if not np.allclose(x.numpy(), y, atol=1e-5):
                    return False
    return True


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


@cache
def sums_bfloat16_apart() -> bool:
    """Return whether a product of bfloat16 matrices on this CPU is summed in a float32 copy of its result.

    oneDNN does this on CPUs with AVX-512 but without its bfloat16 instructions.
    """
    return torch.backends.cpu.get_cpu_capability() == "AVX512" and not torch.cpu._is_avx512_bf16_supported()


@cache
def packs_half_precision_keys() -> bool:
    """Return whether the CPU kernel copies keys and values in half precision into the order of matrix instructions.

    oneDNN does this on CPUs with AMX.
    """
    return torch.cpu._is_amx_tile_supported()


def in_func_transform() -> bool:
    """Return whether the code runs inside vmap, grad or another torch.func transform.

    torch.compile of the oldest versions cannot trace the test; there the transforms apply to the compiled graph.
    """
    if torch.__version__.startswith(("2.6.", "2.7.", "2.8.")) and torch.compiler.is_compiling():
        return False
    return torch._C._functorch.peek_interpreter_stack() is not None


def in_forward_mode() -> bool:
    """Return whether forward-mode derivatives are computed (jvp, jacfwd); the fused operators have none."""
    return forward_ad._current_level >= 0


def in_graph(x: Tensor) -> bool:
    """Return whether a graph is recorded, by torch.compile, torch.export or torch.jit.trace: values cannot be read.

    While torch 2.6 exports a model, `is_compiling` is False inside the layers of torch.nn and their subclasses, but
    their inputs are fake tensors with symbolic shapes.
    """
    return (
        torch.compiler.is_compiling()
        or in_jit_trace()
        or (isinstance(x, FakeTensor) and x.fake_mode.shape_env is not None)
    )


def has_memory(x: Tensor) -> bool:
    """Return whether x has memory that NumPy can read; tensors inside torch.func transforms such as vmap have none."""
    try:
        x.data_ptr()
    except RuntimeError:
        return False
    return True


def in_compile() -> bool:
    """Return whether torch.compile records a graph that runs in this process, and may contain operators of regard."""
    exporting = getattr(torch.compiler, "is_exporting", None)  # torch 2.7 and later
    return torch.compiler.is_compiling() and not (exporting is not None and exporting())


def may_cache_tensors() -> bool:
    """Return whether tensors that are created now can be used by later calls.

    Inside a graph, a transform or a dispatch mode they may be fake or wrapped.
    """
    return not (torch.compiler.is_compiling() or in_func_transform() or in_dispatch_mode())


def in_jit_trace() -> bool:
    """Return whether torch.jit.trace is recording, which does not support the autograd functions of regard."""
    return torch._C._get_tracing_state() is not None


def in_dispatch_mode() -> bool:
    """Return whether a TorchDispatchMode is active, as for fake tensors."""
    return torch._C._len_torch_dispatch_stack() > 0
