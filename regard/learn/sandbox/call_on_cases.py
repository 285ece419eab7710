"""Execute a source and call its function on each case.

The child process calls the learner's code with this module, and the parent calls the reference and the known mistakes
with it, so that both are treated alike. The child loads this file by its path, so it must not import regard; the module
`serialization` is passed in.

Each outcome is a dict: {"value": packed, "mutated": whether the call changed its arguments} or {"error": {type, bases,
message, line, text}}. Values are packed at once, before a later call can change them.
"""

import linecache
import sys
import traceback
from types import ModuleType, SimpleNamespace
from typing import Any

FILE = "your code"


def call_all(
    source: str, names: list[str], drive: str | None, cases: list[bytes], serialization: ModuleType
) -> dict[str, Any]:
    """Return {"outcomes": the outcome of every case, "again": the outcome of the first case called again}.

    If the two outcomes of the first case differ, the code is random or keeps state between calls. If the source cannot
    be executed, return {"failed": error}; if it does not define a required name, {"missing": name}.
    """
    linecache.cache[FILE] = (len(source), None, source.splitlines(keepends=True), FILE)
    module = ModuleType("answer")
    module.__file__ = FILE
    sys.modules["answer"] = module  # dataclasses and type hints look up the module of a class
    code = module.__dict__
    try:
        exec(compile(source, FILE, "exec"), code)
    except BaseException as error:
        return {"failed": describe_error(error)}
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
            return {"error": describe_error(error)}

    outcomes: list[dict[str, Any]] = []
    for packed in [*cases, cases[0]]:
        # After one MemoryError every further case would run out of memory too, slowly.
        out_of_memory = bool(outcomes) and outcomes[-1].get("error", {}).get("type") == "MemoryError"
        outcomes.append(outcomes[-1] if out_of_memory else outcome(packed))
    return {"outcomes": outcomes[:-1], "again": outcomes[-1]}


def describe_error(error: BaseException) -> dict[str, Any]:
    """Return an exception as plain values: its type, its message, and the last line of the learner's code in it."""
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
