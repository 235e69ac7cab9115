"""llama.cpp's own server on the CPU, started for a comparison.

A wheel may hold code for fewer instruction sets than the processor has, so compile a `llama-server` on the machine:

    pip download --no-deps --no-binary :all: llama-cpp-python   # unpack it; it holds llama.cpp in vendor/llama.cpp
    cmake -S vendor/llama.cpp -B build -G Ninja -DCMAKE_BUILD_TYPE=Release -DLLAMA_OPENSSL=OFF
    ninja -C build llama-server
"""

import re
import socket
import subprocess
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

import httpx2
import psutil

START_S = 120
_CONTEXT_TOKENS = "4096"
_SAYS_INFO = "4"
"""The level of its log from which it names the instruction sets."""


class LlamaServer:
    """A running server; `stop` it."""

    def __init__(self, program: Sequence[str], model: str, log: Path, threads: int) -> None:
        """`program`: a llama-server, or a command with its flags. `model`: a GGUF file. `log`: where it writes."""
        self.log = log
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        self.url = f"http://127.0.0.1:{port}"
        words = [*program, "-m", model, "--port", str(port), "-t", str(threads), "-tb", str(threads)]
        words += ["-np", "1", "-c", _CONTEXT_TOKENS, "-lv", _SAYS_INFO]
        self._began = time.perf_counter()
        with log.open("w") as output:
            self._process = subprocess.Popen(words, stdout=output, stderr=output)

    def wait(self) -> float:
        """Until it answers; the seconds since its start. Raises TimeoutError, or RuntimeError where it has ended."""
        while time.perf_counter() < self._began + START_S:
            if self._process.poll() is not None:
                raise RuntimeError(f"llama.cpp's server ended with {self._process.returncode}: {self._last_words()}")
            with suppress(httpx2.HTTPError):
                if httpx2.get(f"{self.url}/health", timeout=5, trust_env=False).is_success:
                    return time.perf_counter() - self._began
            time.sleep(0.1)
        raise TimeoutError(f"llama.cpp's server did not start in {START_S} s: {self._last_words()}")

    @property
    def system_info(self) -> str:
        """Its line about the instruction sets it uses; empty if it wrote none."""
        found = re.search(r"system_info:.*", self.log.read_text(errors="replace"))
        return found[0] if found else ""

    @property
    def memory_mb(self) -> int:
        """Its resident memory, which includes the mapped weights."""
        return int(psutil.Process(self._process.pid).memory_info().rss) >> 20

    def stop(self) -> None:
        self._process.kill()
        self._process.wait()

    def _last_words(self) -> str:
        return self.log.read_text(errors="replace")[-2000:]
