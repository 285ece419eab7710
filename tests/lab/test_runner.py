"""A learner's programs through the server: only its own page may run them, and none of them does harm."""

import json
import os
import resource
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from http.client import HTTPConnection
from pathlib import Path
from typing import Any

import pytest

from regard.lab import Lab, Settings
from regard.lab.server.job_queue import FINISHED_JOBS
from regard.learn import Progress, find_exercise

SOFTMAX = find_exercise("softmax")
RIGHT = SOFTMAX.correct["logarithm"]


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    with Lab(Settings(warm=False, data=tmp_path_factory.mktemp("runner")), port=0) as served:
        yield served


def ask(lab: Lab, method: str, path: str, body: bytes | None = None, **changed: str | None) -> tuple[int, Any]:
    headers: dict[str, str | None] = {
        "host": f"127.0.0.1:{lab.port}", "x-regard-token": lab.settings.token, "content-type": "application/json",
    }  # fmt: skip
    headers |= {name.replace("_", "-"): value for name, value in changed.items()}
    connection = HTTPConnection("127.0.0.1", lab.port, timeout=60)
    try:
        connection.putrequest(method, path, skip_host=True)
        for name, value in headers.items():
            if value is not None:
                connection.putheader(name, value)
        if body is not None:
            connection.putheader("content-length", str(len(body)))
        connection.endheaders(body)
        response = connection.getresponse()
        return response.status, json.loads(response.read() or b"null")
    finally:
        connection.close()


def run(lab: Lab, source: str, **changed: str | None) -> tuple[int, Any]:
    body = json.dumps({"exercise": "01-softmax", "source": source}).encode()
    return ask(lab, "POST", "/api/practice/run", body, **changed)


def verdict(lab: Lab, source: str) -> Any:
    """What the grader says of it, when its turn has come."""
    status, answer = run(lab, source)
    assert status == 200
    return _ended(lab, answer["job"]["id"])["answer"]


def _ended(lab: Lab, id: str) -> Any:
    for _ in range(1200):
        job = ask(lab, "GET", f"/api/jobs/{id}")[1]
        if job["status"] not in ("waiting", "running"):
            return job
        time.sleep(0.05)
    raise AssertionError("it does not end")


def attempts(lab: Lab) -> int:
    assert lab.settings.data is not None
    return Progress.load(lab.settings.data / "learn.json").exercise_record(SOFTMAX).attempts


class TestDoors:
    @pytest.mark.parametrize(
        ("changed", "status"),
        [
            ({"host": "evil.example"}, 421),
            ({"host": "127.0.0.1.evil.example"}, 421),
            ({"origin": "http://evil.example"}, 403),
            ({"origin": "null"}, 403),
            ({"sec_fetch_site": "cross-site"}, 403),
            ({"x_regard_token": None}, 403),
            ({"x_regard_token": "wrong"}, 403),
            ({"content_type": "text/plain"}, 415),
        ],
    )
    def test_only_its_own_page_runs_programs(self, lab: Lab, changed: dict[str, str | None], status: int) -> None:
        before = attempts(lab)
        assert run(lab, RIGHT, **changed)[0] == status
        assert attempts(lab) == before

    @pytest.mark.parametrize("body", [b"", b"{", b"[]", b'{"exercise": NaN}', b"[" * 50_000])
    def test_malformed_json_is_said(self, lab: Lab, body: bytes) -> None:
        status, answer = ask(lab, "POST", "/api/practice/run", body)
        assert (status, answer["error"]["code"]) == (400, "json")

    def test_an_oversized_body_is_refused(self, lab: Lab) -> None:
        assert run(lab, "#" * lab.settings.body_limit)[0] == 413
        status, answer = run(lab, "#" * 70_000)
        assert (status, answer["error"]["field"]) == (422, "source")

    @pytest.mark.parametrize("name", ["99-none", "../01-softmax", 7, None])
    def test_an_exercise_that_is_not_there(self, lab: Lab, name: Any) -> None:
        body = json.dumps({"exercise": name, "source": RIGHT}).encode()
        status, answer = ask(lab, "POST", "/api/practice/run", body)
        assert (status, answer["error"]["field"]) == (422, "exercise")

    def test_without_the_runner_nothing_runs(self, tmp_path: Path) -> None:
        with Lab(Settings(warm=False, runner=False, data=tmp_path), port=0) as served:
            status, answer = run(served, RIGHT)
            assert (status, answer["error"]["code"]) == (422, "runner-off")

    @pytest.mark.parametrize("card", ["none", "formula; rm -rf /", "../x"])
    def test_only_the_command_of_a_card_is_run(self, lab: Lab, card: str) -> None:
        status, answer = ask(lab, "POST", "/api/practice/show", json.dumps({"card": card}).encode())
        assert (status, answer["error"]["field"]) == (422, "card")
        assert ask(lab, "POST", "/api/practice/show", b'{"card": "heads-differ", "shows": "regard learn"}')[0] == 422


