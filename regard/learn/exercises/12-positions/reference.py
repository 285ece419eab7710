import numpy as np


def sinusoidal_positions(length, d_model):
    """A table (length, d_model): sines in the even columns, cosines in the odd ones."""
    position = np.arange(length)[:, None]
    even = np.arange(0, d_model, 2)
    angle = position / 10000 ** (even / d_model)  # (length, pairs)
    table = np.zeros((length, d_model))
    table[:, 0::2] = np.sin(angle)
    table[:, 1::2] = np.cos(angle[:, : d_model // 2])
    return table
