"""The command `regard lab`: it serves, says where, and ends with Ctrl-C."""

import os
import re
import signal
import socket
import subprocess
import sys
from pathlib import Path
from urllib.request import HTTPCookieProcessor, Request, build_opener, urlopen

import pytest

from regard.cli import main


def test_it_serves_until_it_is_interrupted() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        command = [sys.executable, "-m", "regard", "lab", "--no-browser", "--port", str(port)]
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        try:
            assert process.stdout is not None
            said = process.stdout.readline()
            found = re.fullmatch(r"The lab is at (http://127\.0\.0\.1:(\d+)/\?key=\S+)\n", said)
            assert found is not None, said
            assert int(found[2]) != port
            with build_opener(HTTPCookieProcessor()).open(found[1], timeout=60) as answer:
                assert b"regard lab" in answer.read()
            process.send_signal(signal.SIGINT)
            _, complaints = process.communicate(timeout=60)
        finally:
            process.kill()
            process.wait()
    assert process.returncode == 0
    assert complaints == f"Port {port} is taken; using {found[2]}.\n"


def test_it_ends_after_the_module_that_is_being_imported(tmp_path: Path) -> None:
    """A process that ends inside the import of a C++ library may crash."""
    slow = "import time; print('importing', flush=True); time.sleep(3); print('imported')"
    (tmp_path / "torch.py").write_text(slow)
    environment = os.environ | {"PYTHONPATH": os.pathsep.join([str(tmp_path), os.environ.get("PYTHONPATH", "")])}
    command = [sys.executable, "-m", "regard", "lab", "--no-browser", "--port", "0"]
    process = subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        origin, key = process.stdout.readline().split()[-1].split("/?key=")
        urlopen(Request(f"{origin}/api/path", headers={"x-regard-token": key}), timeout=60).close()  # the first view's
        while "importing" not in process.stdout.readline():
            assert process.poll() is None
        process.send_signal(signal.SIGINT)
        printed, complaints = process.communicate(timeout=60)
    finally:
        process.kill()
        process.wait()
    assert (process.returncode, printed, complaints) == (0, "imported\n", "")


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["--host", "0.0.0.0"], "regard lab: a lab that runs learners' programs can only be served at 127.0.0.1"),
        (["--host", "lab.example"], "regard lab: host must be an IP address such as 127.0.0.1, got 'lab.example'"),
        (["--port", "70000"], "regard lab: Invalid value for '--port'"),
    ],
)
def test_user_errors_are_one_line(capsys: pytest.CaptureFixture[str], arguments: list[str], complaint: str) -> None:
    assert main(["lab", "--no-browser", *arguments]) == 2
    said = capsys.readouterr().err
    assert said.startswith(complaint)
    assert said.count("\n") == 1
