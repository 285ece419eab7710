"""The process in which kaggle-environments plays a submission: `python validation_child.py`, a match as JSON on stdin.

Its import is slow and talks a lot, so it has a process of its own; what counts is written to the file descriptor that
was the standard output, one line of JSON a match. Kaggle's machines stop an agent that hangs, its package does not:
here an alarm does, and where that is not heard either, the process ends.
"""

import json
import os
import signal
import sys
import threading
import warnings
from collections.abc import Callable
from typing import Any

HARD = 3.0  # seconds after the alarm


def guarded(file: str, env: Any, bank: float, hung: Callable[[], None]) -> Callable[[Any, Any], Any]:
    """The agent of a file, with an alarm for when its time and its bank are used up."""
    from kaggle_environments.agent import build_agent
    from kaggle_environments.errors import DeadlineExceeded

    agent = build_agent(file, env.agents, "connectx")[0]

    def ring(number: int, frame: Any) -> None:
        raise DeadlineExceeded

    def act(observation: Any, configuration: Any) -> Any:
        limit = configuration.actTimeout + max(0.0, min(bank, observation.remainingOverageTime)) + 0.5
        watch = threading.Timer(limit + HARD, hung)
        watch.daemon = True
        watch.start()
        signal.signal(signal.SIGALRM, ring)
        signal.setitimer(signal.ITIMER_REAL, limit)
        try:
            return agent(observation, configuration)
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)
            watch.cancel()

    return act


def played(make: Any, match: dict[str, Any], hung: Callable[[], None]) -> dict[str, Any]:
    """Play one match and say what Kaggle would."""
    size = dict(zip(("rows", "columns", "inarow"), match["size"], strict=True))
    env = make("connectx", configuration=size | {"actTimeout": match["act"]})
    problem = ""
    try:
        env.run([guarded(one, env, match["bank"], hung) if os.path.exists(one) else one for one in match["agents"]])
    except Exception as error:
        problem = f"{type(error).__name__}: {error}"
    sides = []
    for side, state in enumerate(env.steps[-1]):
        times = [logs[side].get("duration", 0.0) for logs in env.logs if len(logs) > side and logs[side]]
        errors = [logs[side].get("stderr", "") for logs in env.logs if len(logs) > side and logs[side]]
        sides.append(
            {
                "status": "ERROR" if problem and state.status == "ACTIVE" else state.status,
                "reward": state.reward,
                "times": [time for time in times if time],
                "bank": state.observation.get("remainingOverageTime", 60),
                "stderr": "".join(errors)[-400:],
            }
        )
    return {"sides": sides, "moves": len(env.steps) - 1, "problem": problem}


def main() -> None:
    """Play matches as they come."""
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    quiet = os.open(os.devnull, os.O_WRONLY)
    os.dup2(quiet, 1)
    os.dup2(quiet, 2)
    warnings.simplefilter("ignore")
    try:
        from kaggle_environments import make
    except ImportError as error:
        answers.write(json.dumps({"missing": str(error)}) + "\n")
        answers.flush()
        return

    def hung() -> None:
        answers.write(json.dumps({"hung": True}) + "\n")
        answers.flush()
        os._exit(1)

    for line in sys.stdin:
        answers.write(json.dumps(played(make, json.loads(line), hung)) + "\n")
        answers.flush()


if __name__ == "__main__":
    main()
