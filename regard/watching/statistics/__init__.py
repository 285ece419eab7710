"""Statistics of recorded calls, computed without an S×S matrix."""
