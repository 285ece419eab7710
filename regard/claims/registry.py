"""List of the claims, in the order in which they are shown."""

from importlib import import_module

from regard.claims.claim import Claim

NAMES = (
    "linear-last-dim",
    "scale",
    "softmax",
    "stable-softmax",
    "learned-mean",
    "not-only-nlp",
    "heads-not-speed",
    "quadratic",
    "rnn-vs-transformer",
    "positions",
    "residual-norm",
    "mask",
    "connectx-attention",
    "errata",
)


def claim_named(name: str) -> Claim:
    """Return the claim with this name.

    >>> claim_named("scale").title["en"]
    'Why √d_k'
    """
    if name not in NAMES:
        raise ValueError(f"there is no claim {name!r}; the claims are {', '.join(NAMES)}")
    claim: Claim = import_module(f"regard.claims.experiments.{name.replace('-', '_')}").CLAIM
    return claim


def claims() -> list[Claim]:
    """Return all claims.

    >>> len(claims())
    14
    """
    return [claim_named(name) for name in NAMES]
