import numpy as np
from einops import reduce


def softmax(x):
    e = np.exp(x - reduce(x, "... n -> ... 1", "max"))
    return e / reduce(e, "... n -> ... 1", "sum")
