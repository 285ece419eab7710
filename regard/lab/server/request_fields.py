"""Fields of a request: typed access with bounds, and an error that names the field.

A field that is missing has its default. A field that is wrong raises `FieldError`, which holds the field, a code for
which the page has a text in both languages (`error.CODE` in text/NAME.en.json), the values that the text needs, and the
same message in English for readers of the JSON.
"""

from collections.abc import Mapping
from typing import Any

Fields = Mapping[str, Any]


class FieldError(ValueError):
    """One field of a request has a value that cannot be used."""

    def __init__(self, field: str, code: str, message: str, **facts: Any) -> None:
        super().__init__(message)
        self.field, self.code, self.message, self.facts = field, code, message, facts


def integer(fields: Fields, field: str, default: int, least: int, most: int) -> int:
    """Return a whole number within bounds.

    >>> integer({"heads": 4}, "heads", 1, 1, 16)
    4
    """
    value = fields.get(field, default)
    if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= most:
        message = f"{field} must be a whole number from {least} to {most}, got {value!r}"
        raise FieldError(field, "whole", message, least=least, most=most)
    return value


def number(fields: Fields, field: str, default: float, least: float, most: float) -> float:
    """Return a number within bounds."""
    value = fields.get(field, default)
    if isinstance(value, bool) or not isinstance(value, int | float) or not least <= value <= most:
        message = f"{field} must be a number from {least:g} to {most:g}, got {value!r}"
        raise FieldError(field, "real", message, least=least, most=most)
    return float(value)


def boolean(fields: Fields, field: str, default: bool) -> bool:
    """Return the value of a field that must be true or false."""
    value = fields.get(field, default)
    if not isinstance(value, bool):
        raise FieldError(field, "truth", f"{field} must be true or false, got {value!r}")
    return value


def text(fields: Fields, field: str, default: str, longest: int = 2000) -> str:
    """Return a string of at most `longest` characters."""
    value = fields.get(field, default)
    if not isinstance(value, str) or len(value) > longest:
        got = f"{len(value)} characters" if isinstance(value, str) else repr(value)[:80]
        message = f"{field} must be text of at most {longest} characters, got {got}"
        raise FieldError(field, "text", message, most=longest)
    return value


def choice(fields: Fields, field: str, default: str, choices: tuple[str, ...]) -> str:
    """Return one of the given strings."""
    value = fields.get(field, default)
    if value not in choices:
        message = f"{field} must be one of {', '.join(choices)}, got {str(value)[:80]!r}"
        raise FieldError(field, "choice", message, choices=", ".join(choices))
    return str(value)
