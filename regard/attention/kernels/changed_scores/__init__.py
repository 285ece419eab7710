"""Attention whose scores change before softmax, by softcap or by a function; torch's fused kernels compute neither.

`score_change` holds the two changes. `row_blocks` computes attention a block of rows at a time, without the L×S matrix;
`softcap_tiles` is its fast path for softcap alone, with `compiled_tanh`.
"""
