"""Process that runs an agent file: `python -I agent_worker.py FILE`. It does not import regard.

Each line of JSON on stdin is a request, each line on stdout an answer; what the agent prints is discarded. As on
Kaggle, the file is executed at the first request, and the callable that was defined last is the agent.
"""

import json
import os
import sys


class Struct(dict):  # type: ignore[type-arg]
    """Dictionary whose items can also be read as attributes, like Kaggle's observations."""

    def __getattr__(self, name: str) -> object:
        try:
            return self[name]
        except KeyError:
            raise AttributeError(name) from None

    def __setattr__(self, name: str, value: object) -> None:
        self[name] = value


def load(path: str) -> object:
    """Execute the file and return its agent."""
    with open(path, encoding="utf-8") as file:
        code = compile(file.read(), path, "exec")
    sys.path.append(os.path.dirname(path))
    names: dict[str, object] = {}
    exec(code, names)
    callables = [value for value in names.values() if callable(value)]
    if not callables:
        raise ValueError("the file must define a function, got none; Kaggle calls the one that is defined last")
    return callables[-1]


def main() -> None:
    """Answer requests until stdin ends."""
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8", buffering=1)  # flushed after every line
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
    agent = None
    for line in sys.stdin:
        request = json.loads(line)
        try:
            if agent is None:
                agent = load(sys.argv[1])
            arguments = [Struct(request["observation"]), Struct(request["configuration"])]
            code = getattr(agent, "__code__", None)
            action = agent(*arguments[: code.co_argcount if code else 2])  # type: ignore[operator]
            answer = {"type": type(action).__name__, "text": str(action)[:200]}
        except BaseException as error:
            answer = {"error": f"{type(error).__name__}: {error}"[:500]}
        answers.write(json.dumps(answer) + "\n")


if __name__ == "__main__":
    main()
