"""Finished and cancelled requests leave nothing behind: after hundreds of them the process has not grown."""

import gc
import random
import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import msgspec
import psutil
import pytest
import torch

from inference.engine.canvas.batch import CanvasBatch, Constraint
from inference.engine.canvas.layout import OPEN_ID, ComposedCanvas
from inference.engine.denoising.denoise import NoiseSource
from inference.engine.denoising.unmask import UnmaskingDenoiser
from inference.engine.engine import Engine
from inference.messages import Hole, InfillRequest, PinnedText
from inference.models import registry
from inference.models.infill_config import SamplerSettings
from tests.inference.loaded import check_nothing_is_open, gemma
from tests.inference.models import random_masked
from tests.inference.models.random_model import save_random_checkpoint

REQUESTS = 700
SETTLED = 300
"""By then the caches are full and the allocator has what it needs."""
CACHE_BYTES = 8 << 20
BOUND_BYTES = 14 << 20
"""A request that kept the 64 kB of its prefix would pass this nearly twice over."""


def resident_bytes() -> int:
    gc.collect()
    return int(psutil.Process().memory_info().rss)


@pytest.fixture
def tiny(tmp_path: Path) -> Engine:
    save_random_checkpoint(tmp_path, layers=2)
    engine = Engine(registry.load_model(str(tmp_path), device="cpu"))
    gemma(engine).prefixes.max_bytes = CACHE_BYTES
    return engine


def play(engine: Engine, number: int, chance: random.Random) -> None:
    text = f"# document {number % 50}\n" + "x" * chance.randrange(40)
    segments = (PinnedText(text), Hole(max_tokens=4), PinnedText("\nafter\n"))
    request = InfillRequest("r", segments, max_steps=2, drafts=True, candidates=chance.randint(1, 2), seed=number)
    run = engine.infill(request)
    events = run
    ending, steps = chance.choice(("done", "cancelled")), chance.randint(1, 4)
    for _ in range(steps):
        next(events, None)
    if ending == "cancelled":
        run.close()
    else:
        for _ in events:
            pass


@pytest.mark.timeout(400)
def test_mixed_requests_leave_the_resident_size_flat(tiny: Engine) -> None:
    chance, before = random.Random(0), 0
    for number in range(REQUESTS):
        play(tiny, number, chance)
        before = resident_bytes() if number == SETTLED else before
    check_nothing_is_open(tiny)
    assert gemma(tiny).prefixes.size_bytes() <= CACHE_BYTES
    assert resident_bytes() - before < BOUND_BYTES


@contextmanager
def peak_bytes() -> Iterator[list[int]]:
    """How much more memory than at its beginning the block had at most; known at its end."""
    gc.collect()
    Path("/proc/self/clear_refs").write_text("5")
    before, found = _most_bytes(), list[int]()
    yield found
    found.append(_most_bytes() - before)


def _most_bytes() -> int:
    return int(re.findall(r"VmHWM:\s+(\d+)", Path("/proc/self/status").read_text())[0]) << 10


ROWS, VOCABULARY = 128, 152_000


@pytest.mark.skipif(sys.platform != "linux", reason="reads how much memory a process had at most")
def test_step_over_a_large_vocabulary_makes_few_copies(tmp_path: Path) -> None:
    random_masked.save_dream(tmp_path, vocab_size=VOCABULARY, num_hidden_layers=1, hidden_size=16, tied=True)
    family = registry.load_model(str(tmp_path), device="cpu", dtype="bfloat16")
    context, canvas = (
        family.open_prefix([7] * 20),
        CanvasBatch.from_canvases([ComposedCanvas((OPEN_ID,) * ROWS, ((0, 0, ROWS),))], family.device),
    )
    constraint = Constraint(torch.zeros(2, VOCABULARY), torch.zeros(ROWS, dtype=torch.long))
    noise = NoiseSource(random_masked.VOCABULARY_SIZE, torch.Generator(), random_masked.MASK)
    for method in ("entropy", "confidence"):
        settings = msgspec.structs.replace(SamplerSettings(), max_steps=8, method=method, top_p=0.9)
        loop = UnmaskingDenoiser(context, canvas, settings, noise, constraint=constraint)
        loop.step()  # what is set up once does not count
        with peak_bytes() as peak:
            loop.step()
        assert peak[0] < 3 * ROWS * VOCABULARY * 4, method
