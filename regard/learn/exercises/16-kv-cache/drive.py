import torch


class WrongReturn(Exception):
    """`step` does not return two values."""


def step(code, *arguments):
    value = code.step(*arguments)
    if not isinstance(value, tuple | list):
        raise WrongReturn(f"step|2|{type(value).__name__}")
    if len(value) != 2:
        raise WrongReturn(f"step|2|{len(value)}")
    return value


def drive(code, x, chunks, other, W_q, W_k, W_v):
    cache, outputs = None, []
    for part in x.split(chunks, dim=1):
        output, cache = step(code, part, cache, W_q, W_k, W_v)
        outputs.append(output)
    # Continue one cache twice: the first continuation must not change the second.
    first, _ = step(code, other, cache, W_q, W_k, W_v)
    second, _ = step(code, other, cache, W_q, W_k, W_v)
    return torch.cat(outputs, dim=1), first, second