HARMFUL = {
    "timeout": "def softmax(x):\n    while True: pass\n",
    "memory": "def softmax(x):\n    return bytearray(1 << 40)\n",
    "exit": "import sys\nsys.exit(0)\n",
    "stopped": "import os\ndef softmax(x):\n    os._exit(0)\n",
    "fork": (
        "import os, time\n"
        "def softmax(x):\n"
        "    try:\n"
        "        for _ in range(200):\n"
        "            if os.fork() == 0:\n"
        "                time.sleep(60)\n"
        "    except OSError:\n"
        "        raise RuntimeError('no more')\n"
    ),
    "reference": "from regard.learn.exercise import find_exercise\nexec(find_exercise('softmax').reference)\n",
}


@pytest.mark.parametrize("harm", HARMFUL)
def test_none_pass_and_none_harm(lab: Lab, harm: str) -> None:
    said = verdict(lab, HARMFUL[harm])
    assert not said["passed"]
    if harm in ("timeout", "memory", "exit", "stopped"):
        assert said["kind"] == harm
    assert all(said["title"].values())
    assert verdict(lab, RIGHT)["passed"]
    assert _children() == []


def _children() -> list[int]:
    """The processes that this one started for learners."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdecimal():
            try:
                command = (entry / "cmdline").read_bytes()
                parent = int((entry / "stat").read_text().rpartition(")")[2].split()[1])
            except (OSError, ValueError):
                continue
            if b"regard.learn.sandbox.child_program" in command and parent == os.getpid():
                found.append(int(entry.name))
    return found


def test_two_hundred_at_once(lab: Lab) -> None:
    """Some run, some wait, the others are told to come again; never more than two processes, memory bounded."""
    before, most, stop = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss, [0], threading.Event()

    def watch() -> None:
        while not stop.wait(0.02):
            most[0] = max(most[0], len(_children()))

    watching = threading.Thread(target=watch)
    watching.start()
    with ThreadPoolExecutor(200) as threads:
        found = list(threads.map(lambda _: run(lab, RIGHT), range(200)))
    taken = [answer["job"]["id"] for status, answer in found if status == 200]
    refused = [answer["error"] for status, answer in found if status == 503]
    assert len(taken) + len(refused) == 200
    assert len(taken) >= lab.settings.running + lab.settings.waiting
    assert len(refused) >= 100
    assert {error["code"] for error in refused} == {"busy"}
    assert {error["facts"]["waiting"] for error in refused} == {lab.settings.waiting}
    ended = [_ended(lab, id) for id in taken]
    stop.set()
    watching.join()
    assert [job["answer"] for job in ended if job["status"] != "done"] == []
    assert all(job["answer"]["passed"] for job in ended)
    assert most[0] <= lab.settings.running
    assert (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) >> 10 < 128  # MiB
    assert len(lab.app.state.jobs._jobs) <= FINISHED_JOBS + 1
    assert verdict(lab, RIGHT)["passed"]
