"""The approximate cache of masked-diffusion models, against computing every row at each step.

Of a network of one layer keys and values depend on a row's own token and position alone, so there the cache is exact:
that shows that rows are found, moved and replaced as they should be.
"""

from pathlib import Path

import pytest
import torch

from inference.engine.engine import Engine
from inference.messages import Hole
from inference.models import registry
from inference.models.family import ModelAdapter, PrefixHandle
from tests.inference.engine.filling import fill
from tests.inference.models import random_masked
from tests.inference.models.exact_masked import load_exact
from tests.inference.models.random_masked import MASK

PREFIX = [(31 * number) % 250 for number in range(40)]
SUFFIX = [(17 * number + 5) % 250 for number in range(30)]
SAVED = {"shifted": random_masked.save_dream, "in place": random_masked.save_mdlm}


@pytest.fixture(scope="module", params=SAVED)
def one_layer(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("one-layer")
    SAVED[request.param](folder, num_hidden_layers=1)
    return folder


@pytest.fixture(scope="module", params=SAVED)
def deep(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("deep")
    SAVED[request.param](folder)
    return folder


def both(folder: Path) -> tuple[ModelAdapter, ModelAdapter]:
    return registry.load_model(str(folder), device="cpu", dtype="float32"), load_exact(folder)


def canvas(masks: int, *, written: tuple[int, ...] = (), suffix: int = len(SUFFIX)) -> list[int]:
    return [*written, *[MASK] * masks, *SUFFIX[:suffix]]


def check(contexts: tuple[PrefixHandle, PrefixHandle], *canvases: list[int]) -> None:
    width = max(map(len, canvases))
    ids = torch.tensor([[*one, *[0] * (width - len(one))] for one in canvases])
    valid = torch.tensor([[*[True] * len(one), *[False] * (width - len(one))] for one in canvases])
    rows = ((ids == MASK) & valid).flatten().nonzero()[:, 0]
    found, wanted = (one.predict(ids, rows, valid=None if bool(valid.all()) else valid) for one in contexts)
    torch.testing.assert_close(found, wanted, atol=2e-3, rtol=1e-3)


def opened(families: tuple[ModelAdapter, ModelAdapter], prefix: list[int]) -> tuple[PrefixHandle, PrefixHandle]:
    cached, exact = (family.open_prefix(prefix) for family in families)
    return cached, exact


@pytest.mark.parametrize("prefix", [PREFIX, [], PREFIX[:1]], ids=["prefix", "no prefix", "one token"])
def test_of_one_layer_all_that_is_kept_is_exact(one_layer: Path, prefix: list[int]) -> None:
    contexts = opened(both(one_layer), prefix)
    check(contexts, canvas(5))
    check(contexts, canvas(3, written=(9, 8)))  # two rows written
    check(contexts, canvas(4, written=(9, 8)))  # one expands
    check(contexts, canvas(2, written=(9, 8)))  # two are taken out
    check(contexts, canvas(2, written=(9, 8), suffix=20))  # another width
    contexts[0].close()


def test_of_one_layer_canvases_of_several_lengths_are_exact(one_layer: Path) -> None:
    contexts = opened(both(one_layer), PREFIX)
    check(contexts, *(canvas(masks, suffix=12) for masks in (2, 5, 9)))
    check(contexts, *(canvas(masks - 1, written=(7,), suffix=12) for masks in (2, 5, 9)))
    check(contexts, *(canvas(masks - 1, written=(7,)) for masks in (9, 5)))  # one dropped, the whole suffix
    for _ in range(10):
        check(contexts, *(canvas(masks - 1, written=(7,)) for masks in (9, 5)))  # past a refresh


def test_of_one_layer_the_next_requests_are_exact(one_layer: Path) -> None:
    families, reused = both(one_layer), []
    for prefix in (PREFIX, [*PREFIX, 5], [*PREFIX, 5, 6, 7], PREFIX[:-3], [3, *PREFIX], PREFIX):
        contexts = opened(families, prefix)
        reused.append(contexts[0].reused_tokens)
        check(contexts, canvas(4))
        check(contexts, canvas(3, written=(9,)))
        contexts[0].close()
    assert reused[0] == 0
    assert min(reused[1], reused[2]) >= len(PREFIX) - 16


def test_with_every_row_asked_for_a_refresh_is_all_that_is_kept(deep: Path) -> None:
    """Deep networks: not exact, but near, and no drift from step to step."""
    cached, exact = opened(both(deep), PREFIX)
    ids = torch.tensor([canvas(6)])
    for step in range(5):
        rows = (ids[0] == MASK).nonzero()[:, 0]
        found, wanted = cached.predict(ids, rows), exact.predict(ids, rows)
        likeness = torch.nn.functional.cosine_similarity(found.flatten(), wanted.flatten(), dim=0)
        assert likeness > 0.8, f"step {step}"
        ids[0, rows[0]] = int(wanted[0].argmax())


def test_of_one_layer_fills_are_those_of_the_exact_model(one_layer: Path) -> None:
    families = both(one_layer)
    for typed in ("", "n", "nu", "num"):
        segments = (f"def f(x):\n    {typed}", Hole(max_tokens=9, single_line=True), "\n\nprint(f(1))\n")
        found, wanted = (fill(Engine(family), *segments, seed=1, candidates=4).candidates for family in families)
        assert [one.texts for one in found] == [one.texts for one in wanted]


def test_what_a_request_reuses_is_in_its_statistics(deep: Path) -> None:
    family = registry.load_model(str(deep), device="cpu", dtype="float32")
    before = "def area(width, height):\n    return width"
    for typed, reuses in (("", False), (" *", True)):
        done = fill(Engine(family), before + typed, Hole(max_tokens=4), "\n", seed=1).done
        assert (done.stats.reused_tokens > len(before) // 2) is reuses
