"""Student's t distribution with ν degrees of freedom, by the finite series for whole ν (no SciPy needed).

With θ = arctan(t/√ν), c = cos θ and s = sin θ:

    P(|T| ≤ t) = s · (1 + 1/2 c² + (1·3)/(2·4) c⁴ + …)                ν even, powers up to ν − 2
    P(|T| ≤ t) = 2/π · (θ + s · (c + 2/3 c³ + (2·4)/(3·5) c⁵ + …))    ν odd, powers up to ν − 2
"""

import math
from functools import lru_cache


def two_sided_p(t: float, degrees: int) -> float:
    """Return P(|T| ≥ |t|).

    >>> round(two_sided_p(2.262, 9), 4)
    0.05
    """
    if degrees < 1:
        raise ValueError(f"degrees of freedom must be at least 1, got {degrees}")
    if math.isinf(t):
        return 0.0
    if degrees > 300:  # the normal distribution, corrected for ν by (t² / ν) → ln(1 + t² / ν)
        t = math.sqrt((degrees - 0.5) * math.log1p(t * t / degrees))
        return math.erfc(t / math.sqrt(2))
    angle = math.atan(abs(t) / math.sqrt(degrees))
    cosine, sine = math.cos(angle), math.sin(angle)
    term, power = (cosine, 3) if degrees % 2 else (1.0, 2)
    total = 0.0
    while power <= degrees:
        total += term
        term *= cosine * cosine * (power - 1) / power
        power += 2
    inside = sine * total if degrees % 2 == 0 else 2 / math.pi * (angle + sine * total)
    return max(0.0, 1 - inside)


@lru_cache(maxsize=1024)
def two_sided_quantile(level: float, degrees: int) -> float:
    """Return t with P(|T| ≥ t) = level.

    >>> round(two_sided_quantile(0.05, 9), 3)
    2.262
    """
    if not 0 < level < 1:
        raise ValueError(f"level must be between 0 and 1, got {level}")
    low, high = 0.0, 1.0
    while two_sided_p(high, degrees) > level:
        high *= 2
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if two_sided_p(middle, degrees) > level else (low, middle)
    return high
