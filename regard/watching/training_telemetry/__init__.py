"""Telemetry: entropy, largest score, sink share and dead heads of a model while it is trained, with alarms.

`telemetry` has `regard.telemetry`, which counts the steps of the optimizer and watches every n-th of them.
`measurements` turns a recorded call into numbers for each head, `alarms` compares them with earlier ones, `log_files`
writes them, and `trainer_callback` connects all of this with `transformers.Trainer`.
"""
