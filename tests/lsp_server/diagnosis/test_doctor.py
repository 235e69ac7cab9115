"""`infill-ls doctor FILE`: why nothing happens in a real file, or at a place of it; and what a partner can do."""

import asyncio
import json
import os
import re
from pathlib import Path

import pytest

from inference.models.catalogue import ENTRIES
from inference.models.model_store import quantised_folder
from lsp_server import holes
from lsp_server.diagnosis.file_report import examine_file, examine_settings, no_hole_reason
from lsp_server.diagnosis.workers import CheckResult, Grade
from lsp_server.documents.document import Document
from lsp_server.settings.configuration import Configuration
from lsp_server.settings.layers import VARIABLE_PREFIX
from tests.inference.models.test_discovery import DIGEST, manifest, put
from tests.lsp_server.fixtures import with_cursor
from tests.partner_server import partner_server
from tests.workers import checks_of, infill_ls

CODERS = ("qwen2.5-coder-0.5b", "qwen2.5-coder-1.5b")
"""By how fast a machine reads its memory."""


def examined(file: Path, place: str | None = None) -> dict[str, CheckResult]:
    return {check.name: check for check in examine_file(file, place, around(file))}


def around(file: Path) -> Configuration:
    return Configuration({}, os.environ, names=[file])


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A folder that stands for itself, whatever is above it."""
    (tmp_path / "infill-ls.toml").write_text('disabledGlobs = ["gen_*"]\nsecretGlobs = ["mine.py"]\nmarker = "@@"\n')
    return tmp_path


def test_a_file_without_trouble(project: Path) -> None:
    file = project / "a.py"
    file.write_text("x = @@\ny = @@\n")
    found = examined(file, "1:5")
    assert {check.verdict for check in found.values()} == {Grade.OK}
    assert "python, with a grammar" in found["language"].found
    assert "(marker)" in found["hole"].found
    assert examined(file)["hole"].found == "2 marked with @@"


@pytest.mark.parametrize(
    ("name", "text", "place", "found", "advice"),
    [
        (".env", b"A=1", None, "may hold secrets and are never read", "if it names none, rename the file"),
        ("mine.py", b"x = 1", None, "(secretGlobs)", "if it names none, rename the file"),
        ("gen_a.py", b"x = 1", None, "(disabledGlobs)", "if it names none, rename the file"),
        ("gone.py", None, None, "no such file", "check the path"),
        ("a.py", b"\xff\xfe", None, "not UTF-8", "give a text file in UTF-8"),
        ("a.xyz", b"x = 1\n", None, "unknown from the name", ""),
        ("a.py", b"name = 1\n", "1:3", "middle of a word", ""),
        ("a.py", b"name = 1\n", "9:3", "outside the file", "its last line is 2"),
        ("a.py", b"name = 1\n", "1:20", "outside the file", "the last column of line 1 is 9"),
        ("a.py", b"name = 1\n", "nine", "is not LINE:COL", "counted from 1, as in --at 12:5"),
    ],
)
def test_what_keeps_a_file_from_being_filled_is_told(
    project: Path, name: str, text: bytes | None, place: str | None, found: str, advice: str
) -> None:
    file = project / name
    if text is not None:
        file.write_bytes(text)
    checks = examined(file, place)
    check = checks["hole" if place else "language" if name == "a.xyz" else "file"]
    assert check.verdict is (Grade.WARN if name == "a.xyz" else Grade.FAIL)
    assert found in check.found and check.advice and advice in check.advice


def test_a_secret_file_is_not_even_opened(project: Path) -> None:
    """A pipe without a writer: opening it for reading blocks for ever."""
    os.mkfifo(project / "id_rsa")
    assert "may hold secrets" in examined(project / "id_rsa")["file"].found


def test_a_link_to_a_secret_is_told_as_one(project: Path) -> None:
    os.mkfifo(project / "id_rsa")
    (project / "notes.py").symlink_to("id_rsa")
    found = examined(project / "notes.py")["file"]
    assert f"may hold secrets and are never read (it leads to {project / 'id_rsa'})" in found.found


def test_settings_files_variables_and_their_problems_are_told(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (project / "infill-ls.toml").write_text('markr = "@@"\nmodel = "x/y"\n')
    (project / "deep").mkdir()
    monkeypatch.setenv("INFILL_LS_MAX_STEPS", "4")
    monkeypatch.setenv("INFILL_LS_PREFETCH", "perhaps")
    configuration = around(project / "deep" / "a.py")
    first, *problems = examine_settings(configuration)
    assert configuration.settings.max_steps == 4
    assert first.verdict is Grade.OK
    assert str(project / "infill-ls.toml") in first.found and "INFILL_LS_MAX_STEPS" in first.found
    assert [problem.verdict for problem in problems] == [Grade.WARN] * 3
    for said in ("INFILL_LS_PREFETCH: prefetch: Expected", "did you mean 'marker'?", "model is ignored"):
        assert sum(said in problem.found for problem in problems) == 1


def test_a_folder_on_a_network_share_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its URI, on Windows, names a server."""
    for name in [name for name in os.environ if name.startswith(VARIABLE_PREFIX)]:
        monkeypatch.delenv(name)
    (only,) = examine_settings(Configuration({}, {}, None, ["file://server/share"]))
    assert "the defaults (no infill-ls.toml in " in only.found and "server/share" in only.found


