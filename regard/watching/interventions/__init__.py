"""Interventions: attention calls of a running model that are changed exactly, at the speed of fused kernels.

`intervene_context` has `regard.intervene`. Its `Intervener` (`intervener`) sees attention functions as the recorder of
`regard.watch` does. Where a pattern matches the module, the interventions (`kinds`) select batch items, heads, queries
and keys (`selection`) of the call, and turn into changes (`call_changes`): of q, k and v, then of weights, then of
outputs. `fused_changes` computes the changed output of a fused call without an L×S matrix; `eager_changes` writes the
changed weights into the tensor that an eager model multiplies with its values. `activation_patching` has
`regard.patching`.
"""
