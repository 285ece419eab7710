"""Text generation: `prompt` reads token ids, `token_scorer` scores the next token, `sampling` or `beam_search` chooses.

`generate` runs the loop. `token_scorer` uses the model's modules or `compiled_decoder`, whose layers (`compiled_layer`)
are loops compiled by numba with the same results.
"""
