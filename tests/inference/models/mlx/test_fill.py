"""`--device mlx` as a user runs it: the real command, and one real worker for all tests here."""

import json
import re
from pathlib import Path

from tests.workers import infill_ls

SOURCE = "import os\n\n\ndef size(path):\n    return ???\n\n\nprint(size(???))\n"


def test_the_command_fills_holes_jointly_and_names_the_device(runtime_folder: Path, tmp_path: Path) -> None:
    file = tmp_path / "sized.py"
    file.write_text(SOURCE)
    options = ("--device", "mlx", "--json", "--steps", 4, "--seed", 1, "--deadline-ms", 100_000)
    done = infill_ls("fill", file, *options)
    assert done.returncode == 0, done.stderr
    answer = json.loads(done.stdout)
    assert answer["device"] == "mlx:cpu"
    assert re.fullmatch(re.escape(SOURCE).replace(re.escape("???"), "(.+)"), answer["result"])


def test_doctor_names_the_device_and_the_format(runtime_folder: Path) -> None:
    assert "mlx:cpu float32" in infill_ls("doctor", "--device", "mlx").stdout


def test_models_predicts_the_bits_of_the_file() -> None:
    models = json.loads(infill_ls("models", "--device", "mlx", "--json").stdout)["models"]
    words = {model["name"]: model["words"] for model in models}
    assert "runs here in its own bits" in words["qwen2.5-coder-0.5b"]
    assert words["open-dcoder-0.5b"] == "MLX does not run it; device cpu does"
