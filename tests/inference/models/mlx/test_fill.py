"""`--device mlx` as a user runs it: the real command, and one real worker for all tests here."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

SOURCE = "import os\n\n\ndef size(path):\n    return ???\n\n\nprint(size(???))\n"


def run(runtime_folder: Path, *arguments: object) -> "subprocess.CompletedProcess[str]":
    command = [sys.executable, "-m", "lsp_server.cli", *map(str, arguments)]
    environment = os.environ | {"INFILL_LS_RUNTIME_DIR": str(runtime_folder)}
    return subprocess.run(command, capture_output=True, text=True, env=environment, check=False)


@pytest.fixture(scope="module")
def answer(runtime_folder: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, object]:
    """What `infill-ls fill --device mlx` prints for a file with two holes. Its worker stays."""
    file = tmp_path_factory.mktemp("source") / "sized.py"
    file.write_text(SOURCE)
    options = ("--device", "mlx", "--json", "--steps", 4, "--seed", 1, "--deadline-ms", 250_000)
    done = run(runtime_folder, "fill", file, *options)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_the_command_fills_holes_jointly_and_names_the_device(answer: dict[str, object]) -> None:
    assert answer["device"] == "mlx:cpu"
    assert re.fullmatch(re.escape(SOURCE).replace(re.escape("???"), "(.+)"), str(answer["result"]))


def test_doctor_names_the_device_and_the_format(runtime_folder: Path) -> None:
    done = run(runtime_folder, "doctor", "--device", "mlx")
    assert "mlx:cpu float32" in done.stdout
