"""Parallel work: tasks in, results out in any order, on the cores of this machine or on a Ray cluster.

`work` describes what every worker does: a function that prepares a worker once and returns the function of a task.
Tasks are plain data, are seeded and may be computed again, so that a task whose worker is lost goes to another worker
and gives the same result.

`engine` says where the workers run, and `engine_names` chooses an engine by its name. `pool` has what all pools share:
the queue, bounded retries, progress and stopping. `local_pools` computes in this process, in threads, or in several
processes; `ray_engine` in actors of a Ray cluster. `shared_values` sends what many tasks need once to every machine,
under the hash of its content. The program that started the work is the only one that writes: `result_log` appends
results to a file that survives kill -9.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