@pytest.mark.parametrize("encoding", ["ascii", "utf-8"])
def test_odd_names_are_told_on_any_terminal(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, encoding: str) -> None:
    monkeypatch.setenv("PYTHONIOENCODING", encoding)
    file = tmp_path / "é\x1b[31m\u202e.py"
    file.write_text("x = ???\n")
    done = infill_ls("doctor", str(file), "--device", "cpu")
    assert "Traceback" not in done.stderr and done.returncode == 0
    assert "\\x1b[31m\\u202e.py: 2 lines" in done.stdout
    assert all(each.isprintable() or each == "\n" for each in done.stdout + done.stderr)


def test_the_command_fails_where_a_file_gets_nothing(project: Path) -> None:
    file = project / "gen_a.py"
    file.write_text("x = 1\n")
    done = infill_ls("doctor", str(file), "--json")
    report = json.loads(done.stdout)
    assert (done.returncode, report["healthy"]) == (1, False)
    (failed,) = [check for check in report["checks"] if check["verdict"] == "fail"]
    assert "disabledGlobs" in failed["found"]


def test_a_place_needs_a_file_and_the_schema_is_one_object() -> None:
    done = infill_ls("doctor", "--at", "1:1")
    assert (done.returncode, done.stderr) == (2, "infill-ls: --at LINE:COL needs a FILE\n")
    schema = infill_ls("doctor", "--schema")
    assert schema.returncode == 0
    assert "debounceMs" in json.loads(schema.stdout)["properties"]


