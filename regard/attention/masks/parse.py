"""Masks as text: `parse` reads what `repr` writes, for command lines, links and pages."""

from __future__ import annotations

import ast
from collections.abc import Callable

from regard.attention.masks.bands import causal, dilated, window
from regard.attention.masks.blocks import blocks
from regard.attention.masks.documents import documents
from regard.attention.masks.mask import Mask
from regard.attention.masks.padding import padding
from regard.attention.masks.prefix import prefix

WORDS: dict[str, Callable[..., Mask]] = {
    "causal": causal,
    "window": window,
    "dilated": dilated,
    "blocks": blocks,
    "prefix": prefix,
    "padding": padding,
    "documents": documents,
}


def parse(text: str) -> Mask:
    """The mask that the text says: rules with whole numbers or lists of them, joined by & | ~ and brackets.

    >>> parse("causal & window(keys=3)")
    causal() & window(keys=3)
    >>> parse("window(3) | ~prefix(2)")
    window(keys=3) | ~prefix(2)
    """
    try:
        tree = ast.parse(text.strip(), mode="eval").body
    except (SyntaxError, ValueError):
        raise ValueError(f"cannot read the mask {text!r}; {_HOW}") from None
    return _read(tree, text)


_HOW = f"write rules such as causal & window(keys=3); the rules are {', '.join(WORDS)}, joined by & | ~"


def _read(node: ast.expr, text: str) -> Mask:
    match node:
        case ast.BinOp(left, ast.BitAnd(), right):
            return _read(left, text) & _read(right, text)
        case ast.BinOp(left, ast.BitOr(), right):
            return _read(left, text) | _read(right, text)
        case ast.UnaryOp(ast.Invert(), inner):
            return ~_read(inner, text)
        case ast.Name(name) if name in WORDS:
            return _call(name, [], {})
        case ast.Call(ast.Name(name), arguments, keywords) if name in WORDS:
            try:
                values = [ast.literal_eval(argument) for argument in arguments]
                named = {str(keyword.arg): ast.literal_eval(keyword.value) for keyword in keywords}
            except ValueError:
                raise ValueError(f"cannot read the numbers in {ast.unparse(node)!r}; {_HOW}") from None
            return _call(name, values, named)
    raise ValueError(f"cannot read {ast.unparse(node)!r} in the mask {text!r}; {_HOW}")


def _call(name: str, values: list[object], named: dict[str, object]) -> Mask:
    try:
        return WORDS[name](*values, **named)
    except TypeError as error:
        raise ValueError(f"{name}: {str(error).removeprefix(f'{name}() ')}; {_HOW}") from None
