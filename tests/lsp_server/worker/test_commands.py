"""`infill-ls worker`, `status` and `doctor` as a user runs them."""

import json
import os
import shutil
from pathlib import Path

import pytest
from msgspec.structs import replace

import inference
from inference.messages import Status, WorkerState
from lsp_server.cli import main
from lsp_server.diagnosis.workers import describe_status
from lsp_server.worker.paths import FOLDER_VARIABLE, WorkerPaths
from tests.inference.loaded import save_with_broken_encoder
from tests.workers import checks_of, infill_ls


def test_speeds_that_are_not_known_are_left_out() -> None:
    status = Status(state=WorkerState.READY, model="m", device="cpu", token_ms=21.0, prompt_token_ms=3.5)
    assert "21 ms a token, 3.5 ms a token of a prompt, clients" in describe_status(status)
    assert "21 ms a token, clients" in describe_status(replace(status, prompt_token_ms=0.0))
    assert "ms a token" not in describe_status(replace(status, token_ms=0.0, prompt_token_ms=0.0))


@pytest.mark.parametrize("name", ["serve", "fill", "worker", "status", "doctor"])
def test_each_command_explains_its_arguments(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    given = ["a.py"] if name == "fill" else []
    with pytest.raises(SystemExit) as ended:
        main([name, "--help"])
    assert ended.value.code == 0
    assert f"usage: infill-ls {name}" in capsys.readouterr().out
    with pytest.raises(SystemExit) as ended:
        main([name, *given, "--dtype", "nonsense"])
    shown = capsys.readouterr().err
    assert ended.value.code == 2
    assert "--dtype: invalid choice: 'nonsense'" in shown or name == "status"
    assert f"usage: infill-ls {name}" in shown or name != "status"


@pytest.mark.parametrize(("words", "rest"), [("models -h", "[pull]"), ("stats -h", "[forget]"), ("", "COMMAND")])
def test_usage_tells_what_may_be_left_out(words: str, rest: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(words.split())
    assert f" {rest} ..." in capsys.readouterr().out


@pytest.fixture
def private(tmp_path: Path) -> Path:
    folder = tmp_path / "run"
    folder.mkdir(mode=0o700)
    return folder


def test_status_tells_of_the_worker_that_runs(resident: WorkerPaths) -> None:
    shown, found = infill_ls("status"), infill_ls("status", "--json")
    assert (shown.returncode, found.returncode) == (0, 0)
    assert "\x1b" not in shown.stdout, "no colour where nobody sees it"
    socket = str(resident.socket)
    (running,) = [running for running in json.loads(found.stdout)["workers"] if running["socket"] == socket]
    (line,) = [line for line in shown.stdout.splitlines() if f"process {running['pid']}," in line]
    assert line.startswith("ready: embedded on cpu")
    assert running["model"] == "embedded"
    assert running["memory_bytes"] > 0


def test_status_and_stopping_start_nothing(private: Path) -> None:
    result = infill_ls("status", folder=private)
    assert result.returncode == 3
    assert "No worker is running" in result.stdout
    result = infill_ls("worker", "--stop", folder=private)
    assert (result.returncode, result.stdout) == (0, "no such worker is running\n")
    assert list(private.iterdir()) == []


def test_doctor_finds_this_machine_fit(resident: WorkerPaths) -> None:
    result = infill_ls("doctor", "--json")
    assert result.returncode == 0, result.stdout
    checks = checks_of(result)
    assert {check["verdict"] for check in checks.values()} <= {"ok", "warn"}
    assert checks["log"]["found"] == str(resident.log)
    assert {"python", "model"} <= set(checks)


def test_status_and_doctor_report_senseless_likelihoods(private: Path) -> None:
    folder = private / "broken"
    save_with_broken_encoder(folder)
    started = infill_ls("worker", "--model", str(folder), "--idle-s", "30", folder=private)
    assert started.returncode == 0, started.stderr
    shown = infill_ls("status", folder=private)
    check = checks_of(infill_ls("doctor", "--json", "--model", str(folder), folder=private))["model"]
    infill_ls("worker", "--stop", "--model", str(folder), folder=private)
    assert check["verdict"] == "warn" and "or choose another model" in check["found"]
    for words in (started.stdout, shown.stdout, check["found"]):
        assert (
            "predicts plain code no better than random guessing, so candidates are ranked by the canvas alone" in words
        )


def test_doctor_says_what_is_wrong_and_what_to_do(private: Path) -> None:
    for device, mode, names, advice in (("abacus", 0o700, {"model"}, "mlx"), ("cpu", 0o755, {"model"}, "chmod 700")):
        private.chmod(mode)
        result = infill_ls("doctor", "--json", "--device", device, folder=private)
        assert result.returncode == 1
        failed = {name: check for name, check in checks_of(result).items() if check["verdict"] == "fail"}
        assert set(failed) == names
        assert all(advice in check["advice"] for check in failed.values())


def test_a_worker_that_cannot_be_started_says_why(private: Path) -> None:
    result = infill_ls("worker", "--model", "./nowhere", folder=private)
    assert result.returncode == 1
    assert "nowhere" in result.stderr and "Traceback" not in result.stderr


@pytest.mark.parametrize("seconds", ["nan", "inf", "-1", "0"])
def test_an_idle_time_that_no_clock_can_count_is_refused(seconds: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["worker", "--where", f"--idle-s={seconds}"]) == 0
    assert "command line: idleSeconds: Expected float" in capsys.readouterr().err


def test_a_variable_or_argument_that_a_worker_cannot_use_is_told(
    private: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv(FOLDER_VARIABLE, str(private))
    monkeypatch.setenv("INFILL_LS_IDLE_SECONDS", "soon")
    monkeypatch.setenv("INFILL_LS_MODL", "embedded")
    assert main(["worker", "--where", "--model="]) == 0
    idle, model, given = capsys.readouterr().err.splitlines()
    assert idle.startswith("infill-ls worker: environment variable INFILL_LS_IDLE_SECONDS: idleSeconds: Expected float")
    assert "INFILL_LS_MODL: unknown setting 'MODL' (did you mean 'model'?)" in model
    assert given.startswith("infill-ls worker: command line: model: ")


def test_hostile_checkpoint_is_named(private: Path) -> None:
    """A pipe that nobody writes to. `tests/inference/models/test_checkpoint.py` has others."""
    folder, file = private / "hostile", private / "a.py"
    shutil.copytree(Path(inference.__file__).parent / "embedded", folder)
    (folder / "infill.json").unlink()
    (folder / "config.json").unlink()
    os.mkfifo(folder / "config.json")
    file.write_text("x = ???\n")
    filled = infill_ls("fill", str(file), "--model", str(folder), folder=private)
    assert filled.returncode != 0
    said = f"{folder / 'config.json'} is not a regular file"
    assert "Traceback" not in filled.stderr and said in filled.stderr
    examined = infill_ls("doctor", "--json", "--model", str(folder), folder=private)
    assert (examined.returncode, "Traceback" in examined.stderr) == (1, False)
    assert said in checks_of(examined)["model"]["found"]
