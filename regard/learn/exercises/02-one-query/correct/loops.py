import math

import numpy as np


def attention(query, keys, values):
    scores = []
    for key in keys:
        scores.append(sum(q * k for q, k in zip(query, key, strict=True)) / math.sqrt(len(query)))
    largest = max(scores)
    exponentials = [math.exp(score - largest) for score in scores]
    weights = np.array([e / sum(exponentials) for e in exponentials])
    output = np.zeros(values.shape[1])
    for weight, value in zip(weights, values, strict=True):
        output = output + weight * value
    return output, weights
