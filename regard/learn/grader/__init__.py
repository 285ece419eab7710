"""Grading of an exercise.

`grade` runs the learner's code on cases in the sandbox and the reference in this process, and compares the outcomes
(`compare`). A wrong answer is matched with the exercise's known mistakes, or described (`diagnose_difference`). The
result is a `Verdict`.
"""
