"""The separate process that runs a learner's code.

`runner` serializes a request (`serialization`), starts `child` with it, watches time and memory, and reads the outcomes
back. `child` restricts itself, then calls the code on every case (`call_code`).
"""
