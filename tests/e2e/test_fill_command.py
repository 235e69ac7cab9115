"""`infill-ls fill` as a user runs it: the real command, worker and model."""

import asyncio
import json
import os
import pty
import re
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from lsp_server.cli import main
from lsp_server.worker.paths import WorkerPaths
from tests.workers import CLI, PATIENCE_S, Finished, RawClient, infill_ls, is_idle

SOURCE = "import os\n\n\ndef size(path):\n    return ???\n\n\nname = ???\n"
FILL = [*CLI, "fill"]
NUMBERS = ("--candidates", "--deadline-ms", "--steps")
MAKES_DO = (
    "infill-ls: the tiny bundled model filled this, because no pulled model runs here; for a real one, run: "
    r"infill-ls models pull qwen2\.5-coder-[\d.]+b\n"
)
"""A pattern: which one suits the machine, is measured there."""


def fill(*arguments: object, **more: Any) -> Finished:
    """Always with one seed: with two of 602 seeds nothing that the embedded model wrote fitted one of the holes."""
    return infill_ls("fill", "--seed", 1, *arguments, **more)


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "sized.py"
    path.write_bytes(SOURCE.encode())
    return path


def refused(capsys: pytest.CaptureFixture[str], *arguments: object, because: str) -> None:
    """In this process: no worker is asked."""
    assert main(["fill", *map(str, arguments)]) == 2
    said = capsys.readouterr()
    assert said.out == ""
    assert because in said.err
    assert said.err.count("\n") == 1


def outside(text: str) -> str:
    """A pattern that matches a text with anything in place of its markers, and nothing else changed."""
    return re.escape(text).replace(re.escape("???"), "(.*)")


def test_piped_it_prints_the_filled_text_and_nothing_else(file: Path) -> None:
    done = fill(file, "--steps", 4)
    assert done.returncode == 0
    assert re.fullmatch(MAKES_DO, done.stderr)
    assert re.fullmatch(outside(SOURCE), done.stdout)
    assert file.read_text() == SOURCE


def test_an_embedded_model_that_was_asked_for_is_no_news(file: Path) -> None:
    done = fill(file, "--model", "embedded", "--steps", 2)
    assert (done.returncode, done.stderr) == (0, "")


def test_places_are_counted_from_1_and_text_goes_out_as_utf_8(file: Path) -> None:
    file.write_text("name = 'é😀'\ny = \n")
    found = json.loads(fill(file, "--at", "2:5", "--json", "--steps", 2, PYTHONIOENCODING="ascii").stdout)
    assert found["holes"][0]["line"] == 2
    assert found["result"].startswith("name = 'é😀'\ny = ")
    assert fill(file, "--at", "2:5", "--steps", 2, PYTHONIOENCODING="ascii").stdout.startswith("name = 'é😀'\n")


def test_dash_fills_what_comes_in_and_prints_it(tmp_path: Path) -> None:
    named = fill("-", "--stdin-filename", tmp_path / "sized.py", "--steps", 4, given=SOURCE)
    assert named.returncode == 0
    assert re.fullmatch(MAKES_DO, named.stderr)
    assert re.fullmatch(outside(SOURCE), named.stdout)
    unnamed = fill("-", "--steps", 2, given="a = 1\r\nb = ???\r\n")
    assert re.fullmatch(outside("a = 1\nb = ???\n"), unnamed.stdout.replace("\r", "")), "unnamed it is plain text"
    assert not list(tmp_path.iterdir())
    diff = fill("-", "--stdin-filename", tmp_path / "sized.py", "--diff", "--steps", 2, given=SOURCE)
    assert diff.stdout.startswith(f"--- a{tmp_path}/sized.py\n")


