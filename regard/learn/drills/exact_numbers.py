"""Exact arithmetic with fractions and logarithms of integers.

The exponential of a score ln 2 is 2, so scores of 0, ln 2 and ln 3 give weights of 1/6, 2/6 and 3/6. An `Exact` is

    r + c₂·ln 2 + c₃·ln 3 + c₅·ln 5 + …                 r and c fractions

Logarithms of primes are linearly independent over the rationals, so two such numbers are equal only if all their
coefficients are. Results outside this set (e¹, the product of two logarithms) are floats.
"""

import math
from dataclasses import dataclass
from fractions import Fraction


@dataclass(frozen=True)
class Exact:
    """A fraction plus rational multiples of logarithms of primes.

    >>> format_number(exact(2) * ln(6) + exact(Fraction(1, 2)))
    '1/2 + 2 ln 2 + 2 ln 3'
    >>> format_number(ln(6))
    'ln 6'
    """

    rational: Fraction
    logs: tuple[tuple[int, Fraction], ...] = ()  # prime, coefficient; sorted by prime, no coefficient is 0

    def __add__(self, other: "Exact | float") -> "Exact | float":
        if not isinstance(other, Exact):
            return float(self) + other
        logs = dict(self.logs)
        for prime, coefficient in other.logs:
            logs[prime] = logs.get(prime, Fraction(0)) + coefficient
        return Exact(self.rational + other.rational, _sorted(logs))

    def __mul__(self, other: "Exact | float") -> "Exact | float":
        if not isinstance(other, Exact) or (self.logs and other.logs):
            return float(self) * float(other)
        logarithmic, factor = (self, other.rational) if self.logs else (other, self.rational)
        logs = {prime: coefficient * factor for prime, coefficient in logarithmic.logs}
        return Exact(logarithmic.rational * factor, _sorted(logs))

    def __truediv__(self, other: "Exact | float") -> "Exact | float":
        if not isinstance(other, Exact) or other.logs:
            return float(self) / float(other)
        return self * Exact(1 / other.rational)

    def __neg__(self) -> "Exact":
        return Exact(-self.rational, tuple((prime, -coefficient) for prime, coefficient in self.logs))

    def __sub__(self, other: "Exact | float") -> "Exact | float":
        return self + -other

    def __radd__(self, other: float) -> float:
        return other + float(self)

    def __rmul__(self, other: float) -> float:
        return other * float(self)

    def __rsub__(self, other: float) -> float:
        return other - float(self)

    def __rtruediv__(self, other: float) -> float:
        return other / float(self)

    def __float__(self) -> float:
        return float(self.rational) + sum(float(coefficient) * math.log(prime) for prime, coefficient in self.logs)


def exact(number: int | Fraction) -> Exact:
    """Return an integer or a fraction as an `Exact`.

    >>> format_number(exact(3))
    '3'
    """
    return Exact(Fraction(number))


def ln(number: int | Fraction) -> Exact:
    """Return the natural logarithm of a positive fraction.

    >>> format_number(ln(Fraction(4, 3)))
    '2 ln 2 - ln 3'
    """
    fraction = Fraction(number)
    if fraction <= 0:
        raise ValueError(f"ln is defined for numbers above 0, got {fraction}")
    logs: dict[int, Fraction] = {}
    for part, sign in ((fraction.numerator, 1), (fraction.denominator, -1)):
        for prime in _prime_factors(part):
            logs[prime] = logs.get(prime, Fraction(0)) + sign
    return Exact(Fraction(0), _sorted(logs))


def times(factor: int, number: Exact) -> Exact:
    """Return a number multiplied by an integer, which stays exact.

    >>> format_number(times(2, ln(3)))
    '2 ln 3'
    """
    return Exact(number.rational * factor, _sorted({prime: c * factor for prime, c in number.logs}))


def exp(x: "Exact | float") -> "Exact | float":
    """Return e^x; the result is exact for integer multiples of logarithms and for −∞.

    >>> format_number(exp(ln(12))), format_number(exp(-math.inf))
    ('12', '0')
    """
    if x == -math.inf:
        return exact(0)
    if not isinstance(x, Exact) or x.rational or any(c.denominator > 1 or abs(c) > 64 for _, c in x.logs):
        return math.exp(float(x))
    return exact(math.prod((Fraction(prime) ** int(c) for prime, c in x.logs), start=Fraction(1)))


def format_number(x: "Exact | float") -> str:
    """Return the number as text: 2/3, ln 2, 2 ln 3, ln 6, −∞, 0.333."""
    if not isinstance(x, Exact):
        return "−∞" if x == -math.inf else f"{x:.4g}"
    if not x.rational and len(x.logs) > 1 and all(c > 0 for _, c in x.logs) and isinstance(power := exp(x), Exact):
        return f"ln {power.rational}"
    parts = [str(x.rational)] if x.rational or not x.logs else []
    for prime, c in x.logs:
        size = "" if abs(c) == 1 else f"{abs(c)} " if c.denominator == 1 else f"({abs(c)}) "
        parts.append(f"{'-' if c < 0 else ''}{size}ln {prime}")
    return " + ".join(parts).replace("+ -", "- ")


def _sorted(logs: dict[int, Fraction]) -> tuple[tuple[int, Fraction], ...]:
    return tuple(sorted((prime, c) for prime, c in logs.items() if c))


def _prime_factors(number: int) -> list[int]:
    if number > 10**6:
        raise ValueError(f"logarithms are exact for integers up to 1000000, got {number}")
    factors, prime = [], 2
    while prime * prime <= number:
        while number % prime == 0:
            factors.append(prime)
            number //= prime
        prime += 1
    return [*factors, number] if number > 1 else factors
