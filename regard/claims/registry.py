"""The claims there are, in the order in which they are told."""

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
    """The claim of this name.

    >>> claim_named("scale").title["en"]
    'Why √d_k'
    """
    if name not in NAMES:
        raise ValueError(f"there is no claim {name!r}; the claims are {', '.join(NAMES)}")
    found: Claim = import_module(f"regard.claims.experiments.{name.replace('-', '_')}").CLAIM
    return found


def claims() -> list[Claim]:
    """All of them."""
    return [claim_named(name) for name in NAMES]
