"""Recognition of the mistake in a learner's program.

Every exercise has a `model.py`: its computation in NumPy, written with the parts of this package (`attention`, `heads`,
`normalise`, …). Each part can be computed correctly or with one of its mistakes. `recognise` evaluates the model with
every mistake and many pairs of mistakes, and compares the results with those of the learner's program. If none agrees,
`facts` describes what is certain about the results, and `exceptions` what caused an error. `source_rules` finds what a
statement forbids. The texts are in texts.toml, or in the mistakes.toml of an exercise where it has more to say.
"""
