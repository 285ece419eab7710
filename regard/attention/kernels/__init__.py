"""How `attend` computes attention in torch.

`block_plan` decides which blocks of pairs are computed, `additive_mask` what is added to their scores, and `tiles` runs
torch's CPU kernel on them, forward and backward. `autograd` makes the tiles differentiable, `compile_op` makes them an
operator for torch.compile. `materialized` computes attention with its weights.
"""