def test_closed_stdin_and_full_disk_are_one_line_each(file: Path) -> None:
    for words, status, said in (
        ("infill-ls fill - <&-", 2, "standard input is closed"),
        (f"infill-ls fill {file} --seed 1 --steps 1 >/dev/full", 1, "the output cannot be written: No space left"),
        ("infill-ls doctor --schema >/dev/full", 1, "the output cannot be written: No space left"),
        (f"ulimit -f 0; infill-ls fill {file} --model embedded --seed 1 --steps 2 --write", 2, "File too large"),
    ):
        command = words.replace("infill-ls", " ".join(CLI))
        done = subprocess.run(command, shell=True, capture_output=True, text=True, check=False)
        assert (done.returncode, done.stderr.count("\n")) == (status, 1), done.stderr
        assert said in done.stderr
        assert (file.read_text(), list(file.parent.iterdir())) == (SOURCE, [file])


def test_as_json_it_prints_one_object_that_agrees_with_itself(file: Path) -> None:
    answer = json.loads(fill(file, "--json", "--candidates", 3, "--steps", 4).stdout)
    assert set(answer) == {"model", "device", "holes", "candidates", "ms", "result"}
    assert [(hole["line"], hole["column"]) for hole in answer["holes"]] == [(5, 12), (8, 8)]
    assert 1 <= len(answer["candidates"]) <= 3
    assert set(answer["candidates"][0]) == {"texts", "score", "steps", "tokens"}
    texts = [hole["text"] for hole in answer["holes"]]
    assert texts == answer["candidates"][0]["texts"]
    assert answer["result"] == SOURCE.replace("???", "{}").format(*texts)
    assert answer["model"] == "embedded"
    assert answer["ms"] > 0


def test_a_diff_applies_to_the_file(file: Path, tmp_path: Path) -> None:
    done = fill(file, "--diff", "--steps", 4)
    assert done.stdout.startswith(f"--- a{file}\n+++ b{file}\n")
    patch = tmp_path / "patch"
    patch.write_text(re.sub(r"^(---|\+\+\+) .*$", r"\1 sized.py", done.stdout, flags=re.MULTILINE))
    subprocess.run(["git", "apply", "-p0", patch.name], cwd=tmp_path, check=True)
    assert re.fullmatch(outside(SOURCE), file.read_text())


def test_written_back_it_keeps_line_ends_and_permissions(file: Path) -> None:
    source = SOURCE.replace("\n", "\r\n").removesuffix("\r\n")
    file.write_bytes(source.encode())
    file.chmod(0o640)
    assert fill(file, "--write", "--steps", 2).returncode == 0
    assert re.fullmatch(outside(source), file.read_bytes().decode())
    assert file.stat().st_mode & 0o777 == 0o640
    assert list(file.parent.iterdir()) == [file]


@pytest.mark.parametrize(
    ("content", "arguments", "message"),
    [
        (None, (), "no such file"),
        (b"\xff\xfe", (), "not UTF-8"),
        (b"x = 1\n", (), "no hole; write ??? where"),
        (b"x = 1\n", ("--at", "9:1"), "--at 9:1 is outside the file; its last line is 2"),
        (b"x = 1\n", ("--at", "1:99"), "--at 1:99 is outside the file; the last column of line 1 is 6"),
        (b"x = 1\n", ("--at", "0:1"), "counted from 1"),
        (b"word\n", ("--at", "1:3"), "nothing to fill at 1:3"),
        (b"x = ???\n", ("--at", "1:1", "--marker", "!!"), "cannot be combined with --at"),
        (b"x = 1\n", ("--at", "1:" + "9" * 5000), "counted from 1"),
        (b"x = ???\n", ("--marker", ""), "command line: marker: "),
        *((b"x = ???\n", (name, str(n)), ": Expected int") for name in NUMBERS for n in (0, 10**23)),
        (b"x = ???\n", ("--model", "no-such-model"), "no such model"),
        (b"x = ???\n", ("--model", "owner/not-here"), "not on this machine"),
    ],
)
def test_bad_input_exits_2_with_one_line_that_says_what_to_do(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], content: bytes | None, arguments: tuple[str, ...], message: str
) -> None:
    path = tmp_path / "bad.py"
    if content is not None:
        path.write_bytes(content)
    refused(capsys, path, *arguments, because=message)