def test_without_a_file_the_settings_of_this_folder_count(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (project / "infill-ls.toml").write_text('nextEdit.model = "off"\n')
    monkeypatch.chdir(project)
    checks = checks_of(infill_ls("doctor", "--device", "cpu", "--json"))
    assert checks["settings"]["found"].startswith(str(project / "infill-ls.toml"))
    assert "edit model" not in checks


def without_other_programs(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody has downloaded a model with another program."""
    for name in ("HOME", "XDG_CACHE_HOME", "LLAMA_CACHE", "OLLAMA_MODELS", "HF_HUB_CACHE", "HF_HOME"):
        monkeypatch.setenv(name, str(folder / name))


def ollama_with_coder(folder: Path) -> Path:
    """Ollama's folder with one small model, coder:1b."""
    manifest(folder, "registry.ollama.ai", "library", "coder", "1b")
    put(folder / "blobs" / f"sha256-{DIGEST}")
    return folder


def test_better_model_than_the_embedded_one_is_advised(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    without_other_programs(tmp_path, monkeypatch)
    monkeypatch.setenv("OLLAMA_MODELS", str(ollama_with_coder(tmp_path / "ollama")))
    kept = quantised_folder() / "0123456789abcdef" / "weight.4bit.safetensors"
    kept.parent.mkdir(parents=True)
    kept.write_bytes(bytes(3_000_000))
    checks = checks_of(infill_ls("doctor", "--device", "cpu", "--json"))
    assert checks["quantised weights"]["found"] == f"3 MB in {quantised_folder()}"
    assert checks["model"]["found"].startswith("embedded on cpu float32, ")
    assert "chosen as no other model is on this machine" in checks["model"]["found"]
    name = checks["model"]["advice"].split()[4].rstrip(";")
    assert name in CODERS
    usable = '; or set `model = "coder:1b"` from Ollama, which is already on this machine'
    assert checks["model"]["advice"] == f"run: infill-ls models pull {name}{usable}"


def test_the_models_are_shown_in_lines_and_as_json(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    without_other_programs(tmp_path, monkeypatch)
    monkeypatch.setenv("OLLAMA_MODELS", str(ollama_with_coder(tmp_path / "ollama")))
    shown = infill_ls("models", "--device", "cpu", COLUMNS="40")
    assert shown.returncode == 0
    table = shown.stdout[: shown.stdout.index("\n\n")].splitlines()
    assert max(map(len, table)) <= 80 and "…" not in shown.stdout, "a narrow terminal wraps it"
    suitable = table.index("Suit this machine")
    assert [line.split()[0] for line in table[1:suitable]] == ["Here", "embedded"]
    assert 1 <= table.index("From other programs") - suitable - 1 <= 3 and "dreamon-7b" not in shown.stdout
    rows = {line.split()[0]: line for line in shown.stdout.splitlines() if line.strip()}
    assert 'model = "coder:1b"' in rows["coder:1b"]
    every = infill_ls("models", "--device", "cpu", "--all").stdout
    assert {entry.name for entry in ENTRIES} <= {line.split()[0] for line in every.splitlines() if line.strip()}
    row = " ".join(every.partition("  dreamon-7b ")[2].partition("dream-coder")[0].split())
    assert re.match(r"15\.2 GB (8\.8|17\.5|35\.0) GB Apache-2\.0 ", row), "whichever dtype is faster here"
    assert "infilling 90.8, pass@1: arXiv 2602.01326" in row
    assert re.search(
        r"Best here: (\S+)\. Run: infill-ls models pull \1 .*; or set `model = \"coder:1b\"`", shown.stdout
    )
    assert shown.stderr.startswith("importing torch …\n"), "a pipe shows nothing else for some seconds"
    as_json = infill_ls("models", "--device", "cpu", "--json")
    found = json.loads(as_json.stdout)
    assert not as_json.stderr
    assert found["suitable"][0] == found["recommended"], "a busy machine may be told of another one than above"
    assert {model["name"]: model["is_here"] for model in found["models"]}["embedded"]
    assert {model["name"] for model in found["models"]} == {entry.name for entry in ENTRIES}


@pytest.mark.parametrize(
    ("marked", "said"),
    [
        ("na‸me = 1\n", "middle of a word"),
        ("‸x = 1\n", "code behind the cursor"),
        ("def f():‸\n    return 1\n", "this line already has its block"),
        ("x = ‸\n", None),
        ("f(a, ‸)\n", None),
        ("def f():\n    ‸\n", None),
        ("x = ‸???\n", None),
    ],
)
@pytest.mark.parametrize("language", ["python", "nothing-we-know"])
def test_a_place_without_a_hole_has_a_reason(marked: str, said: str | None, language: str) -> None:
    text, offset = with_cursor(marked)
    why = no_hole_reason(Document("file:///a", language, 1, text).snapshot(), offset, holes.DEFAULT_MARKER)
    if language == "python":
        assert (why is None) == (said is None)
        assert said is None or said in str(why)
    else:
        assert why is None or why.endswith(("go to its end", "or to an empty line"))


TOKEN = "hush-hush-0123456789"


async def test_doctor_shows_what_a_partner_can_do(tmp_path: Path) -> None:
    async with partner_server(kinds=("chat",), token=TOKEN) as server:
        partner = {"INFILL_LS_PARTNER_URL": server.url, "INFILL_LS_PARTNER_TOKEN": TOKEN}
        found = await asyncio.to_thread(infill_ls, "doctor", "--json", folder=tmp_path, **partner)
        about = checks_of(found)
        assert about["partner text goes to"]["found"] == f"{server.url}, on this machine"
        assert about["partner token"]["found"] == "from INFILL_LS_PARTNER_TOKEN"
        assert "asked as chat" in about["partner"]["found"]
        assert server.name in about["partner"]["found"]
        assert about["partner fills"]["found"].startswith("`return sum(numbers) / len(numbers)` in ")
        assert "engine" not in about and "model" in about, "the model of this machine is looked at, too"
        assert TOKEN not in found.stdout + found.stderr


async def test_doctor_asks_a_partner_that_is_the_model(tmp_path: Path) -> None:
    alone = ("doctor", "--model", "partner", "--json")
    async with partner_server(kinds=("infill",)) as server:
        partner = {"INFILL_LS_PARTNER_URL": server.url}
        about = checks_of(await asyncio.to_thread(infill_ls, *alone, folder=tmp_path, **partner))
        assert "asked as infill" in about["partner"]["found"] and "torch" not in about
        wrong = {**partner, "INFILL_LS_PARTNER_KIND": "chat"}
        about = checks_of(await asyncio.to_thread(infill_ls, *alone, folder=tmp_path, **wrong))
        assert about["partner"]["verdict"] == "fail" and "partner.kind" in about["partner"]["advice"]
        server.answer = lambda _: ""
        about = checks_of(await asyncio.to_thread(infill_ls, *alone, folder=tmp_path, **partner))
        assert about["partner fills"]["verdict"] == "warn"
