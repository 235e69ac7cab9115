"""Requests that end, are cancelled or amended leave nothing behind: 2,000 of them, and the process is no larger."""

import gc
import random
from pathlib import Path

import psutil
import pytest

from inference.engine import Engine
from inference.messages import Draft, Hole, InfillRequest, Text
from inference.models import registry
from tests.inference.loaded import check_nothing_is_open, gemma, opened
from tests.inference.models.random_model import save_random_checkpoint

REQUESTS = 2000
SETTLED = 500
"""By then the caches are full and the allocator has what it needs."""
CACHE_BYTES = 8 << 20
BOUND_BYTES = 24 << 20
"""A request that kept the 64 kB of its prefix would pass this three times over."""

PREFIXES = 120
KEPT_BYTES = 200 << 20
"""Whole prefixes of the embedded model take 2.4 MB each: all of them would be 283 MB."""


def resident_bytes() -> int:
    gc.collect()
    return int(psutil.Process().memory_info().rss)


@pytest.fixture
def tiny(tmp_path: Path) -> Engine:
    """The smallest engine there is, with a cache that is soon full."""
    save_random_checkpoint(tmp_path, layers=2)
    engine = Engine(registry.load(str(tmp_path), device="cpu"))
    gemma(engine).prefixes.budget_bytes = CACHE_BYTES
    return engine


def play(engine: Engine, number: int, chance: random.Random) -> None:
    """One request on one of many documents: run to its end, cancelled after some steps, or amended."""
    text = f"# document {number % 50}\n" + "x" * chance.randrange(40)
    segments = (Text(text), Hole(max_tokens=4), Text("\nafter\n"))
    request = InfillRequest("r", segments, max_steps=2, drafts=True, candidates=chance.randint(1, 2), seed=number)
    run = engine.infill(request)
    events = run
    ending, steps = chance.choice(("done", "cancelled", "amended")), chance.randint(1, 4)
    for _ in range(steps):
        event = next(events, None)
        if ending == "amended" and isinstance(event, Draft):
            run.amend(0, chance.choice((event.texts[0][:1], "zz")))
    if ending == "cancelled":
        run.close()
    else:
        for _ in events:
            pass


@pytest.mark.timeout(400)
def test_2000_mixed_requests_leave_the_resident_size_flat(tiny: Engine) -> None:
    chance, before = random.Random(0), 0
    for number in range(REQUESTS):
        play(tiny, number, chance)
        before = resident_bytes() if number == SETTLED else before
    check_nothing_is_open(tiny)
    assert gemma(tiny).prefixes.size_bytes() <= CACHE_BYTES
    assert resident_bytes() - before < BOUND_BYTES


def test_many_prefixes_of_the_embedded_model_take_no_more_than_a_few(embedded: Engine) -> None:
    """As a day of typing in many files leaves them."""
    for _ in embedded.infill(InfillRequest("r", (Text("x = "), Hole(max_tokens=4)), max_steps=1)):
        pass
    before = resident_bytes()
    for number in range(PREFIXES):
        with opened(embedded, [5 + (number * 7 + place * 13) % 4000 for place in range(256)]):
            pass
    check_nothing_is_open(embedded)
    assert resident_bytes() - before < KEPT_BYTES
