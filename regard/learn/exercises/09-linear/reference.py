import torch


def linear_loop(x, weight, bias):
    """(B, S, D), (D_out, D), (D_out,) -> (B, S, D_out), one token after another."""
    sequences = []
    for sequence in x:
        tokens = [weight @ token + bias for token in sequence]
        sequences.append(torch.stack(tokens))
    return torch.stack(sequences)


def linear_reshape(x, weight, bias):
    """(B, S, D), (D_out, D), (D_out,) -> (B, S, D_out), as one product of matrices."""
    B, S, D = x.shape
    flat = x.reshape(B * S, D)
    y = flat @ weight.T + bias  # (B·S, D_out)
    return y.reshape(B, S, -1)
