"""Attention as a sequence of named steps, each with its formula and its numbers.

`steps` computes a trace in NumPy, `trace_record` defines what it contains and how it is stored as JSON, `step_texts`
explains each step. `cell` writes out the formula of one cell with its numbers, and `terminal_text` prints a whole
trace. `toy_layer` makes token vectors and weights for examples.
"""
