"""Statistics of every head and query of a call, with memory linear in length.

`row_statistics.Statistics` is the result. There are three ways to compute it: `row_blocks` runs the compiled loops of
`compiled_rows` over blocks of scores (CPU, float32 or less), `fused` uses fused attention (any device), and
`from_weights` takes weights that a model has computed itself.
"""
