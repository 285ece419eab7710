"""The recorder of `regard.watch`: what happens while a watched model runs.

`function_mode.Recorder` sees every torch function. Functions that are attention become a `Call` by a reader
(`regard.watching.readers`); `call_site` finds the module that made the call and what it was called with;
`call_tensors` keeps the tensors of the call, with `growing_keys` for the keys of a cache. When the with-block ends,
`shared_axes` separates batch and heads and finds the positions of query chunks, and `unseen_modules` lists what
attended but was not recorded. `model_constants` knows the memory of parameters and buffers.
"""
