"""The worker as a process: its start, load, failure and end, and its leftovers."""

import asyncio
import os
import re
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from inference.messages import Done, ErrorCode, Hello, Outcome, Status, WorkerState, encode_frame
from inference.models import recommend
from inference.models.catalogue import AUTO, EMBEDDED
from inference.models.family import ModelError
from inference.serving import startup
from inference.serving.engine_thread import load_engine
from inference.serving.log_and_errors import describe_load_failure, is_out_of_memory
from inference.worker import EXIT_REFUSED
from tests.served.to_gguf import main as to_gguf
from tests.workers import RawClient, StartWorker, fill, is_idle, long_fill

NO_MODEL = ("--model", "/nowhere/no-model")
FIM = Path(__file__).parents[1] / "data" / "fim"
SECRET = "the_text_of_a_private_document"


async def test_one_worker_from_start_to_end(start_worker: StartWorker, tmp_path: Path) -> None:
    """It listens at once, answers status while it loads, keeps early requests, finishes what runs, then ends."""
    os.mkfifo(hold := tmp_path / "hold")
    (tmp_path / "held.py").write_text(
        "import os, runpy\n"
        "from inference.serving import engine_thread\n"
        "load = engine_thread.load_engine\n"
        "engine_thread.load_engine = lambda *given: open(os.environ['HOLD']).close() or load(*given)\n"
        "runpy.run_module('inference.worker', run_name='__main__', alter_sys=True)\n"
    )
    worker = start_worker("--idle-s", "60", module="held", PYTHONPATH=f"{tmp_path}", HOLD=f"{hold}")
    client = await worker.connect()
    assert is_private(worker.paths.folder) and is_private(worker.paths.socket)
    client.send(fill("early", path=SECRET), fill("late for a cold start", deadline_ms=100))
    assert (await client.final("late for a cold start")).outcome is Outcome.DEADLINE
    assert (await client.status()).state is WorkerState.LOADING
    hold.write_text("")
    assert isinstance(await client.final("early"), Done)
    await client.becomes(is_idle)

    client.send(long_fill("running", candidates=1, max_steps=30))
    await client.first_draft()
    worker.popen.send_signal(signal.SIGTERM)
    assert (await client.final("running")).outcome is Outcome.COMPLETE
    assert await worker.exit_status() == 0
    assert not worker.paths.socket.exists()
    assert SECRET not in worker.paths.log.read_text()
    assert is_private(worker.paths.log)


