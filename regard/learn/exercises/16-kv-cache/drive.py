import torch


def drive(code, x, chunks, other, W_q, W_k, W_v):
    cache, outputs = None, []
    for part in x.split(chunks, dim=1):
        output, cache = code.step(part, cache, W_q, W_k, W_v)
        outputs.append(output)
    # Continue one cache twice: the first continuation must not change the second.
    first, _ = code.step(other, cache, W_q, W_k, W_v)
    second, _ = code.step(other, cache, W_q, W_k, W_v)
    return torch.cat(outputs, dim=1), first, second
