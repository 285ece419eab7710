"""Validation of the shapes of query, keys, values, mask and bias.

    query   (d_k,)    (L, d_k)    (..., H,    L, d_k)
    keys    (S, d_k)  (S, d_k)    (..., H_kv, S, d_k)
    values  (S, d_v)  (S, d_v)    (..., H_kv, S, d_v)
    scores  (S,)      (L, S)      (..., H,    L, S)

H_kv divides H: each key/value head serves a group of H / H_kv consecutive query heads. A batch dimension of keys and
values is that of the query, or 1. Only shapes are read, so the checks apply to NumPy arrays and torch tensors.
"""

from collections.abc import Sequence

from regard.attention.layers.head_count import check_groups

Shape = tuple[int, ...]


def check_shapes(query: Sequence[int], keys: Sequence[int], values: Sequence[int]) -> Shape:
    """Return the shape of the scores for query, keys and values of these shapes; raise ValueError if they do not match.

    >>> check_shapes((2, 8, 5, 64), (2, 4, 7, 64), (2, 4, 7, 32))
    (2, 8, 5, 7)
    >>> check_shapes((64,), (7, 64), (7, 64))
    (7,)
    """
    q, k, v = tuple(query), tuple(keys), tuple(values)
    if not q:
        raise ValueError("query must have shape (d_k,), (L, d_k) or (..., H, L, d_k), got a single number")
    for name, shape in (("keys", k), ("values", v)):
        if len(shape) < 2:
            raise ValueError(
                f"{name} must have shape (S, d) or (..., H, S, d), got {shape}; "
                f"a single key and value still need their S axis: {name}[None]"
            )
    if len(k) != len(v) or len(k) != max(len(q), 2):
        raise ValueError(
            f"query, keys and values must have the same number of dimensions, got shapes {q}, {k} and {v}; "
            "add the missing leading ones, for example keys[None]"
        )
    if q[-1] != k[-1]:
        raise ValueError(
            f"query and keys must have the same last dimension d_k, got {q[-1]} and {k[-1]} "
            f"(shapes {q} and {k}); did you pass keys of another head width?"
        )
    if k[-2] != v[-2]:
        raise ValueError(
            f"keys and values must have the same number of positions S, got {k[-2]} keys and {v[-2]} values "
            f"(shapes {k} and {v}); each key comes with one value"
        )
    if k[:-2] != v[:-2]:
        raise ValueError(f"keys and values must have the same leading dimensions, got shapes {k} and {v}")
    if len(q) > 2 and q[-3] != k[-3]:
        if not k[-3]:
            raise ValueError(f"keys must have at least one head, got shape {k}")
        check_groups(q[-3], k[-3])
    for axis, (ours, theirs) in enumerate(zip(q[:-3], k[:-3], strict=True)):
        if theirs not in (1, ours):
            raise ValueError(
                f"batch dimension {axis} is {ours} in the query and {theirs} in the keys "
                f"(shapes {q} and {k}); expected {ours}, or 1 to share the keys"
            )
    return (*q[:-1], k[-2])


def check_broadcast(name: str, shape: Sequence[int], scores: Sequence[int]) -> Shape:
    """Return the shape of a mask or bias without superfluous leading 1s; raise ValueError if it does not broadcast.

    >>> check_broadcast("mask", (1, 1, 5, 7), (5, 7))
    (5, 7)
    >>> check_broadcast("mask", (4, 7), (2, 5, 7))
    Traceback (most recent call last):
    ValueError: mask of shape (4, 7) does not broadcast to the scores (H, L, S) = (2, 5, 7): dimension L is 4,
    expected 5 or 1
    """
    full, target = tuple(shape), tuple(scores)
    extra = max(len(full) - len(target), 0)
    names = letters(len(target))
    where = f"{name} of shape {full} does not broadcast to the scores ({', '.join(names)}) = {target}"
    if any(size != 1 for size in full[:extra]):
        raise ValueError(
            f"{where}: it has {extra} leading dimension(s) {full[:extra]} that the scores do not have; "
            "expected them to be absent or 1"
        )
    fitted = full[extra:]
    for axis in range(-1, -len(fitted) - 1, -1):  # not zip(strict=False), which torch.compile of torch 2.6 rejects
        if fitted[axis] not in (1, target[axis]):
            raise ValueError(f"{where}: dimension {names[axis]} is {fitted[axis]}, expected {target[axis]} or 1")
    return fitted


def letters(rank: int) -> tuple[str, ...]:
    """Return the letters of the dimensions of the scores, as used in error messages and traces.

    >>> letters(2), letters(4), letters(5)
    (('L', 'S'), ('B', 'H', 'L', 'S'), ('B1', 'B2', 'H', 'L', 'S'))
    """
    batch = ("B",) if rank == 4 else tuple(f"B{i}" for i in range(1, rank - 2))
    return (*batch, *("H", "L", "S")[-rank:])
