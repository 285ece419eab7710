"""Statistics of every head and query of a call, with memory linear in length.

`row_statistics.Statistics` is the result. There are three ways to compute it: `from_score_blocks` runs the compiled
loops of `numba_row_loops` over blocks of scores (CPU, float32 or less), `from_fused_attention` uses fused attention
(any device), and `from_weights` takes weights that a model has computed itself.
"""
