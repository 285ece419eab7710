"""The server: whom it answers, what it refuses, and that it stays up."""

import json
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from http.client import HTTPConnection, HTTPResponse
from typing import Any

import numpy as np
import pytest
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from regard.attention import Trace, embed, projections, trace_layer
from regard.attention.reference import numpy_attention as reference
from regard.lab import Lab, Settings, build
from regard.lab.server import slow_connections
from regard.lab.server.job_queue import Job, JobQueue, QueueFull
from regard.lab.server.live_page import STATIC

Answer = tuple[int, dict[str, str], bytes]


def ask(lab: Lab, method: str, path: str, body: bytes | None = None, **headers: str) -> Answer:
    connection = HTTPConnection("127.0.0.1", lab.port, timeout=60)
    try:
        connection.putrequest(method, path, skip_host="host" in headers)
        for name, value in headers.items():
            connection.putheader(name.replace("_", "-"), value)
        if body is not None:
            connection.putheader("content-length", str(len(body)))
        connection.endheaders(body)
        response: HTTPResponse = connection.getresponse()
        return response.status, {name.lower(): value for name, value in response.getheaders()}, response.read()
    finally:
        connection.close()


def post(lab: Lab, path: str, content: Any, **headers: str) -> Answer:
    body = content if isinstance(content, bytes) else json.dumps(content).encode()
    headers = {"x_regard_token": lab.settings.token, "content_type": "application/json", **headers}
    return ask(lab, "POST", path, body, **headers)


def code(answer: Answer) -> str:
    return json.loads(answer[2])["error"]["code"]


class TestDoors:
    @pytest.mark.parametrize("host", ["evil.example", "evil.example:80", "127.0.0.1.evil.example", "10.0.0.7", ""])
    def test_a_foreign_host_is_refused(self, lab: Lab, host: str) -> None:
        assert ask(lab, "GET", "/", host=host)[0] in (400, 421)
        assert ask(lab, "GET", "/static/style.css", host=host)[0] in (400, 421)
        assert post(lab, "/api/trace", {}, host=host)[0] in (400, 421)

    def test_its_own_hosts_are_not(self, lab: Lab) -> None:
        for host in (f"127.0.0.1:{lab.port}", f"localhost:{lab.port}"):
            assert post(lab, "/api/trace", {}, host=host, origin=f"http://{host}")[0] == 200

    @pytest.mark.parametrize("origin", ["http://evil.example", "null", "http://127.0.0.1:1", "https://127.0.0.1"])
    def test_a_foreign_origin_is_refused(self, lab: Lab, origin: str) -> None:
        answer = post(lab, "/api/trace", {}, origin=origin)
        assert (answer[0], code(answer)) == (403, "origin")

    def test_another_site_is_refused(self, lab: Lab) -> None:
        assert post(lab, "/api/trace", {}, sec_fetch_site="cross-site", sec_fetch_mode="no-cors")[0] == 403

    @pytest.mark.parametrize("token", ["", "wrong", "é"])
    def test_without_the_token_nothing_is_computed(self, lab: Lab, token: str) -> None:
        answer = post(lab, "/api/trace", {}, x_regard_token=token)
        assert (answer[0], code(answer)) == (403, "token")

    def test_without_the_key_there_is_no_page_and_no_token(self, lab: Lab) -> None:
        for path in ("/", "/?key=wrong", "/?key="):
            status, _, body = ask(lab, "GET", path)
            assert status == 403
            assert lab.settings.token.encode() not in body

    def test_the_key_is_left_as_a_cookie_that_scripts_cannot_read(self, lab: Lab) -> None:
        status, headers, _ = ask(lab, "GET", f"/?key={lab.settings.token}")
        assert (status, headers["location"]) == (303, "/")
        assert "HttpOnly" in headers["set-cookie"]
        status, headers, body = ask(lab, "GET", "/", cookie=headers["set-cookie"].partition(";")[0])
        assert status == 200
        assert headers["content-security-policy"].startswith("default-src 'self';")
        assert lab.settings.token.encode() in body

    def test_the_keys_of_two_launches_differ(self) -> None:
        assert Settings().token != Settings().token
        assert Settings().token not in repr(Settings())


