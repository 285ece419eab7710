"""One process at a time works on a run, and damaged numbers of a run are not accepted."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from regard import cli, models
from regard.files import DamagedFileError, lock_run, read_json, write_json
from regard.training.interrupts import stop_requested
from regard.training.run_json import remove_temporary_files, require_free_folder


def test_a_second_process_is_told_who_holds_the_run(tmp_path: Path) -> None:
    code = (
        "import sys\nfrom regard.files import lock_run\ntry:\n    with lock_run(sys.argv[1]): pass\n"
        "except ValueError as error: print(error)\nelse: print('free')"
    )
    command = [sys.executable, "-c", code, str(tmp_path)]
    with lock_run(tmp_path):
        answer = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    assert f"{tmp_path} is in use by process {os.getpid()} since " in answer
    assert subprocess.run(command, capture_output=True, text=True, check=True).stdout == "free\n"
    assert not list(tmp_path.iterdir())


def test_a_killed_process_releases_its_lock(tmp_path: Path) -> None:
    code = (
        "import sys, time\nfrom regard.files import lock_run\n"
        "with lock_run(sys.argv[1]):\n    print('ready', flush=True)\n    time.sleep(600)"
    )
    with subprocess.Popen([sys.executable, "-c", code, str(tmp_path)], stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        process.stdout.readline()
        with pytest.raises(ValueError, match=f"process {process.pid} since"), lock_run(tmp_path):
            pass
        process.kill()
    with lock_run(tmp_path):
        pass


def test_sighup_asks_to_stop_as_often_as_it_comes() -> None:
    before = signal.signal(signal.SIGHUP, signal.SIG_DFL)  # the tests may run under nohup
    try:
        with stop_requested() as stop:
            for _ in range(2):
                signal.raise_signal(signal.SIGHUP)
            assert stop.is_set()
    finally:
        signal.signal(signal.SIGHUP, before)


def test_nohup_keeps_ignoring_sighup() -> None:
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        with stop_requested() as stop:
            signal.raise_signal(signal.SIGHUP)
            assert not stop.is_set()
    finally:
        signal.signal(signal.SIGHUP, before)


def test_a_changed_number_in_json_is_found(tmp_path: Path) -> None:
    file = write_json(tmp_path / "run.json", {"step": 12, "names": {3: "x"}})
    assert read_json(file, "a run", "restore it")["step"] == 12
    file.write_text(file.read_text().replace("12", "13"))
    with pytest.raises(DamagedFileError, match='if you edited the file, remove its entry "checksum"'):
        read_json(file, "a run", "restore it")
    content = json.loads(file.read_text())
    del content["checksum"]
    file.write_text(json.dumps(content))
    assert read_json(file, "a run", "restore it")["step"] == 13


@pytest.mark.parametrize("size", [{"d_model": 30_000}, {"layers": 1_000_000}, {"vocabulary": 10**12}])
def test_sizes_are_compared_before_memory_is_used(tmp_path: Path, size: dict[str, int]) -> None:
    models.save(models.Decoder(models.DecoderConfig(10, d_model=8, heads=2, layers=1)), tmp_path)
    file = tmp_path / "model.json"
    content = json.loads(file.read_text())
    del content["checksum"]
    content["config"] |= size
    file.write_text(json.dumps(content))
    with pytest.raises(ValueError, match=r"model\.safetensors"):
        models.load(tmp_path)


def test_every_flipped_bit_of_weights_is_found(tmp_path: Path) -> None:
    models.save(models.Decoder(models.DecoderConfig(10, d_model=8, heads=2, layers=1)), tmp_path)
    file = tmp_path / "model.safetensors"
    content = file.read_bytes()
    for place in range(len(content) - 2000, len(content), 97):
        damaged = bytearray(content)
        damaged[place] ^= 1
        file.write_bytes(damaged)
        with pytest.raises(DamagedFileError, match=r"model\.safetensors"):
            models.load(tmp_path)


def test_nan_weights_are_rejected(tmp_path: Path) -> None:
    model = models.Decoder(models.DecoderConfig(10, d_model=8, heads=2, layers=1))
    with torch.no_grad():
        next(model.parameters())[0] = torch.nan
    models.save(model, tmp_path)
    with pytest.raises(DamagedFileError, match="NaN"):
        models.load(tmp_path)


def test_claims_show_reads_the_folder_given_before_the_command(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    cli.main(["claims", "--out", str(tmp_path), "show", "mask"])
    before = capsys.readouterr().out
    cli.main(["claims", "show", "mask", "--out", str(tmp_path)])
    assert before == capsys.readouterr().out
    cli.main(["claims", "show", "mask"])
    assert before != capsys.readouterr().out


def test_a_run_killed_before_run_json_was_written_can_be_started_again(tmp_path: Path) -> None:
    (tmp_path / "tokenizer.json").write_text("{}")
    (tmp_path / ".run.json.0123456789abcdef").write_text("{")
    require_free_folder(tmp_path)
    (tmp_path / "run.json").write_text("{}")
    with pytest.raises(ValueError, match="exists already"):
        require_free_folder(tmp_path)
    remove_temporary_files(tmp_path)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["run.json", "tokenizer.json"]
