"""The grader: runs an answer on cases, compares, and names the mistake."""
