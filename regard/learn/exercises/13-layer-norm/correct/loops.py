import numpy as np


def layer_norm(x, gamma, beta, eps=1e-5):
    result = np.empty_like(x)
    for index in np.ndindex(x.shape[:-1]):
        token = x[index]
        mean = sum(token) / len(token)
        variance = sum((value - mean) ** 2 for value in token) / len(token)
        result[index] = [
            g * (t - mean) / (variance + eps) ** 0.5 + b for t, g, b in zip(token, gamma, beta, strict=True)
        ]
    return result
