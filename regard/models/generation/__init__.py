"""Text generation: `prompt` reads token ids, `token_scorer` scores the next token, `sampling` or `beam_search` chooses.

`generate` runs the loop. `token_scorer` uses the model's modules or `one_token_fast_path`, whose layers
(`one_token_kernels`) are loops compiled by numba with the same results.
"""
