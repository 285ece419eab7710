import numpy as np


def sinusoidal_positions(length, d_model):
    frequencies = np.exp(-np.log(10000.0) * np.arange(0, d_model, 2) / d_model)
    angles = np.outer(np.arange(length), frequencies)
    return np.stack([np.sin(angles), np.cos(angles)], axis=-1).reshape(length, -1)[:, :d_model]
