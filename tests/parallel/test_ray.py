"""Ray on this machine: the results of processes, lost workers, failing tasks."""

from collections.abc import Iterator
from ipaddress import ip_address
from pathlib import Path

import pytest

from regard.connectx import LabelOptions, label, read_labels
from regard.connectx.arena.round_robin import ArenaPlan, run_arena
from regard.connectx.solver.build_book import load_layers, solve_layer
from regard.parallel import RayEngine, TaskError, Work
from support import parallel_tasks

pytest.importorskip("ray", reason='the tests of Ray are SKIPPED: pip install "regard[ray]"')
pytestmark = pytest.mark.ray

SMALL = (4, 5, 3)
OPTIONS = LabelOptions(SMALL, fewest=4, seed=5)
PLAN = ArenaPlan(("random", "greedy", "minimax:2"), games=6, opening="random", plies=4)


@pytest.fixture(scope="module")
def engine() -> Iterator[RayEngine]:
    """Ray on the loopback interface with two cores; its workers import `support`."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", str(Path(__file__).parents[1]))
        patch.setenv("OMP_NUM_THREADS", "1")
        with RayEngine(None, 2) as engine:
            yield engine


def test_labels_arena_and_book_are_those_of_one_process(engine: RayEngine, tmp_path: Path) -> None:
    assert engine.workers == 2
    for name, chosen in (("one", None), ("ray", engine)):
        label(tmp_path / name, OPTIONS, positions=100, engine=chosen, table_bits=16)
        solve_layer(tmp_path / f"{name}-book", 5, rows=4, columns=5, table_bits=16, engine=chosen)
    one, ray = read_labels(tmp_path / "one"), read_labels(tmp_path / "ray")
    assert (one.mask == ray.mask).all()
    assert (one.scores == ray.scores).all()
    layers = [load_layers(tmp_path / f"{name}-book", 4, 5, 4).layers[5] for name in ("one", "ray")]
    assert (layers[0] == layers[1]).all()
    games = [[(g.first, g.second, g.moves) for g in run_arena(PLAN, engine=chosen).games] for chosen in (None, engine)]
    assert games[0] == games[1]


def test_killed_actors_and_failing_tasks(engine: RayEngine, tmp_path: Path) -> None:
    with engine.start(Work(parallel_tasks.killing, (str(tmp_path),))) as pool:
        assert sorted(pool.results(range(4))) == [(task, task * task) for task in range(4)]
        assert pool.progress.retried == 2
    with pytest.raises(TaskError, match=r"the task 1 failed 3 times.*(?s:.*)FileNotFoundError"):
        parallel_tasks.compute(engine, Work(parallel_tasks.failing, (str(tmp_path / "none"), 1)), [1])


def test_ray_listens_on_the_loopback_interface_only(engine: RayEngine) -> None:
    psutil = pytest.importorskip("psutil")
    this = psutil.Process()
    servers = [child for child in this.children(recursive=True) if child.name() in ("gcs_server", "raylet")]
    sockets = [socket for process in (this, *servers) for socket in process.net_connections()]
    listening = [socket.laddr.ip for socket in sockets if socket.status == "LISTEN"]
    assert len(servers) == 2
    assert all(ip_address(ip.removeprefix("::ffff:")).is_loopback for ip in listening), listening


def test_a_shared_value_reaches_actors(engine: RayEngine) -> None:
    with engine.start(Work(parallel_tasks.lengths, (engine.share([1, 2, 3]),))) as pool:
        assert [result for _, result in pool.results([engine.share("abcd")])] == [(3, 4)]
