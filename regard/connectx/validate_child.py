"""The process in which kaggle-environments plays a submission: `python validate_child.py`, a match as JSON on stdin.

Its import is slow and talks a lot, so it has a process of its own; what counts is written to the file descriptor that
was the standard output, one line of JSON a match.
"""

import json
import os
import sys
import warnings


def played(make, match):  # type: ignore[no-untyped-def]
    """Play one match and say what Kaggle would."""
    size = match["size"]
    env = make("connectx", configuration=dict(zip(("rows", "columns", "inarow"), size, strict=True)))
    problem = ""
    try:
        env.run(match["agents"])
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
    for line in sys.stdin:
        answers.write(json.dumps(played(make, json.loads(line))) + "\n")
        answers.flush()


if __name__ == "__main__":
    main()
