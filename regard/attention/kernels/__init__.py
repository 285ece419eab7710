"""How `attend` computes attention in torch.

`block_plan` decides which blocks of pairs are computed, `additive_mask` computes the mask of their scores, and
`tiled_attention` runs torch's CPU kernel on them, forward and backward. `autograd` makes the tiles differentiable,
`torch_compile_operator` makes them an operator for torch.compile. `materialized_weights` also returns the weights.
`changed_scores` is for softcap and score functions.
"""