class TestBodies:
    @pytest.mark.parametrize("body", [b"", b"{", b"[1]", b'"x"', b'{"a": NaN}', b"\xff\xfe", b"[" * 100_000])
    def test_malformed_json_is_said(self, lab: Lab, body: bytes) -> None:
        answer = post(lab, "/api/trace", body)
        assert (answer[0], code(answer)) == (400, "json")

    def test_an_oversized_body_is_refused(self, lab: Lab) -> None:
        answer = post(lab, "/api/trace", b" " * (lab.settings.body_limit + 1))
        assert (answer[0], code(answer)) == (413, "large")

    def test_so_is_one_that_does_not_tell_its_size(self, lab: Lab) -> None:
        with socket.create_connection(("127.0.0.1", lab.port), timeout=60) as raw:
            raw.sendall(
                f"POST /api/trace HTTP/1.1\r\nHost: 127.0.0.1:{lab.port}\r\nContent-Type: application/json\r\n"
                f"X-Regard-Token: {lab.settings.token}\r\nTransfer-Encoding: chunked\r\n\r\n".encode()
            )
            chunk = b"10000\r\n" + b" " * 0x10000 + b"\r\n"
            try:
                for _ in range(lab.settings.body_limit // 0x10000 + 2):
                    raw.sendall(chunk)
                raw.sendall(b"0\r\n\r\n")
            except OSError:
                pass  # the server has hung up already
            assert raw.recv(64).startswith(b"HTTP/1.1 413")

    def test_a_form_is_no_json(self, lab: Lab) -> None:
        answer = post(lab, "/api/trace", b"text=hello", content_type="application/x-www-form-urlencoded")
        assert (answer[0], code(answer)) == (415, "media")

    @pytest.mark.parametrize("path", ["/static/../app.py", "/static/%2e%2e/app.py", "/static//etc/passwd", "/nothing"])
    def test_nothing_else_is_served(self, lab: Lab, path: str) -> None:
        assert ask(lab, "GET", path)[0] == 404

    def test_the_server_is_up_after_all_that(self, lab: Lab) -> None:
        assert post(lab, "/api/trace", {"text": "still here"})[0] == 200


class TestBinding:
    def test_elsewhere_is_refused_while_programs_are_run(self) -> None:
        with pytest.raises(ValueError, match=r"only be served at 127\.0\.0\.1"):
            Lab(Settings(warm=False), host="0.0.0.0", port=0)
        with pytest.raises(ValueError, match=r"only be served at 127\.0\.0\.1"):
            build(Settings(loopback=False))

    def test_without_the_runner_it_is_not(self) -> None:
        with Lab(Settings(warm=False, runner=False), host="0.0.0.0", port=0) as lab:
            assert post(lab, "/api/trace", {})[0] == 200
            assert post(lab, "/api/trace", {}, host="evil.example")[0] == 421

    def test_a_port_that_is_taken_is_left_alone(self, lab: Lab) -> None:
        with Lab(Settings(warm=False), port=lab.port) as other:
            assert other.port != lab.port

    @pytest.mark.parametrize("host", ["lab.example", ""])
    def test_a_name_is_no_address(self, host: str) -> None:
        with pytest.raises(ValueError, match="host must be an IP address"):
            Lab(Settings(warm=False), host=host, port=0)


class TestEnding:
    def test_a_server_that_is_busy_keeps_its_socket_until_it_has_ended(self, monkeypatch: pytest.MonkeyPatch) -> None:
        busy = threading.Event()

        async def slow(_: Request) -> Response:
            busy.set()
            time.sleep(0.5)  # nothing else is served meanwhile, as while torch is loaded
            return Response()

        monkeypatch.setattr("regard.lab.server.serve.SHUTDOWN_SECONDS", 0.1)
        with Lab(Settings(warm=False), port=0) as lab:
            lab.app.router.routes.insert(0, Route("/slow", slow))
            asking = threading.Thread(target=ask, args=[lab, "GET", f"/slow?key={lab.settings.token}"])
            asking.start()
            busy.wait(20)
        asking.join()
        lab.thread.join(20)  # an exception in it would be reported
        assert lab.socket.fileno() == -1


class TestTrace:
    def test_it_is_the_trace_of_regard(self, lab: Lab) -> None:
        asked = {"text": "猫坐在 the mat", "heads": 4, "d_model": 16, "seed": 3, "mask": "causal"}
        found = Trace.from_json(post(lab, "/api/trace", asked)[2].decode())
        tokens = ["猫", "坐", "在", "the", "mat"]
        assert list(found.tokens) == tokens
        x, (w_q, w_k, w_v, w_o) = embed(tokens, 16, 3), projections(16, 3)
        expected = reference.multi_head_attention(x, w_q, w_k, w_v, w_o, 4, mask=np.tri(5, dtype=bool))
        np.testing.assert_allclose(found.output, expected, rtol=0, atol=1e-12)

    def test_temperature_and_scale(self, lab: Lab) -> None:
        found = Trace.from_json(post(lab, "/api/trace", {"temperature": 0.5, "scale": False})[2].decode())
        np.testing.assert_allclose(found.part("scale").values, 2 * found.part("scores").values)

    def test_edits_are_followed(self, lab: Lab) -> None:
        edits = [["Q", 1, 2, 3.5], ["K", 0, 7, -2.0], ["V", 5, 4, 1.25]]
        found = Trace.from_json(post(lab, "/api/trace", {"edits": edits, "mask": "causal"})[2].decode())
        tokens = ["The", "cat", "sat", "on", "the", "mat"]
        whole = trace_layer(embed(tokens, 8), *projections(8), heads=2)
        q, k, v = (part.values.copy() for part in whole["project"].parts)
        q[1, 2], k[0, 7], v[5, 4] = 3.5, -2.0, 1.25
        for part, values in zip(found["project"].parts, (q, k, v), strict=True):
            np.testing.assert_array_equal(part.values, values)
        q, k, v = reference.split_projected(q, k, v, 2, None)
        context = reference.attention(q, k, v, np.tri(6, dtype=bool))
        output = reference.merge_heads(context) @ projections(8)[3]
        np.testing.assert_allclose(found.output, output, atol=1e-12)

    @pytest.mark.parametrize(
        ("asked", "field", "said"),
        [
            ({"text": "  "}, "text", "no-words"),
            ({"text": "a " * 65}, "text", "many-tokens"),
            ({"text": 7}, "text", "text"),
            ({"text": "a" * 2001}, "text", "text"),
            ({"heads": 3}, "heads", "heads-divide"),
            ({"heads": 0}, "heads", "whole"),
            ({"heads": True}, "heads", "whole"),
            ({"d_model": 1000}, "d_model", "whole"),
            ({"d_model": 2.5}, "d_model", "whole"),
            ({"seed": -1}, "seed", "whole"),
            ({"temperature": 0}, "temperature", "real"),
            ({"scale": "yes"}, "scale", "truth"),
            ({"mask": "import os"}, "mask", "mask"),
            ({"mask": "window(keys=0)"}, "mask", "mask"),
            ({"mask": "padding([1, 2, 3])"}, "mask", "mask"),
            ({"edits": [["X", 0, 0, 1]]}, "edits", "edits"),
            ({"edits": [["Q", 99, 0, 1]]}, "edits", "edits"),
            ({"edits": 5}, "edits", "edits"),
        ],
    )
    def test_mistakes_are_said_at_the_field(self, lab: Lab, asked: dict[str, Any], field: str, said: str) -> None:
        status, _, body = post(lab, "/api/trace", asked)
        error = json.loads(body)["error"]
        assert (status, error["field"], error["code"]) == (422, field, said)
        assert error["message"]


class TestWork:
    @pytest.fixture
    def work(self) -> Iterator[JobQueue]:
        work = JobQueue(running=1, waiting=2)
        yield work
        work.close()

    def test_more_than_the_places_is_refused_and_the_rest_done(self, work: JobQueue) -> None:
        gate = threading.Event()
        jobs = [work.start(lambda job: gate.wait(20)) for _ in range(3)]
        with pytest.raises(QueueFull, match="1 jobs are running and 2 are waiting"):
            work.start(lambda job: None)
        gate.set()
        assert [work.wait(job, 20).status for job in jobs] == ["done"] * 3
        assert work.wait(work.start(lambda job: 7), 20).answer == 7

    def test_a_job_is_stopped_where_it_tells(self, work: JobQueue) -> None:
        began = threading.Event()

        def endless(job: Job) -> None:
            while True:
                job.report(done=1)
                began.set()
                time.sleep(0.001)

        job = work.start(endless)
        began.wait(20)
        assert job.as_json()["progress"] == {"done": 1}
        job.stop_requested.set()
        assert work.wait(job, 20).status == "stopped"

    def test_a_failure_is_kept_and_frees_its_place(self, work: JobQueue) -> None:
        for _ in range(5):
            job = work.wait(work.start(lambda job: 1 / 0), 20)
            assert (job.status, job.answer) == ("failed", {"message": "division by zero"})

    def test_what_has_ended_is_forgotten_in_time(self, work: JobQueue) -> None:
        for _ in range(100):
            work.wait(work.start(lambda job: None), 20)
        assert len(work._jobs) <= 65

    def test_two_hundred_at_once(self, lab: Lab) -> None:
        asked = {"text": "the cat sat on the mat", "heads": 2}
        with ThreadPoolExecutor(40) as threads:
            found = list(threads.map(lambda _: post(lab, "/api/trace", asked)[0], range(200)))
        assert found == [200] * 200

    def test_an_unknown_job(self, lab: Lab) -> None:
        answer = ask(lab, "GET", "/api/jobs/none", x_regard_token=lab.settings.token)
        assert (answer[0], code(answer)) == (404, "gone")


class TestQueue:
    """The queue as the page meets it: one place to run, two to wait, and endpoints that take time."""

    @pytest.fixture
    def small(self) -> Iterator[Lab]:
        gate = threading.Event()

        async def slow(request: Request) -> Response:
            return JSONResponse(await request.app.state.jobs.run(lambda: gate.wait(20)))

        async def begin(request: Request) -> Response:
            def endless(job: Job) -> None:
                while True:
                    job.report(done=1, of=9)
                    time.sleep(0.001)

            return JSONResponse({"job": request.app.state.jobs.start(endless).as_json()})

        with Lab(Settings(warm=False, running=1, waiting=2), port=0) as lab:
            lab.app.router.routes.insert(0, Route("/api/slow", slow, methods=["POST"]))
            lab.app.router.routes.insert(0, Route("/api/begin", begin, methods=["POST"]))
            lab.gate = gate  # type: ignore[attr-defined]
            yield lab
            gate.set()

    def test_two_hundred_runs_are_done_or_refused_with_a_clear_status(self, small: Lab) -> None:
        with ThreadPoolExecutor(50) as threads:
            waiting = [threads.submit(post, small, "/api/slow", {}) for _ in range(200)]
            refused = 0
            while refused < 197:
                refused = sum(one.done() for one in waiting)
                time.sleep(0.01)
            small.gate.set()  # type: ignore[attr-defined]
            answers = [one.result() for one in waiting]
        assert sorted({status for status, _, _ in answers}) == [200, 503]
        assert sum(status == 200 for status, _, _ in answers) == 3
        for answer in answers:
            if answer[0] == 503:
                assert code(answer) == "busy"
                assert answer[1]["retry-after"] == "2"
        assert post(small, "/api/trace", {})[0] == 200
        assert post(small, "/api/slow", {})[0] == 200

    def test_a_job_is_followed_and_stopped(self, small: Lab) -> None:
        job = json.loads(post(small, "/api/begin", {})[2])["job"]
        token = small.settings.token
        path = f"/api/jobs/{job['id']}"
        while json.loads(ask(small, "GET", path, x_regard_token=token)[2])["progress"] != {"done": 1, "of": 9}:
            time.sleep(0.01)
        assert ask(small, "DELETE", path, x_regard_token=token)[0] == 200
        while (said := json.loads(ask(small, "GET", path, x_regard_token=token)[2]))["status"] == "running":
            time.sleep(0.01)
        assert said["status"] == "stopped"


def test_serving_loads_no_torch() -> None:
    """The first view is drawn without it."""
    program = (
        "import sys; from regard.lab import Lab, Settings\n"
        "from urllib.request import Request, urlopen\n"
        "with Lab(Settings(warm=False), port=0) as lab:\n"
        "    headers = {'content-type': 'application/json', 'x-regard-token': lab.settings.token}\n"
        "    urlopen(Request(lab.origin + '/api/trace', b'{\"mask\": \"causal\"}', headers)).read()\n"
        "    print('torch' in sys.modules, 'matplotlib' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["False", "False"]


def test_torch_and_the_claims_are_imported_after_the_first_view() -> None:
    """The view Claims opens without waiting for its imports."""
    program = (
        "import sys, time; from regard.lab import Lab, Settings\n"
        "from urllib.request import Request, urlopen\n"
        "with Lab(Settings(), port=0) as lab:\n"
        "    print('torch' in sys.modules)\n"
        "    headers = {'content-type': 'application/json', 'x-regard-token': lab.settings.token}\n"
        "    urlopen(Request(lab.origin + '/api/trace', b'{\"mask\": \"causal\"}', headers)).read()\n"
        "    deadline = time.monotonic() + 120\n"
        "    imported = lambda: sum(name.startswith('regard.claims.experiments.') for name in sys.modules)\n"
        "    while imported() < 18 and time.monotonic() < deadline:\n"
        "        time.sleep(0.1)\n"
        "    print('torch' in sys.modules, imported() >= 18)"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["False", "True", "True"]
    assert done.stderr == ""


FAILING_ENDPOINTS = """
import json, time
from urllib.error import HTTPError
from urllib.request import Request, urlopen
from regard.lab import Lab, Settings
from regard.lab.server.routes import get, post, post_job

def raise_unexpected(fields):
    raise KeyError("defect in " + fields["where"])

def request(path, body=None):
    headers = {"content-type": "application/json", "x-regard-token": lab.settings.token}
    try:
        return json.load(urlopen(Request(lab.origin + path, body and json.dumps(body).encode(), headers)))
    except HTTPError as error:
        return json.load(error)

with Lab(Settings(warm=False), port=0) as lab:
    lab.app.router.routes[:0] = [
        get("/api/get", raise_unexpected),
        post("/api/post", raise_unexpected),
        post("/api/queued", raise_unexpected, queued=True),
        post_job("/api/prepare", raise_unexpected),
        post_job("/api/job", lambda fields: lambda job: raise_unexpected(fields)),
    ]
    print(request("/api/get?where=get")["error"]["code"])
    for name in ("post", "queued", "prepare"):
        print(request(f"/api/{name}", {"where": name})["error"]["code"])
    job = request("/api/job", {"where": "job"})["job"]
    while job["status"] in ("waiting", "running"):
        time.sleep(0.01)
        job = request(f"/api/jobs/{job['id']}")
    print(job["status"])
"""


def test_an_unexpected_error_leaves_its_traceback_in_the_terminal() -> None:
    """The page shows the text of the code `failed`, which refers to the terminal."""
    process = subprocess.run([sys.executable, "-c", FAILING_ENDPOINTS], capture_output=True, text=True, check=True)
    assert process.stdout.split() == ["failed"] * 5
    assert process.stderr.count("Traceback (most recent call last)") >= 5
    for where in ("get", "post", "queued", "prepare", "job"):
        assert f"KeyError: 'defect in {where}'" in process.stderr
    assert "terminal" in json.loads((STATIC / "text" / "common.en.json").read_text(encoding="utf-8"))["error.failed"]


def test_connections_that_send_nothing_are_closed(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(slow_connections, "REQUEST_SECONDS", 0.2)
    head = f"POST /api/trace HTTP/1.1\r\nHost: 127.0.0.1:{lab.port}\r\nContent-Length: 9\r\n\r\n{{"
    with ExitStack() as stack:
        slow = [stack.enter_context(socket.create_connection(("127.0.0.1", lab.port), timeout=20)) for _ in range(20)]
        for connection, sent in zip(slow, ["", "GET / HT", head, "GET / HTTP/1.1\r\n"] * 5, strict=True):
            connection.sendall(sent.encode())
        for connection in slow:
            while connection.recv(1 << 16):  # an answer may precede the end of the connection
                pass


def test_a_web_socket_is_refused_without_advice(lab: Lab, capfd: pytest.CaptureFixture[str]) -> None:
    with socket.create_connection(("127.0.0.1", lab.port), timeout=20) as connection:
        connection.sendall(
            f"GET / HTTP/1.1\r\nHost: 127.0.0.1:{lab.port}\r\nConnection: Upgrade, close\r\nUpgrade: websocket\r\n"
            "Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n\r\n".encode()
        )
        assert connection.recv(1 << 10).startswith(b"HTTP/1.1 ")
    assert capfd.readouterr().err == ""
