"""Process that plays submissions in kaggle-environments: `python validation_worker.py`, one match as JSON per line.

kaggle-environments is slow to import and prints a lot, so it runs in its own process; the results are written to the
original stdout, one line of JSON per match. Kaggle's machines stop an agent that hangs, but the package does not. Here
a signal stops it, and if the agent does not react to the signal, the process ends.
"""

import json
import os
import signal
import sys
import threading
import warnings
from collections.abc import Callable
from typing import Any

GRACE = 3.0  # seconds between the signal and the end of the process
FALLBACK_NOTICE = "regard: played by the fallback"  # as in kaggle/submission_runtime.py


def load_agent(file: str, env: Any, bank: float, hung: Callable[[], None]) -> Callable[[Any, Any], Any]:
    """Return the agent of a file; a signal stops it when the time for a move and the extra time `bank` are used up."""
    from kaggle_environments.agent import build_agent
    from kaggle_environments.errors import DeadlineExceeded

    agent = build_agent(file, env.agents, "connectx")[0]

    def stop(number: int, frame: Any) -> None:
        raise DeadlineExceeded

    def act(observation: Any, configuration: Any) -> Any:
        limit = configuration.actTimeout + max(0.0, min(bank, observation.remainingOverageTime)) + 0.5
        timer = threading.Timer(limit + GRACE, hung)
        timer.daemon = True
        timer.start()
        signal.signal(signal.SIGALRM, stop)
        signal.setitimer(signal.ITIMER_REAL, limit)
        try:
            return agent(observation, configuration)
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)
            timer.cancel()

    return act


def play_match(make: Any, match: dict[str, Any], hung: Callable[[], None]) -> dict[str, Any]:
    """Play one match; return its columns, and status, reward, times and moves by the fallback of both sides."""
    size = dict(zip(("rows", "columns", "inarow"), match["size"], strict=True))
    env = make("connectx", configuration=size | {"actTimeout": match["act"]})
    problem = ""
    try:
        env.run([load_agent(a, env, match["bank"], hung) if os.path.exists(a) else a for a in match["agents"]])
    except Exception as error:
        problem = f"{type(error).__name__}: {error}"
    sides = []
    for side, state in enumerate(env.steps[-1]):
        logs = [step[side] for step in env.logs if len(step) > side and step[side]]
        times = [log["duration"] for log in logs if log.get("duration")]
        errors = "".join(log.get("stderr", "") for log in logs)
        sides.append(
            {
                "status": "ERROR" if problem and state.status == "ACTIVE" else state.status,
                "reward": state.reward,
                "times": times,
                "bank": state.observation.get("remainingOverageTime", 60),
                "stderr": errors[-400:],
                "fallback": sum(line.startswith(FALLBACK_NOTICE) for line in errors.splitlines()),
            }
        )
    columns = [step[ply % 2].action for ply, step in enumerate(env.steps[1:])]
    return {"sides": sides, "columns": columns, "moves": len(env.steps) - 1, "problem": problem}


def main() -> None:
    """Play matches until stdin ends."""
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8", buffering=1)  # flushed after every line
    quiet = os.open(os.devnull, os.O_WRONLY)
    os.dup2(quiet, 1)
    os.dup2(quiet, 2)
    warnings.simplefilter("ignore")
    try:
        from kaggle_environments import make
    except ImportError as error:
        answers.write(json.dumps({"missing": str(error)}) + "\n")
        return

    def hung() -> None:
        answers.write(json.dumps({"hung": True}) + "\n")
        os._exit(1)

    for line in sys.stdin:
        answers.write(json.dumps(play_match(make, json.loads(line), hung)) + "\n")


if __name__ == "__main__":
    main()
