"""Grade the programs of tests/learn/programs in the child process, and print how many were named and how long it took.

    python bench/grader.py                    every program once, with a new seed each
    python bench/grader.py --seeds 3          with three seeds
    python bench/grader.py --in-process       without the child process, for a quick check
    python bench/grader.py --only softmax     one exercise

The times are CPU seconds of this process and its children, and wall-clock seconds.
"""

import argparse
import json
import resource
import time
import tomllib
from collections import Counter
from pathlib import Path

import numpy as np

from regard.learn import Verdict, find_exercise, grade
from regard.learn.grader.grade import grade_run, pack_cases, serialization
from regard.learn.sandbox.call_on_cases import call_all
from regard.learn.sandbox.run_in_child_process import Run

FOLDER = Path(__file__).parents[1] / "tests" / "learn" / "programs"


def cpu_seconds() -> float:
    """Return the CPU seconds of this process and of its children so far."""
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(each.ru_utime + each.ru_stime for each in used)


def grade_in_process(name: str, source: str, seed: int) -> Verdict:
    """Grade a program that is known to be harmless, in this process."""
    exercise = find_exercise(name)
    cases = exercise.cases(seed)
    with np.errstate(all="ignore"):
        answer = call_all(source, exercise.names, exercise.drive, pack_cases(exercise, cases), serialization)
    return grade_run(exercise, source, seed, cases, Run(answer, None, "", 0.0))


def judge(program: dict, verdict: Verdict) -> str:
    """Return whether the verdict on a program is right: named, fact, incorrect or passed; refused for a correct one."""
    if "names" not in program:
        return "passed" if verdict.passed else "refused"
    if verdict.passed:
        return "passed"
    found = set((verdict.mistake or verdict.kind).split("+"))
    if any(found == set(name.split("+")) for name in program["names"]):
        return "named"
    return "incorrect" if verdict.mistake else "fact"


def main() -> None:
    """Grade all programs and print a table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=1, help="number of seeds for each program")
    parser.add_argument("--first-seed", type=int, default=100, help="the first seed")
    parser.add_argument("--in-process", action="store_true", help="run the programs in this process")
    parser.add_argument("--only", help="the exercise whose programs are graded")
    parser.add_argument("--json", type=Path, help="file for the results")
    options = parser.parse_args()
    grader = grade_in_process if options.in_process else grade
    rows = []
    for kind in ("wrong", "unusual"):
        counts: Counter[str] = Counter()
        seconds: dict[str, list[tuple[float, float]]] = {"numpy": [], "torch": []}
        files = sorted(FOLDER.glob(f"{kind}*.toml"))
        programs = [p for file in files for p in tomllib.loads(file.read_text(encoding="utf-8"))["program"]]
        for program in programs:
            if options.only not in (None, program["exercise"]):
                continue
            for seed in range(options.first_seed, options.first_seed + options.seeds):
                start, cpu = time.perf_counter(), cpu_seconds()
                verdict = grader(program["exercise"], program["source"], seed)
                uses = find_exercise(program["exercise"]).uses
                seconds[uses].append((cpu_seconds() - cpu, time.perf_counter() - start))
                result = judge(program, verdict)
                counts[result] += 1
                if result in ("incorrect", "fact", "refused") or (result == "passed" and kind == "wrong"):
                    name = verdict.mistake or verdict.kind
                    where = f"{program['exercise']}, seed {seed}: {program['label']}"
                    print(f"  {result}: {where} -> {name}: {verdict.title['en']}")
        print(f"{kind}: {dict(counts)}")
        for uses, times in seconds.items():
            if times:
                cpu, wall = (sorted(column)[len(times) // 2] for column in zip(*times, strict=True))
                print(f"  {uses}: median {cpu:.2f} CPU s, {wall:.2f} s; largest {max(times)[0]:.2f} CPU s")
        rows.append({"kind": kind, "counts": dict(counts), "seconds": seconds})
    if options.json:
        options.json.write_text(json.dumps(rows, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
