"""A real vLLM on the CPU."""

import asyncio
import os
import re
from collections.abc import Sequence
from pathlib import Path
from urllib.request import urlopen

from inference.bench.server_process import ModelServerProcess
from tests.workers import poll

ENVIRONMENT = Path(os.environ.get("INFILL_TEST_VLLM", Path(__file__).parents[2] / ".venv-vllm"))
START_S = 300.0
FIM = Path(__file__).parents[1] / "data" / "fim"
FIM_NAME, OTHER_NAME = "qwen2.5-coder-3.8m", "somebody's"
"""What it serves that checkpoint as: a name that tells of the model's tokens, and one that does not."""
_LIKE_A_CPU = {
    "VLLM_USE_V2_MODEL_RUNNER": "1",
    "VLLM_CPU_KVCACHE_SPACE": "1",
    "VLLM_CPU_OMP_THREADS_BIND": "nobind",
    "TRITON_INTERPRET": "1",
    "TORCHDYNAMO_DISABLE": "1",  # or the first request of each shape is compiled for half a minute
    "OMP_NUM_THREADS": "1",
    "HF_HUB_OFFLINE": "1",
    "VLLM_NO_USAGE_STATS": "1",
    "DO_NOT_TRACK": "1",
}
_FLAGS = (
    *("--host", "127.0.0.1", "--dtype", "float32", "--max-model-len", "2048"),
    *("--max-num-seqs", "8", "--enforce-eager", "--block-size", "64"),
)
DIFFUSION = (
    *("--served-model-name", "infill", "--limit-mm-per-prompt", '{"image":0,"video":0}'),
    *("--diffusion-config", '{"canvas_length":64,"max_denoising_steps":16}', "--enable-prompt-tokens-details"),
)
"""What the twin is served with."""


class Vllm(ModelServerProcess):
    def __init__(self, checkpoint: Path, log: Path, flags: Sequence[str] = DIFFUSION) -> None:
        words = [str(ENVIRONMENT / "bin" / "vllm"), "serve", str(checkpoint), *_FLAGS, *flags]
        super().__init__(words, log, start_s=START_S, **_LIKE_A_CPU)

    def metric(self, name: str, **labels: str) -> float:
        """The sum of a metric over what has these labels."""
        with urlopen(f"{self.url}/metrics", timeout=60) as answer:
            text = answer.read().decode()
        total = 0.0
        for line in text.splitlines():
            found = re.fullmatch(rf"vllm:{name}{{(.*)}} (\S+)", line)
            if found and all(f'{key}="{value}"' in found[1] for key, value in labels.items()):
                total += float(found[2])
        return total

    async def until(self, name: str, wanted: float, **labels: str) -> None:
        await poll(lambda: asyncio.to_thread(self.metric, name, **labels), lambda value: value >= wanted)

    async def until_idle(self) -> None:
        await poll(lambda: asyncio.to_thread(self.metric, "num_requests_running"), lambda running: not running)
