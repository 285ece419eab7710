"""The isolated process that runs a learner's code.

`run_in_child_process` serializes a request (`serialization`), starts `child_program` with it, watches time and output,
and reads the outcomes back. `child_program` enters namespaces (`mount_namespace`) and forks: one process supervises,
the other imports the libraries, restricts itself (`file_view`, `privileges`, `process_limits`, `landlock`, `seccomp`,
`audit_hook`, with `system_calls`), then calls the code on every case (`call_on_cases`). `control_group` holds all its
processes. `visible_text` escapes what the code prints. `layers` reports which layers are active on this machine.

The modules that the child uses must not import the rest of regard: it is not visible there.
"""
