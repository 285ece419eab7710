"""Statistics of result rows: selection and averages by seed, confidence intervals, timing."""
