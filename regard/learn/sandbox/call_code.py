"""Run a source and call what it defines on each case.

The same function serves a learner's code in the child and our own reference and mistakes in the parent, so that
they cannot be treated differently. The child loads this file by its path: it imports nothing of regard's, and
`serialization` only as it is given.

Each outcome is a dict: {"value": packed, "mutated": whether the call changed its own arguments} or {"error":
{type, bases, message, line, text}}. Values are packed at once, before a later call can change them.
"""

import ast
import linecache
import traceback
from types import ModuleType, SimpleNamespace
from typing import Any

FILE = "your code"


def call_all(
    source: str, names: list[str], drive: str | None, cases: list[bytes], serialization: ModuleType
) -> dict[str, Any]:
    """The outcome of every case, and of the first case once more at the end.

    A second outcome that differs shows code that draws lots or remembers earlier calls. When the source cannot
    be run at all the result is {"failed": error}, and {"missing": name} when it does not define what was asked.
    """
    linecache.cache[FILE] = (len(source), None, source.splitlines(keepends=True), FILE)
    code: dict[str, Any] = {"__name__": "answer", "__file__": FILE}
    try:
        exec(compile(source, FILE, "exec"), code)
    except BaseException as error:
        return {"failed": described(error)}
    for name in names:
        if not callable(code.get(name)):
            return {"missing": name}
    driver: dict[str, Any] = {}
    if drive is not None:
        exec(compile(drive, "drive", "exec"), driver)

    def outcome(packed: bytes) -> dict[str, Any]:
        arguments = serialization.unpack(packed, serialization.native)
        try:
            value = driver["drive"](SimpleNamespace(**code), *arguments) if driver else code[names[0]](*arguments)
            return {"value": serialization.pack(value), "mutated": serialization.pack(arguments) != packed}
        except BaseException as error:
            return {"error": described(error)}

    outcomes: list[dict[str, Any]] = []
    for packed in [*cases, cases[0]]:
        # Whoever ran out of memory once would do so for every case, and slowly.
        hopeless = bool(outcomes) and outcomes[-1].get("error", {}).get("type") == "MemoryError"
        outcomes.append(outcomes[-1] if hopeless else outcome(packed))
    return {"outcomes": outcomes[:-1], "again": outcomes[-1]}


def described(error: BaseException) -> dict[str, Any]:
    """An exception as plain values: its kind, what it says, and the last line of the learner's that led to it."""
    if isinstance(error, MemoryError):
        return {"type": "MemoryError", "bases": ["MemoryError"], "message": "", "line": None, "text": ""}
    line, text = None, ""
    if isinstance(error, SyntaxError) and error.filename == FILE:
        line, text = error.lineno, (error.text or "").strip()
    else:
        for frame in traceback.extract_tb(error.__traceback__):
            if frame.filename == FILE:
                line, text = frame.lineno, frame.line or ""
    return {
        "type": type(error).__name__,
        "bases": [base.__name__ for base in type(error).__mro__],
        "message": str(error)[:500],
        "line": line,
        "text": text[:200],
    }


def calls(source: str) -> set[str]:
    """The last names of everything that a source calls: {"einsum"} for torch.einsum(…) and einsum(…).

    >>> sorted(calls("y = torch.einsum('i,i', x, sum(x))"))
    ['einsum', 'sum']
    """
    called = [node.func for node in ast.walk(ast.parse(source)) if isinstance(node, ast.Call)]
    return {f.attr if isinstance(f, ast.Attribute) else f.id for f in called if isinstance(f, ast.Attribute | ast.Name)}
