"""Board network: policy and value of a position, from residual convolutions with spatial self-attention between them.

`network` puts the parts together: `input_planes`, `convolution` (with `winograd`), `norm`, `attention_block` (with
`attention_patterns` and `line_bias`) and `opening_table`. `taught_positions` stores which positions an opening table
was taught, `any_network` checks networks that are not a `BoardNet`. `config` describes a network, `evaluator` runs it
for NumPy callers, `extend_network` adds blocks or an opening table to a trained one, `head_schedule` changes the
number of heads during training.
"""
