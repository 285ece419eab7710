import numpy as np
from einops import reduce


def layer_norm(x, gamma, beta, eps=1e-5):
    centred = x - reduce(x, "... d -> ... 1", "mean")
    return centred / np.sqrt(reduce(centred**2, "... d -> ... 1", "mean") + eps) * gamma + beta
