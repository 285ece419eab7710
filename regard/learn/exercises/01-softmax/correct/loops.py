import math

import numpy as np


def softmax(x):
    result = np.empty_like(x)
    for index in np.ndindex(x.shape[:-1]):
        row = x[index]
        largest = max(row)
        exponentials = [math.exp(score - largest) for score in row]
        result[index] = [e / sum(exponentials) for e in exponentials]
    return result
