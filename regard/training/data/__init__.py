"""Training data: generated pairs, text files, examples and batches."""
