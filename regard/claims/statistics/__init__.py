"""Statistics of claim results: rows by seed, confidence intervals, timing."""
