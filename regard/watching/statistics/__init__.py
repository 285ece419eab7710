"""Statistics of every head and query of a call, with memory linear in length.

`row_statistics.Statistics` is the result. There are two ways to compute it: `from_score_blocks` runs the compiled
loops of `numba_row_loops` over blocks of scores (CPU, float32 or less), and `from_weights` uses torch's operations on
blocks of weights (any device and precision), also of weights that a model has computed itself.
"""
