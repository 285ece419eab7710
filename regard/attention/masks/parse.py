"""Masks from text, for command lines, links and web pages. `parse` reads the text that `repr` of a mask returns."""

from __future__ import annotations

import ast
from collections.abc import Callable

from regard.attention.masks.block_sparse import blocks
from regard.attention.masks.causal_and_window import causal, dilated, window
from regard.attention.masks.documents import documents
from regard.attention.masks.mask import Mask
from regard.attention.masks.padding import padding
from regard.attention.masks.prefix import prefix

RULES: dict[str, Callable[..., Mask]] = {
    function.__name__: function for function in (causal, window, dilated, blocks, prefix, padding, documents)
}

_SYNTAX = f"write rules such as causal & window(keys=3); the rules are {', '.join(RULES)}, joined by & | ~"


def parse(text: str) -> Mask:
    """Return the mask that a text describes: rules with whole numbers or lists of them, joined by & | ~ and brackets.

    >>> parse("causal & window(keys=3)")
    causal() & window(keys=3)
    >>> parse("window(3) | ~prefix(2)")
    window(keys=3) | ~prefix(2)
    """
    try:
        tree = ast.parse(text.strip(), mode="eval").body
    except (SyntaxError, ValueError):
        raise ValueError(f"cannot read the mask {text!r}; {_SYNTAX}") from None
    return _evaluate(tree, text)


def _evaluate(node: ast.expr, text: str) -> Mask:
    match node:
        case ast.BinOp(left, ast.BitAnd(), right):
            return _evaluate(left, text) & _evaluate(right, text)
        case ast.BinOp(left, ast.BitOr(), right):
            return _evaluate(left, text) | _evaluate(right, text)
        case ast.UnaryOp(ast.Invert(), inner):
            return ~_evaluate(inner, text)
        case ast.Name(name) if name in RULES:
            return _call(name, [], {})
        case ast.Call(ast.Name(name), arguments, keywords) if name in RULES:
            try:
                values = [ast.literal_eval(argument) for argument in arguments]
                options = {str(keyword.arg): ast.literal_eval(keyword.value) for keyword in keywords}
            except ValueError:
                raise ValueError(f"cannot read the numbers in {ast.unparse(node)!r}; {_SYNTAX}") from None
            return _call(name, values, options)
    raise ValueError(f"cannot read {ast.unparse(node)!r} in the mask {text!r}; {_SYNTAX}")


def _call(name: str, values: list[object], options: dict[str, object]) -> Mask:
    try:
        return RULES[name](*values, **options)
    except TypeError as error:
        raise ValueError(f"{name}: {str(error).removeprefix(f'{name}() ')}; {_SYNTAX}") from None
