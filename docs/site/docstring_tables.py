"""Griffe extension: show the aligned tables of our docstrings as tables, and their examples as code.

    keep        what to hold of each call: "inputs" (default) or
                "statistics"

is a table of a name and its description. If the names are parameters it becomes the section "Args" of the docstring,
otherwise a Markdown table. Lines that begin with >>> become code blocks.
"""

import re
from typing import Any

import griffe

NAME = r"(?:[\w.*]+(?:\(…\))?|\"[^\"]*\")"
ROW = re.compile(rf"^({NAME}(?:, {NAME})*) {{2,}}(\S.*)$")


def reformat(text: str, parameters: set[str]) -> str:
    """Return the docstring with its tables and examples in a form that griffe and Markdown know.

    >>> print(reformat("Add.\\n\\na    first number,\\n     a float\\n\\n>>> add(1, 2)\\n3", {"a", "b"}))
    Add.
    <BLANKLINE>
    Args:
        a: first number, a float
    <BLANKLINE>
    ```pycon
    >>> add(1, 2)
    3
    ```
    """
    blocks = [_reformat_block(block, parameters) for block in re.split(r"\n{2,}", text)]
    return "\n\n".join(blocks)


def _reformat_block(block: str, parameters: set[str]) -> str:
    lines = block.split("\n")
    if lines[0].startswith(">>>"):
        return f"```pycon\n{block}\n```"
    rows: list[tuple[str, str]] = []
    for line in lines:
        if match := ROW.match(line):
            rows.append((match[1], match[2]))
        elif rows and line.startswith("  "):
            rows[-1] = (rows[-1][0], f"{rows[-1][1]} {line.strip()}")
        else:
            return block
    names = {name for row in rows for name in row[0].split(", ")}
    if names <= parameters:
        return "\n".join(["Args:", *(f"    {name}: {text}" for key, text in rows for name in key.split(", "))])
    table = [f"| `{name}` | {text} |" for name, text in rows]
    return "\n".join(["| name | |", "|---|---|", *table])


class DocstringTables(griffe.Extension):
    """Reformats the docstring of every object before mkdocstrings renders it."""

    def on_instance(self, *, node: Any, obj: griffe.Object, **_: Any) -> None:
        """Reformat the docstring of `obj`."""
        if obj.docstring:
            function = obj.members.get("__init__") if isinstance(obj, griffe.Class) else obj
            parameters = {p.name for p in function.parameters} if isinstance(function, griffe.Function) else set()
            obj.docstring.value = reformat(obj.docstring.value, parameters)
