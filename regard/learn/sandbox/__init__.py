"""The process that runs a learner's code, and the data exchanged with it."""
