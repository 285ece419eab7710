"""Text generation: `prompt` reads token ids, `token_scorer` scores the next token, `sampling` or `beam_search` chooses.

`generate` runs the loop. `token_scorer` uses the model's modules or `one_token_model_step`, whose layers
(`one_token_layer_kernels`) are loops compiled by numba with the same results.
"""
