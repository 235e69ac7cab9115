"""llama.cpp's own server on the CPU, from the package xllamacpp, which install.sh puts beside vLLM: FOLDER/llama.

It serves the GGUF file that `INFILL_TEST_GGUF` names, else Qwen2.5-Coder 0.5B, which `make test-served` pulls.
`INFILL_TEST_LLAMA` names another environment with the package.
"""

import os
import signal
import socket
import subprocess
import time
from contextlib import suppress
from pathlib import Path
from urllib.request import urlopen

from inference.models import downloads
from inference.models.catalogue import FIRST


def _pulled() -> str | None:
    found = downloads.find(FIRST)
    return next((str(file) for file in [found, *found.glob("*.gguf")] if file.is_file()), None) if found else None


VARIABLE = "INFILL_TEST_LLAMA"
_VLLM = os.environ.get("INFILL_TEST_VLLM")
FOLDER = Path(os.environ.get(VARIABLE) or (f"{_VLLM}/llama" if _VLLM else "/nowhere"))
PYTHON = FOLDER / "bin" / "python"
MODEL = os.environ.get("INFILL_TEST_GGUF") or _pulled()
START_S = 120
NAME = "small"
_SERVE = """
import sys, threading, xllamacpp
params = xllamacpp.CommonParams()
params.model.path, params.port, params.n_ctx, params.n_parallel = sys.argv[1], int(sys.argv[2]), 4096, 2
params.model_alias = {sys.argv[3]}
params.cpuparams.n_threads = params.cpuparams_batch.n_threads = 1
server = xllamacpp.Server(params)
threading.Event().wait()
"""


class Llama:
    def __init__(self, scratch: Path) -> None:
        """With `MODEL`, which must be here."""
        self.log = scratch / "llama.log"
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        self.url = f"http://127.0.0.1:{port}"
        words = [str(PYTHON), "-c", _SERVE, str(MODEL), str(port), NAME]
        with self.log.open("w") as output:
            self._process = subprocess.Popen(words, stdout=output, stderr=output, start_new_session=True)

    def wait(self) -> None:
        """Until it answers. Raises TimeoutError, or RuntimeError where it has ended."""
        for _ in range(START_S):
            if self._process.poll() is not None:
                raise RuntimeError(f"llama.cpp's server ended with {self._process.returncode}: {self._last_words()}")
            with suppress(OSError), urlopen(f"{self.url}/health", timeout=5) as answer:
                if answer.status == 200:
                    return
            time.sleep(1)
        raise TimeoutError(f"llama.cpp's server did not start in {START_S} s: {self._last_words()}")

    def stop(self) -> None:
        with suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()

    def _last_words(self) -> str:
        return self.log.read_text(errors="replace")[-2000:]


if __name__ == "__main__":
    print(MODEL or "")
