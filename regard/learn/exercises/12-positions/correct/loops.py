import math

import numpy as np


def sinusoidal_positions(length, d_model):
    table = np.zeros((length, d_model))
    for p in range(length):
        for column in range(d_model):
            angle = p / 10000 ** (2 * (column // 2) / d_model)
            table[p, column] = math.cos(angle) if column % 2 else math.sin(angle)
    return table