@pytest.mark.parametrize("format_", ["safetensors", "gguf"])
def test_weights_cut_off_while_they_load_are_named(tmp_path: Path, format_: str) -> None:
    if format_ == "gguf":
        to_gguf(FIM, weights := tmp_path / "fim.gguf")
        model = weights
    else:
        shutil.copytree(FIM, model := tmp_path / "fim")
        weights = model / "model.safetensors"
    arguments = startup.parse_arguments(
        ["--socket", str(tmp_path / "w.sock"), "--model", str(model), "--device", "cpu"]
    )

    def cut(fraction: float, _what: str) -> None:
        if fraction:
            os.truncate(weights, weights.stat().st_size // 2)

    with pytest.raises(Exception) as caught:
        load_engine(arguments, cut)
    said = describe_load_failure(caught.value, arguments)
    assert str(weights) in said and re.search("not fully covered|shorter", said)


@pytest.mark.parametrize(
    ("model", "kind", "said"),
    [
        ("/nowhere/zeta-2.gguf", "auto", "zeta-2.gguf cannot be read: No such file or directory; give a downloaded"),
        (__file__, "zeta", "is no GGUF file; give"),
        ("/nowhere/chat.gguf", "auto", "chat.gguf cannot be read"),
        (str(FIM), "auto", "is not the name of a Zeta .* set nextEdit.kind"),
        (str(FIM), "zeta-2", r"no token <\[fim-suffix\]>, so it is no zeta-2 model; give one, or change nextEdit.kind"),
        (EMBEDDED, "sweep", "does not write from left to right, so it is no edit model; give"),
        ("sweep-next-edit-1.5b", "auto", "not on this machine; .*run: infill-ls models pull sweep-next-edit-1.5b"),
        (AUTO, "auto", "no pulled edit model runs well here: none is on this machine"),
    ],
)
def test_a_file_that_is_no_edit_model_is_told(tmp_path: Path, model: str, kind: str, said: str) -> None:
    words = ["--socket", str(tmp_path / "w.sock"), "--model", model, "--edits", kind, "--device", "cpu"]
    arguments = startup.parse_arguments(words)
    with pytest.raises(ModelError) as caught:
        if model == AUTO:
            recommend.choose_auto_model("cpu", edits=True)
        load_engine(arguments, lambda _share, _what: None)
    assert re.match(f"nextEdit.model: .*{said}", describe_load_failure(caught.value, arguments))


@pytest.mark.skipif(sys.platform != "linux", reason="limits an address space")
async def test_too_little_memory_is_called_that(start_worker: StartWorker, tmp_path: Path) -> None:
    """Whether torch cannot be loaded, or a library raises an error of its own."""
    limited = tmp_path / "limited.py"
    limited.write_text(
        "import resource, runpy\n"
        "resource.setrlimit(resource.RLIMIT_AS, (400 << 20, 400 << 20))\n"
        "runpy.run_module('inference.worker', run_name='__main__', alter_sys=True)\n"
    )
    worker = start_worker("--idle-s", "60", module="limited", PYTHONPATH=f"{tmp_path}")
    client = await worker.connect()
    status = await client.becomes(lambda status: status.state is WorkerState.FAILED)
    assert "does not fit in memory" in status.detail


def test_an_error_that_hides_too_little_memory_is_called_that() -> None:
    error = ModelError("tokenizer.json cannot be used: ")
    error.__cause__ = MemoryError()
    assert is_out_of_memory(error)
    assert not is_out_of_memory(ImportError("libx.so: cannot allocate memory in static TLS block"))


@pytest.mark.skipif(sys.platform != "linux", reason="glibc's allocator")
def test_freed_memory_goes_back_to_the_system() -> None:
    """Even if small blocks that stay lie between the freed ones."""
    code = (
        "import numpy\n"
        "from inference.serving.startup import limit_heap\n"
        "limit_heap()\n"
        "def resident(): return int(open('/proc/self/statm').read().split()[1]) * 4096\n"
        "numpy.ones(3 << 17)\n"
        "blocks = [(numpy.ones(3 << 17), numpy.ones(1 << 12)) for _ in range(50)]\n"
        "full, stays = resident(), [small for _, small in blocks]\n"
        "del blocks\n"
        "print(full - resident())\n"
    )
    freed = int(subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout)
    assert freed > 100 << 20  # of 150


def test_what_a_model_warns_of_goes_to_the_log_and_not_to_stderr(tmp_path: Path) -> None:
    """The last line of stderr is taken for the reason why a worker ended."""
    code = (
        "import logging, pathlib\n"
        "from inference.serving.log_and_errors import set_up_log\n"
        f"set_up_log(pathlib.Path({str(tmp_path / 'log')!r}))\n"
        "logging.getLogger('inference.models.cuda_graphs').warning('a slower pass runs')\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stderr == ""
    assert "WARNING a slower pass runs" in (tmp_path / "log").read_text()


async def test_failed_load_is_reported_and_ends_the_worker(start_worker: StartWorker) -> None:
    worker = start_worker(*NO_MODEL)
    client = await worker.connect()
    client.send(fill("pending"))
    while not (isinstance(status := await client.receive(), Status) and status.state is WorkerState.FAILED):
        pass
    reply = await client.final("pending")
    assert (reply.code, reply.message) == (ErrorCode.MODEL, status.detail)
    assert "/nowhere/no-model" in reply.message
    assert await worker.exit_status() == 1
    assert not worker.paths.socket.exists()
    (await start_worker(*NO_MODEL, folder=worker.paths.folder).connect()).close()


async def test_it_ends_only_when_idle_without_clients_or_loading(
    start_worker: StartWorker,
) -> None:
    worker = start_worker("--idle-s", "1.5")
    client = await worker.connect()
    worker.popen.send_signal(signal.SIGSTOP)  # a model of 50 GB takes so long by itself
    await asyncio.sleep(2)
    worker.popen.send_signal(signal.SIGCONT)
    await client.becomes(is_idle)
    second = await worker.connect()
    client.close()
    second.send(fill("first"))
    assert isinstance(await second.final("first"), Done)
    await asyncio.sleep(2)
    assert (await second.status()).state is WorkerState.READY
    second.close()
    assert await worker.exit_status() == 0


async def test_a_folder_that_is_not_private_is_refused(start_worker: StartWorker, tmp_path: Path) -> None:
    """`tests/lsp_server/worker/test_paths.py` has what else is not private."""
    folder = tmp_path / "run"
    folder.mkdir(mode=0o755)
    worker = start_worker(folder=folder)
    assert await worker.exit_status() == EXIT_REFUSED
    assert str(folder) in worker.stderr and "Traceback" not in worker.stderr


async def test_over_tcp_only_the_token_opens(start_worker: StartWorker) -> None:
    worker = start_worker("--transport", "tcp")
    client = await worker.connect()
    assert (await client.status()).pid == worker.popen.pid
    assert is_private(worker.paths.socket)
    for token in ("", "wrong", "é" * 32, client.stream.token[:-1]):
        stranger = await RawClient.open(worker.paths, greet=False)
        stranger.send_bytes(encode_frame(Hello(token=token)))
        assert (await stranger.receive()).code is ErrorCode.WRONG_TOKEN
        assert await stranger.is_closed()
    client.send(fill("x"))
    assert isinstance(await client.final("x"), Done)
    worker.popen.send_signal(signal.SIGTERM)
    assert await worker.exit_status() == 0
    assert not worker.paths.socket.exists()


def is_private(path: Path) -> bool:
    return path.stat().st_mode & 0o077 == 0
