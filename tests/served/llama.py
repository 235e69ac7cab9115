"""llama.cpp's own server on the CPU, from the package xllamacpp, which install.sh puts beside vLLM: FOLDER/llama.

It serves the GGUF file that `INFILL_TEST_GGUF` names, else Qwen2.5-Coder 0.5B, which `make test-served` gets.
`INFILL_TEST_LLAMA` names another environment with the package.
"""

import os
from pathlib import Path

from inference.bench.server_process import ModelServerProcess, start_llama_server
from inference.models import model_store
from inference.models.catalogue import MODEL_FOR_NEW_USERS


def _pulled() -> str | None:
    found = model_store.find_model(MODEL_FOR_NEW_USERS)
    return next((str(file) for file in [found, *found.glob("*.gguf")] if file.is_file()), None) if found else None


_WHEEL = """
import argparse, threading, xllamacpp
parser = argparse.ArgumentParser()
for name in ("-m", "--port", "-t", "-tb", "-c"):
    parser.add_argument(name)
flags, _ = parser.parse_known_args()
params = xllamacpp.CommonParams()
params.model.path, params.port, params.model_alias = flags.m, int(flags.port), {"small"}
params.cpuparams.n_threads = params.cpuparams_batch.n_threads = int(flags.t)
params.n_parallel, params.n_ctx = 2, int(flags.c)
server = xllamacpp.Server(params)
threading.Event().wait()
"""
"""The same flags as of a llama-server, as far as the tests need them."""
VARIABLE = "INFILL_TEST_LLAMA"
_VLLM = os.environ.get("INFILL_TEST_VLLM")
FOLDER = Path(os.environ.get(VARIABLE) or (f"{_VLLM}/llama" if _VLLM else "/nowhere"))
PYTHON = FOLDER / "bin" / "python"
MODEL = os.environ.get("INFILL_TEST_GGUF") or _pulled()
NAME = "small"


def serve(scratch: Path) -> ModelServerProcess:
    """With `MODEL`, which must be here."""
    return start_llama_server([str(PYTHON), "-c", _WHEEL], str(MODEL), scratch / "llama.log", threads=1)


if __name__ == "__main__":
    print(MODEL or "")
