"""Two machines of a Ray cluster, simulated on this one: lost workers, a lost machine, a lost head."""

import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from regard.connectx import LabelOptions, label, read_labels
from regard.parallel import RayEngine

ray = pytest.importorskip("ray", reason='the tests of Ray are SKIPPED: pip install "regard[ray]"')
psutil = pytest.importorskip("psutil")
pytestmark = pytest.mark.ray

OPTIONS = LabelOptions((4, 5, 3), fewest=4, seed=5)


@pytest.fixture
def start_cluster(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., Any]]:
    """Return a function that starts the head of a cluster, with one core, on the loopback interface."""
    from ray._private import ray_constants
    from ray.cluster_utils import Cluster

    environment = {
        "OMP_NUM_THREADS": "1", "PYTHONPATH": str(Path(__file__).parents[2]), "RAY_raylet_start_wait_time_s": "120",
        "RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER": "0", "RAY_gcs_rpc_server_reconnect_timeout_s": "20",
    }  # fmt: skip
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(ray_constants, "ENABLE_RAY_CLUSTER", False)  # otherwise 127.0.0.1 is replaced
    clusters = []

    def start(**options: Any) -> Any:
        options |= {"num_cpus": 1, "include_dashboard": False, "object_store_memory": 80 << 20}
        clusters.append(Cluster(initialize_head=True, head_node_args=options))
        return clusters[-1]

    yield start
    for cluster in clusters:
        cluster.shutdown()


def actor_of(node: Any) -> Any:
    """Return the process of the actor on a machine."""
    raylet = psutil.Process(node.all_processes["raylet"][0].process.pid)
    while True:
        for child in raylet.children():
            if "TaskActor" in child.name():
                return child
        time.sleep(0.1)


def assert_same_labels(one: Path, other: Path) -> None:
    labels = [read_labels(folder) for folder in (one, other)]
    for name in ("position", "mask", "scores"):
        assert (getattr(labels[0], name) == getattr(labels[1], name)).all()


def test_a_killed_actor_and_a_removed_machine(
    start_cluster: Callable[..., Any], tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    cluster = start_cluster()
    node = cluster.add_node(num_cpus=1, object_store_memory=80 << 20)
    results = 0

    def report(new: int) -> None:
        nonlocal results
        results += 1
        if results == 3:
            actor_of(node)  # it computes the tasks below
            actor_of(cluster.head_node).kill()
        elif results == 6:
            cluster.remove_node(node, allow_graceful=False)

    label(tmp_path / "one", OPTIONS, positions=10_000, table_bits=16)
    with RayEngine(cluster.address) as engine:
        assert engine.workers == 2
        label(tmp_path / "ray", OPTIONS, positions=10_000, engine=engine, table_bits=16, report=report)
    assert caplog.text.count("a task failed and is computed again") == 2
    assert_same_labels(tmp_path / "one", tmp_path / "ray")


def test_a_restarted_head(start_cluster: Callable[..., Any], tmp_path: Path) -> None:
    cluster = start_cluster()
    address = cluster.address
    command = f"connectx label {tmp_path}/ray --size 4x5x3 --fewest 4 --seed 5 --positions 20000 --table-bits 16"
    arguments = [sys.executable, "-m", "regard", *command.split(), "--engine", "ray", "--address", address]
    driver = subprocess.Popen(arguments, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    while not sum(log.stat().st_size for log in tmp_path.glob("ray/.tasks-*.log")) > 100_000:
        assert driver.poll() is None
        time.sleep(0.05)
    cluster.remove_node(cluster.head_node, allow_graceful=False)
    message = driver.communicate()[1]
    assert driver.returncode == 2, message
    assert "the same command continues" in message.splitlines()[-1]
    assert "Traceback" not in message
    start_cluster(gcs_server_port=int(address.split(":")[1]))
    subprocess.run(arguments, check=True)
    label(tmp_path / "one", OPTIONS, positions=20_000, table_bits=16)
    assert_same_labels(tmp_path / "one", tmp_path / "ray")


def test_no_cluster_at_an_address(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("RAY_ADDRESS", raising=False)
    with pytest.raises(ConnectionError, match=r"no Ray cluster answers at 127\.0\.0\.1:1: .*refused"):
        RayEngine("127.0.0.1:1")
    assert "RAY_ADDRESS" not in os.environ
