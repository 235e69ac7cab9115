"""`infill-ls calibrate`: holes in any code, what is measured on them, and what is kept of it."""

import json
import shutil
import subprocess
import sys
from pathlib import Path

import msgspec
import pytest

from inference.calibration import code_holes, measure
from inference.calibration.code_holes import NoCodeError
from inference.engine import Engine
from inference.engine.canvas.layout import Slots
from inference.engine.search import length
from inference.messages import Candidate, Done, Hole, InfillRequest, Text
from inference.models import calibration, registry
from inference.models.checkpoint import Checkpoint
from inference.models.family import LengthBias, ModelError
from tests.inference.engine.bigram_family import BigramFamily

BIAS = LengthBias((1, 4, 8), (0.9, 0.5, 0.3))
CODE = "def area(width, height):\n    return width * height\n\n\n" * 8


@pytest.fixture
def found(random_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Checkpoint:
    """A checkpoint in a folder of the user's own."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return registry.find(str(shutil.copytree(random_folder, tmp_path / "model")))


def test_holes_are_parts_of_lines_and_the_same_each_time(tmp_path: Path) -> None:
    (tmp_path / "one.py").write_text(CODE)
    (tmp_path / "two.go").write_text("package main\n\nfunc main() {\n\tprintln(1)\n}\n")
    (tmp_path / "broken.py").write_bytes(b"\xff\xfe")
    (tmp_path / "notes.txt").write_text("no code\n")
    holes = code_holes.holes(tmp_path, 9, 1)
    assert len(holes) == 9
    assert holes == code_holes.holes(tmp_path, 9, 1)
    texts = [(tmp_path / name).read_text() for name in ("one.py", "two.go")]
    for hole in holes:
        assert hole.solution.strip()
        assert "\n" not in hole.solution
        assert hole.before + hole.solution + hole.after in texts


def test_a_place_without_code_is_told(tmp_path: Path) -> None:
    with pytest.raises(NoCodeError, match="--on"):
        code_holes.holes(tmp_path, 3, 1)


def test_a_shorter_hole_is_usually_surer_and_what_is_unusual_is_chosen(twin: Engine, tmp_path: Path) -> None:
    (tmp_path / "one.py").write_text(CODE)
    bias = measure.bias(list(measure.measured(twin, code_holes.holes(tmp_path, 6, 1), 1)))
    assert bias.at(1) > bias.at(4) > bias.at(20)
    choices, sure = [(2,), (8,), (20,)], [bias.at(2), bias.at(8) * 1.2, bias.at(20) * 1.1]
    hole = (Slots(24, single_line=True),)
    assert length.surest_first(hole, choices, sure, bias) == [(8,), (2,), (20,)], "twenty tokens are unusual"
    assert length.surest_first(hole, choices, [*sure[:2], 3 * sure[2]], bias)[0] == (20,)


def test_a_confidence_between_two_lengths_is_between_theirs() -> None:
    assert [BIAS.at(length) for length in (1, 4, 6, 8, 100)] == pytest.approx([0.9, 0.5, 0.4, 0.3, 0.3])


def test_a_model_that_cannot_score_tries_the_lengths_that_it_is_surer_of_than_usual() -> None:
    """Eight of them, which it finishes all."""
    family = BigramFamily("x = area(width, height)\n" * 20)
    request = InfillRequest("r", (Text("x = area(wid"), Hole(single_line=True), Text("ight)\n")), seed=1)
    passes, tokens = [], []
    for bias in (None, LengthBias((1, 5, 6, 24), (0.9, 0.9, 1e-6, 1e-6))):
        family.properties = msgspec.structs.replace(family.properties, length_bias=bias)
        events = list(Engine(family).infill(request))
        passes += [event.stats.steps for event in events if isinstance(event, Done)]
        tokens += [event.tokens for event in events if isinstance(event, Candidate)]
    assert tokens[0] < 6 <= tokens[1], "where almost no confidence is usual, any is a sign"
    assert passes[1] <= passes[0] + 1


def test_what_is_kept_is_used_from_the_next_load_on(found: Checkpoint) -> None:
    assert found.properties.length_bias is None
    assert calibration.keep(found, 9, BIAS) == found.folder / calibration.NAME
    assert registry.find(found.name).properties.length_bias == BIAS


def test_a_checkpoint_of_the_hub_keeps_it_in_the_users_cache(found: Checkpoint, tmp_path: Path) -> None:
    hub = Checkpoint("owner/name", found.folder, found.config, found.properties, found.weight_bytes)
    assert tmp_path / "cache" in calibration.keep(hub, 9, BIAS).parents
    assert calibration.applied(hub).properties.length_bias == BIAS


def test_what_was_measured_on_other_weights_is_not_used(found: Checkpoint) -> None:
    calibration.keep(found, 9, BIAS)
    weights = found.folder / "model.safetensors"
    content = bytearray(weights.read_bytes())
    content[-1] ^= 1
    weights.write_bytes(content)
    assert registry.find(found.name).properties.length_bias is None


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ('{"weights": "", "holes": 1, "length_bias": {"lengths": [4, 1], "confidences": [0.5, 0.5]}}', "rise"),
        ('{"weights": "", "holes": 1, "length_bias": {"lengths": [1], "confidences": [2.0]}}', "confidences"),
        ('{"weights": "", "holes": 1, "length_bias": {"lengths": [], "confidences": []}}', "lengths"),
        ('{"weights": "", "holes": 1, "other": 1, "length_bias": {"lengths": [1], "confidences": [0.5]}}', "other"),
        ("[" * 100_000, "calibration.json"),
        ("not JSON", "calibration.json"),
    ],
)
def test_a_file_that_makes_no_sense_is_named(found: Checkpoint, content: str, words: str) -> None:
    (found.folder / calibration.NAME).write_text(content)
    with pytest.raises(ModelError, match=words) as raised:
        registry.find(found.name)
    assert str(found.folder) in str(raised.value)


def test_the_command_measures_and_keeps(found: Checkpoint, tmp_path: Path) -> None:
    (tmp_path / "one.py").write_text(CODE)
    words = [sys.executable, "-m", "lsp_server.cli", "calibrate", "--model", found.name, "--on", str(tmp_path)]
    done = subprocess.run([*words, "--holes", "2"], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "factor" in done.stdout
    assert str(found.folder / calibration.NAME) in done.stdout
    assert registry.find(found.name).properties.length_bias is not None
    asked = [sys.executable, "-m", "lsp_server.cli", "doctor", "--model", found.name, "--device", "cpu", "--json"]
    checks = json.loads(subprocess.run(asked, capture_output=True, text=True, check=False).stdout)["checks"]
    assert "calibrated" in next(check["found"] for check in checks if check["name"] == "model")


def test_a_checkpoint_that_tells_its_lengths_needs_none(tmp_path: Path) -> None:
    (tmp_path / "one.py").write_text(CODE)
    words = [sys.executable, "-m", "inference.calibration.run", "--model", "embedded", "--on", str(tmp_path)]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert "nothing to calibrate" in done.stderr


def test_a_servers_model_is_measured_where_its_files_are(tmp_path: Path) -> None:
    (tmp_path / "one.py").write_text(CODE)
    words = [sys.executable, "-m", "inference.calibration.run", "--model", "http://localhost:9", "--on", str(tmp_path)]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert "on the machine that has the files" in done.stderr
