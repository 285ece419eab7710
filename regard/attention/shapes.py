"""What `attend` takes: the shapes are read once, at the door, and an error says what came and what to do."""

import torch
from torch import Tensor


def check_inputs(q: Tensor, k: Tensor, v: Tensor) -> None:
    """Raise unless q (..., H, L, d_k), k (..., H_kv, S, d_k) and v (..., H_kv, S, d_v) go together."""
    named = {"q": q, "k": k, "v": v}
    for name, x in named.items():
        if not isinstance(x, Tensor):
            raise TypeError(f"{name} must be a tensor, got {type(x).__name__}; for NumPy use regard.attention.attention")
        if not x.dtype.is_floating_point:
            raise TypeError(
                f"{name} must be floating point, got {x.dtype}; token ids are embedded first, "
                f"whole numbers are converted with {name}.float()"
            )
    if len({x.dtype for x in named.values()}) > 1:
        raise TypeError(f"q, k and v must have one dtype, got {_each(named, lambda x: x.dtype)}; convert with .to(q.dtype)")
    if len({x.device for x in named.values()}) > 1:
        raise ValueError(f"q, k and v must be on one device, got {_each(named, lambda x: x.device)}")
    shapes = _each(named, lambda x: tuple(x.shape))
    if q.dim() < 2 or not q.dim() == k.dim() == v.dim():
        raise ValueError(
            f"q, k and v must have the same number of dimensions, (..., heads, length, d_k), at least 2; got {shapes}"
        )
    if q.shape[-1] != k.shape[-1]:
        raise ValueError(
            f"q and k must have the same last dimension d_k, got {q.shape[-1]} and {k.shape[-1]} ({shapes}); "
            "did you pass keys of another head width?"
        )
    if k.shape[-2] != v.shape[-2]:
        raise ValueError(f"k and v must have the same number of keys S, got {k.shape[-2]} and {v.shape[-2]} ({shapes})")
    if q.dim() >= 3:
        if k.shape[-3] != v.shape[-3]:
            raise ValueError(f"k and v must have the same number of heads, got {k.shape[-3]} and {v.shape[-3]} ({shapes})")
        if k.shape[-3] == 0 or q.shape[-3] % k.shape[-3]:
            raise ValueError(
                f"the {q.shape[-3]} heads of q must be a multiple of the {k.shape[-3]} heads of k and v ({shapes}); "
                "is the order (..., heads, length, d_k)?"
            )
    if not q.shape[:-3] == k.shape[:-3] == v.shape[:-3]:
        raise ValueError(f"q, k and v must have the same batch dimensions, got {shapes}; use .expand() for a shared one")


def check_added(what: str, x: Tensor, q: Tensor, k: Tensor) -> None:
    """Raise unless x broadcasts to (..., H, L, S), saying which dimension does not fit."""
    want = (*q.shape[:-1], k.shape[-2])
    if x.dim() > len(want):
        raise ValueError(
            f"the {what} has {x.dim()} dimensions, {tuple(x.shape)}, but there are only {len(want)} to fit: {want}"
        )
    for back in range(1, x.dim() + 1):
        if x.shape[-back] not in (1, want[-back]):
            name = {1: "keys S", 2: "queries L", 3: "heads H"}.get(back, "batch")
            hint = "; one value a key and batch item is regard.masks.padding" if (what, x.dim()) == ("mask", 2) else ""
            raise ValueError(
                f"the {what} of shape {tuple(x.shape)} cannot broadcast to {want}: "
                f"its dimension {-back} ({name}) is {x.shape[-back]}, expected {want[-back]} or 1{hint}"
            )


def check_bias(bias: Tensor, q: Tensor, k: Tensor) -> None:
    if not bias.dtype.is_floating_point:
        raise TypeError(f"bias is added to the scores and must be floating point, got {bias.dtype}; booleans go to mask=")
    check_added("bias", bias, q, k)


def check_dropout(dropout: float) -> None:
    if not 0 <= dropout < 1:
        raise ValueError(f"dropout is the share of weights to drop, 0 ≤ dropout < 1, got {dropout}")


def to_four(x: Tensor) -> Tensor:
    """(..., H, L, d) as (B, H, L, d)."""
    return x.reshape(-1, *x.shape[-3:]) if x.dim() > 3 else x[(None,) * (4 - x.dim())]


def table_to_four(table: Tensor, lead: torch.Size) -> Tensor:
    """What broadcasts to (*lead, H, L, S), as something that broadcasts to (B, H, L, S), B the product of lead."""
    if len(lead) <= 1 or table.dim() <= 3:
        return table[(None,) * (4 - table.dim())]
    return table.expand(*lead, *table.shape[-3:]).reshape(-1, *table.shape[-3:])


def _each(named: dict[str, Tensor], what: object) -> str:
    return ", ".join(f"{name} {what(x)}" for name, x in named.items())  # type: ignore[operator]  # any function of a tensor
