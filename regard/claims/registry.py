"""List of the claims, in the order in which they are shown."""

from importlib import import_module

from regard.claims.claim import Claim

NAMES = (
    "linear-last-dim",
    "linear-as-loop",
    "scale",
    "temperature",
    "softmax",
    "stable-softmax",
    "learned-mean",
    "not-only-nlp",
    "heads-not-speed",
    "multi-head-subspaces",
    "quadratic",
    "memory-at-length",
    "rnn-vs-transformer",
    "positions",
    "residual-norm",
    "mask",
    "dropout-in-weights",
    "connectx-attention",
    "errata",
)
COMPUTED = {  # experiments without training, in a folder of their own
    "linear-last-dim",
    "linear-as-loop",
    "temperature",
    "stable-softmax",
    "quadratic",
    "memory-at-length",
    "dropout-in-weights",
    "errata",
}


def claim_named(name: str) -> Claim:
    """Return the claim with this name.

    >>> claim_named("scale").title["en"]
    'Why √d_k'
    """
    if name not in NAMES:
        raise ValueError(f"there is no claim {name!r}; the claims are {', '.join(NAMES)}")
    folder = "experiments.computed" if name in COMPUTED else "experiments"
    claim: Claim = import_module(f"regard.claims.{folder}.{name.replace('-', '_')}").CLAIM
    return claim


def claims() -> list[Claim]:
    """Return all claims.

    >>> len(claims())
    19
    """
    return [claim_named(name) for name in NAMES]
