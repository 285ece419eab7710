"""The process in which an agent's file is played. It knows nothing of regard: run as `python -I agent_child.py FILE`.

A question is a line of JSON on the standard input, an answer a line on the standard output; whatever the agent itself
prints goes nowhere. As on Kaggle, the file is executed at the first question, and the callable that was defined last
is the agent.
"""

import json
import os
import sys


class Struct(dict):  # type: ignore[type-arg]
    """Kaggle's observations can be read as a dictionary and by attributes."""

    def __getattr__(self, name: str) -> object:
        try:
            return self[name]
        except KeyError:
            raise AttributeError(name) from None

    def __setattr__(self, name: str, value: object) -> None:
        self[name] = value


def load(path: str) -> object:
    """The agent in the file."""
    with open(path, encoding="utf-8") as file:
        code = compile(file.read(), path, "exec")
    sys.path.append(os.path.dirname(path))
    names: dict[str, object] = {}
    exec(code, names)
    found = [value for value in names.values() if callable(value)]
    if not found:
        raise ValueError("the file defines nothing that can be called")
    return found[-1]


def main() -> None:
    """Answer until the questions end."""
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
    agent = None
    for line in sys.stdin:
        question = json.loads(line)
        try:
            if agent is None:
                agent = load(sys.argv[1])
            arguments = [Struct(question["observation"]), Struct(question["configuration"])]
            code = getattr(agent, "__code__", None)
            action = agent(*arguments[: code.co_argcount if code else 2])  # type: ignore[operator]
            answer = {"type": type(action).__name__, "text": str(action)[:200]}
        except BaseException as error:
            answer = {"error": f"{type(error).__name__}: {error}"[:500]}
        answers.write(json.dumps(answer) + "\n")
        answers.flush()


if __name__ == "__main__":
    main()
