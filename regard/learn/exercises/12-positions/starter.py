import numpy as np


def sinusoidal_positions(length, d_model):
    """A table (length, d_model): sines in the even columns, cosines in the odd ones."""
    raise NotImplementedError
