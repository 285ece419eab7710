"""The separate process that runs a learner's code.

`run_in_child_process` serializes a request (`serialization`), starts `child_program` with it, watches time and memory,
and reads the outcomes back. `child_program` restricts itself, then calls the code on every case (`call_on_cases`).
"""
