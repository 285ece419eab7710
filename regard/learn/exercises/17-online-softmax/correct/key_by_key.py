import math

import numpy as np


def online_attention(query, keys, values, tile):
    m, s, a = -math.inf, 0.0, np.zeros_like(values[0])
    for key, value in zip(keys, values, strict=True):
        x = float(key @ query) / math.sqrt(len(query))
        if x > m:
            shrink = math.exp(m - x)
            m, s, a = x, s * shrink + 1, a * shrink + value
        else:
            s, a = s + math.exp(x - m), a + math.exp(x - m) * value
    return a / s, np.float64(m + math.log(s))
