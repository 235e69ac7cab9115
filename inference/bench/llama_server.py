"""llama.cpp's own server on the CPU, started for a comparison: a `llama-server` program, or a Python with xllamacpp.

A wheel may hold code for fewer instruction sets than the processor has, so compile a `llama-server` on the machine:

    pip download --no-deps --no-binary :all: llama-cpp-python   # unpack it; it holds llama.cpp in vendor/llama.cpp
    cmake -S vendor/llama.cpp -B build -G Ninja -DCMAKE_BUILD_TYPE=Release -DLLAMA_OPENSSL=OFF
    ninja -C build llama-server
"""

import os
import re
import signal
import socket
import subprocess
import time
from contextlib import suppress
from pathlib import Path

import httpx2
import psutil

START_S = 120
_CONTEXT_TOKENS = 4096
_SAYS_INFO = "4"
"""The level of its log from which it names the instruction sets."""
_WHEEL = """
import sys, threading, xllamacpp
params = xllamacpp.CommonParams()
params.model.path, params.port, params.model_alias = sys.argv[1], int(sys.argv[2]), {sys.argv[3]}
params.cpuparams.n_threads = params.cpuparams_batch.n_threads = int(sys.argv[4])
params.n_parallel, params.n_ctx = int(sys.argv[5]), int(sys.argv[6])
print("system_info:", xllamacpp.get_system_info(), flush=True)
server = xllamacpp.Server(params)
threading.Event().wait()
"""


class LlamaServer:
    """A running server; `stop` it."""

    def __init__(
        self, program: Path, model: str, log: Path, *, threads: int, name: str = "model", slots: int = 1
    ) -> None:
        """`program`: llama-server, or a Python. `model`: a GGUF file, served as `name`. `log`: where it writes."""
        self.log = log
        self._began = time.perf_counter()
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        self.url = f"http://127.0.0.1:{port}"
        context = str(_CONTEXT_TOKENS)
        if program.name.startswith("python"):
            words = ["-c", _WHEEL, model, str(port), name, str(threads), str(slots), context]
        else:
            words = ["-m", model, "--port", str(port), "-a", name, "-t", str(threads), "-tb", str(threads)]
            words += ["-np", str(slots), "-c", context, "-lv", _SAYS_INFO]
        with log.open("w") as output:
            self._process = subprocess.Popen(
                [str(program), *words], stdout=output, stderr=output, start_new_session=True
            )

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
        with suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()

    def _last_words(self) -> str:
        return self.log.read_text(errors="replace")[-2000:]
