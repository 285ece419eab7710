import numpy as np


def sinusoidal_positions(length, d_model):
    column = np.arange(d_model)
    angle = np.arange(length)[:, np.newaxis] / np.power(10000.0, (column - column % 2) / d_model)
    return np.where(column % 2 == 0, np.sin(angle), np.cos(angle))
