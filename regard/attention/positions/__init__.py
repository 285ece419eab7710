"""Position encodings.

`Sinusoidal` and `Learned` are added to the vectors before attention. `Rotary` rotates queries and keys, and `Alibi` is
a bias on the scores, so both act inside attention.
"""
