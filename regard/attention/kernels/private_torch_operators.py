"""Private names of torch that regard's attention depends on; only this file depends on the version of torch."""

from typing import Any

import torch

flash_forward: Any = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu
"""(q, k, v, dropout, is_causal, *, attn_mask, scale) → output, log-sum-exp."""

flash_backward: Any = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu_backward.default
"""(grad, q, k, v, output, lse, dropout, is_causal, *, attn_mask, scale) → gradients of q, k and v."""


def in_func_transform() -> bool:
    """Return whether the code runs inside vmap, grad or another torch.func transform."""
    return torch._C._functorch.peek_interpreter_stack() is not None


def in_jit_trace() -> bool:
    """Return whether torch.jit.trace is recording, which does not support the autograd functions of regard."""
    return torch._C._get_tracing_state() is not None


def in_dispatch_mode() -> bool:
    """Return whether a TorchDispatchMode is active, as for fake tensors."""
    return torch._C._len_torch_dispatch_stack() > 0
