"""The engine on CUDA: the same guarantees as on the CPU, and the released shape near its bandwidth floor.

Skipped without a CUDA device; nothing else in the tests needs one.
"""

import json
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from inference.engine.engine import Engine
from inference.messages import FilledHoles, Hole, InfillRequest, PinnedText
from inference.models import registry
from inference.models.cuda_graphs import CudaGraphCapturer
from inference.models.diffusion_gemma.cuda_graphs import CudaGraphNetwork
from inference.models.diffusion_gemma.encoded_prefix import EncodedPrefix, new_prefix_cache
from inference.models.diffusion_gemma.network import DiffusionGemmaNetwork
from inference.models.fim.adapter import LlamaFimAdapter
from inference.models.infill_config import SamplerSettings
from tests.inference.engine.test_parity import CANVASES, PREFIX_TOKENS, ours, prompt
from tests.inference.models.fim.checkpoints import greedy, loaded, random_checkpoint
from tests.inference.models.random_model import random_model, save_random_checkpoint

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device on this machine"),
    pytest.mark.timeout(900),
]
RELEASED_BYTES = 64 << 30
NEAR_FLOOR = (0.9, 2.0)
"""How many times the reading of its weights a step may take: less is an error of measurement, more means that the GPU
waits, for Python or for copies. An H200 takes 1.9."""


@pytest.fixture(scope="module", params=["float32", "bfloat16", "4bit"])
def engine(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Engine:
    folder = tmp_path_factory.mktemp("random-checkpoint")
    save_random_checkpoint(folder)
    with pytest.MonkeyPatch.context() as environment:
        environment.setenv("XDG_CACHE_HOME", str(folder / "cache"))
        return Engine(registry.load_model(str(folder), device="cuda", dtype=request.param))


@pytest.mark.parametrize("seed", range(3))
def test_tokens_equal_those_of_generate_on_the_device(seed: int) -> None:
    model = random_model().to("cuda")
    ids = prompt(seed).to("cuda")
    torch.manual_seed(seed)
    theirs = model.generate(ids, max_new_tokens=CANVASES * 16, max_denoising_steps=12)
    settings = SamplerSettings(max_steps=12)
    tokens, _ = ours(DiffusionGemmaNetwork(model), ids[0].tolist(), settings, seed)
    assert tokens == theirs.sequences[0, PREFIX_TOKENS:].tolist()


def test_holes_are_filled_with_every_constraint_held(engine: Engine) -> None:
    line = Hole(max_tokens=6, single_line=True)
    segments = (PinnedText("a ="), line, PinnedText("\nb ="), Hole(starts_with=" x"), PinnedText("\n"))
    request = InfillRequest("r", segments, candidates=4, max_steps=6, seed=1)
    candidates = [event for event in engine.infill(request) if isinstance(event, FilledHoles)]
    assert candidates
    for candidate in candidates:
        assert "\n" not in candidate.texts[0]
        assert candidate.texts[1].startswith(" x")


def test_a_reused_prefix_gives_the_same_answer(engine: Engine) -> None:
    request = InfillRequest(
        "r", (PinnedText("value = 1\n" * 40 + "b ="), Hole(max_tokens=6), PinnedText("\n")), max_steps=4, seed=1
    )
    first, again = ([e.texts for e in engine.infill(request) if isinstance(e, FilledHoles)] for _ in range(2))
    assert first == again


def test_the_released_shape_steps_near_its_bandwidth_floor(tmp_path: Path) -> None:
    if torch.cuda.mem_get_info()[0] < RELEASED_BYTES:
        pytest.skip("the released shape needs 64 GB of free GPU memory")
    command = [sys.executable, "-m", "inference.bench", "latency", "--random", "26b"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    result = json.loads(done.stdout.splitlines()[-1])
    (tmp_path / "latency.json").write_text(done.stdout)
    floor = result["floor"]
    least, most = NEAR_FLOOR
    assert least <= floor["times_floor"] <= most, floor


def test_recorded_shapes_share_their_memory() -> None:
    """What is recorded after the largest shape takes its own input and result, and finds scratch memory in the pool.

    An allocator's pieces are up to 20 MB: on an H200 30 recordings took 26 MB each, of which 17 are their own.
    """
    model = random_model().to("cuda", torch.bfloat16)
    model.set_experts_implementation("grouped_mm")
    network = CudaGraphNetwork(model, CudaGraphCapturer())
    prefix = EncodedPrefix(network, new_prefix_cache(network, 0), [])
    network.encode(torch.arange(40, device="cuda")[None], prefix)
    prefix.commit(list(range(40)))

    def reserved_by(batch: int) -> int:
        before = torch.cuda.memory_reserved()
        network.decode(torch.zeros((batch, 256), dtype=torch.long, device="cuda"), None, prefix.view())
        while network.run_idle_task():
            pass
        torch.cuda.synchronize()
        return torch.cuda.memory_reserved() - before

    largest = reserved_by(256)
    assert network.captured_shapes
    assert largest > 0
    first = len(network.captured_shapes)
    reserved = sum(reserved_by(batch) for batch in range(250, 256))
    own = 2 * 256 * 256 * network.hidden_size * network.dtype.itemsize
    assert reserved <= 2 * own * (len(network.captured_shapes) - first)


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "8bit"])
def test_a_model_that_fills_the_middle_writes_as_on_a_cpu(tmp_path: Path, dtype: str) -> None:
    """By plain passes and by captured ones. In bfloat16 a passage may part from the CPU's after some tokens."""
    folder = random_checkpoint(tmp_path / "model", "qwen2")
    ids = list(range(110, 150))  # behind which one token is the likeliest by far
    on_cpu = greedy(loaded(folder), ids, 8)
    on_device = registry.load_model(str(folder), device="cuda", dtype=dtype)
    assert isinstance(on_device, LlamaFimAdapter)
    same = 8 if dtype == "float32" else 1
    for _ in range(2):
        assert greedy(on_device, ids, 8)[:same] == on_cpu[:same]
        while on_device.run_idle_task():
            pass
        assert vars(on_device.network)["capturer"].note == ""
