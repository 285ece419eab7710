"""The peak: what is alive at the fullest moment of a call.

It is the peak of the bytes which torch's allocator hands out *during* the call: parameters, input and a KV cache
are there before and not in it. It is the largest of a few moments, each a sum of what is alive then:

    attend      q, k, v · context · log-sum-exp or weights · mask · the kernel's own buffers
    project     q, k, v · context · weights · output          (q, k and v live until the layer returns)
    backward    all that was kept · gradients so far · pieces of dQ, dK and dV

The kernel's buffers are torch's: a block of scores a thread, so they depend on `torch.get_num_threads()`. The
moments follow the code of the layers step by step, and hold within 5 % of what is measured, mostly exactly. Where
the layer has ALiBi, sinks or norms, or dropout while training, they are an estimate.
"""

from regard.costs.layer import Layer
from regard.costs.peak_backward import backward_moments
from regard.costs.peak_forward import forward_moments


def peak(layer: Layer, *, backward: bool) -> int:
    """Bytes alive at the fullest moment of the call, beyond what was there before it."""
    moments = list(forward_moments(layer, keeps=backward))
    if backward:
        moments += backward_moments(layer)
    return max(moments)