def test_dash_with_bad_input_says_what_to_do() -> None:
    for arguments, given, message in (
        (("--write",), SOURCE, "--write needs a file"),
        (("--stdin-filename", "/p/.env"), SOURCE, "may hold secrets"),
        ((), "x = 1\n", "no hole"),
        ((), "\udcff", "not UTF-8"),
    ):
        done = fill("-", *arguments, given=given)
        assert (done.returncode, done.stdout, done.stderr.count("\n")) == (2, "", 1)
        assert message in done.stderr


def test_pipes_circles_and_links_elsewhere_are_refused(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.py")
    refused(capsys, tmp_path / "pipe.py", because="not a regular file")
    (tmp_path / "loop.py").symlink_to("loop.py")
    refused(capsys, tmp_path / "loop.py", because="Too many levels of symbolic links")
    for folder in ("one", "two", "two/inside"):
        (tmp_path / folder).mkdir()
    (tmp_path / "one" / "link").symlink_to("../two/inside")
    for folder in ("one", "two"):
        (tmp_path / folder / "x.py").write_text("x = ???\n")
    refused(capsys, tmp_path / "one" / "link" / ".." / "x.py", because="does not lead where it seems")


async def test_a_reader_that_leaves_and_ctrl_c_leave_no_traceback(
    file: Path, tmp_path: Path, resident: WorkerPaths
) -> None:
    watcher, many = await RawClient.open(resident), tmp_path / "many.py"
    many.write_text("value = ???\n" * 200)
    long = [str(many), "--steps", "900", "--candidates", "8"]

    def hear_ctrl_c() -> None:  # which tests that run in the background of a shell ignore
        signal.signal(signal.SIGINT, signal.SIG_DFL)

    for ends, arguments in (("reader leaves", [str(file), "--steps", "2"]), ("ctrl-c", long)):
        pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
        process = subprocess.Popen([*FILL, *arguments], **pipes, preexec_fn=hear_ctrl_c)
        if ends == "reader leaves":
            process.stdout.close()
        else:
            await watcher.becomes(lambda status: status.running > 0)
            process.send_signal(signal.SIGINT)
        assert await asyncio.to_thread(process.wait, PATIENCE_S) == 130
        assert process.stderr.read() == ""
        await watcher.becomes(is_idle)
    watcher.close()


def test_a_folder_with_modules_of_our_names_is_not_run(tmp_path: Path) -> None:
    (tmp_path / "inference" / "bench").mkdir(parents=True)
    for name in ("__init__.py", "bench/__init__.py", "bench/latency.py"):
        (tmp_path / "inference" / name).write_text("print('HIJACKED')\n")
    command = [sys.executable, "-P", "-m", "lsp_server.cli", "bench", "latency", "--help"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=True)
    assert "HIJACKED" not in done.stdout and "latency" in done.stdout


def test_on_a_terminal_the_canvas_settles_before_the_answer(file: Path) -> None:
    leader, follower = pty.openpty()
    command = [*FILL, str(file), "--steps", "6", "--seed", "1"]
    variables = {**os.environ, "TERM": "xterm-256color"}
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=follower, env=variables, text=True)
    os.close(follower)
    shown = b""
    while True:
        try:
            shown += os.read(leader, 65536)
        except OSError:  # the other end is closed
            break
    result, _ = process.communicate()
    assert process.returncode == 0
    assert b"step" in shown and b"\x1b[" in shown
    assert re.fullmatch(outside(SOURCE), result)


def test_the_demo_shows_fills_of_every_kind() -> None:
    command = [sys.executable, Path(__file__).parents[2] / "examples" / "demo.py", "--model", "embedded"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("(embedded on cpu)") == 2
    assert done.stdout.count("\n@@ ") >= 2
