import numpy as np


def layer_norm(x, gamma, beta, eps=1e-5):
    centred = x - np.mean(x, axis=-1)[..., None]
    variance = np.einsum("...d,...d->...", centred, centred)[..., None] / x.shape[-1]
    return centred * gamma * (variance + eps) ** -0.5 + beta
