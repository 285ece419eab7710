"""Exact weights of a recorded call: scores in blocks, what is applied to them, and softmax where it is requested."""
