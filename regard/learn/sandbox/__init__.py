"""The separate process that runs a learner's code.

`start_child` serializes a request (`serialization`), starts `child_process` with it, watches time and memory, and reads
the outcomes back. `child_process` restricts itself, then calls the code on every case (`call_learner_code`).
"""
