"""Attribution: which heads and tokens matter for an output, without an S×S matrix on fused attention.

A call that was recorded with gradients keeps its tensors in the graph (`live_calls`). `output_gradients` runs one
backward pass and hands the gradient of each call's output to `importance` (gates of heads) or `relevance` (gradient ×
attention, propagated as a vector). `rollout` needs no gradients. `differentiable` has weights and entropy through which
gradients flow.
"""
