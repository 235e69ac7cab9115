"""A reused prefix equals a fresh encode after any edit, and never disturbs its readers."""

from collections.abc import Sequence

import pytest
import torch

from inference.models.diffusion_gemma.encoded_prefix import EncodedKeysValues, EncodedPrefix, new_prefix_cache
from inference.models.diffusion_gemma.interface import PrefixView
from inference.models.diffusion_gemma.network import DiffusionGemmaNetwork
from inference.models.prefix_cache import PrefixCache
from tests.inference.models.random_model import VOCABULARY_SIZE, WINDOW

LONG = 3 * WINDOW


def tokens(count: int, seed: int = 0) -> list[int]:
    return torch.randint(0, VOCABULARY_SIZE, (count,), generator=torch.Generator().manual_seed(seed)).tolist()


def encoded(
    network: DiffusionGemmaNetwork, cache: PrefixCache[EncodedKeysValues], ids: Sequence[int], chunk: int = 1000
) -> EncodedPrefix:
    prefix = EncodedPrefix(network, cache, ids)
    while prefix.length < len(ids):
        part = ids[prefix.length : prefix.length + chunk]
        network.encode(torch.tensor([list(part)]), prefix)
        prefix.commit(part)
    return prefix


def decoded(network: DiffusionGemmaNetwork, view: PrefixView) -> torch.Tensor:
    return network.decode(torch.arange(8)[None], None, view)


def check_alike(network: DiffusionGemmaNetwork, one: EncodedPrefix, other: EncodedPrefix) -> None:
    torch.testing.assert_close(decoded(network, one.view()), decoded(network, other.view()), rtol=1e-4, atol=1e-4)


def check_equals_fresh(
    network: DiffusionGemmaNetwork, cache: PrefixCache[EncodedKeysValues], ids: Sequence[int], *, reused: int
) -> None:
    prefix = encoded(network, cache, ids)
    fresh = encoded(network, new_prefix_cache(network, 1 << 30), ids)
    assert prefix.reused_tokens == reused
    check_alike(network, prefix, fresh)
    prefix.close()


def edits(ids: list[int]) -> list[tuple[str, list[int], int]]:
    """What a user does to a long prefix, and how many of its tokens stay encoded."""
    middle = len(ids) // 2
    return [
        ("nothing", ids, len(ids)),
        ("a token typed at the end", [*ids, 7], len(ids)),
        ("an edit in the middle", [*ids[:middle], 3, 4, *ids[middle:]], middle),
        ("the end deleted", ids[:-9], len(ids) - 9),
        ("rolled back beyond the window", ids[: len(ids) - WINDOW - 5], len(ids) - WINDOW - 5),
        ("an edit at the start", [3, *ids], 0),
    ]


@pytest.mark.parametrize("index", range(6), ids=[name for name, _, _ in edits(tokens(LONG))])
def test_after_an_edit_the_cache_equals_a_fresh_one(network: DiffusionGemmaNetwork, index: int) -> None:
    cache = new_prefix_cache(network, 1 << 30)
    ids = [token if token not in (3, 7) else 5 for token in tokens(LONG)]
    encoded(network, cache, ids).close()
    _, edited, reused = edits(ids)[index]
    check_equals_fresh(network, cache, edited, reused=reused)


def test_many_edits_in_a_row_keep_equal_to_fresh(network: DiffusionGemmaNetwork) -> None:
    cache, generator = new_prefix_cache(network, 1 << 30), torch.Generator().manual_seed(5)
    ids = tokens(LONG)
    for number in range(12):
        cut = int(torch.randint(1, len(ids), (1,), generator=generator))
        ids = ids[:cut] + tokens(9, seed=100 + number)
        prefix = encoded(network, cache, ids, chunk=5)
        fresh = encoded(network, new_prefix_cache(network, 1 << 30), ids)
        check_alike(network, prefix, fresh)
        prefix.close()


def test_who_reads_a_prefix_is_not_disturbed_by_an_edit_of_it(network: DiffusionGemmaNetwork) -> None:
    cache, ids = new_prefix_cache(network, 1 << 30), tokens(LONG)
    reading = encoded(network, cache, ids)
    view = reading.view()
    before = decoded(network, view).clone()
    edited = encoded(network, cache, ids[:20] + tokens(60, seed=9))
    assert torch.equal(decoded(network, view), before)
    edited.close()
    reading.close()


def test_two_writers_never_share_rows(network: DiffusionGemmaNetwork) -> None:
    cache, ids = new_prefix_cache(network, 1 << 30), tokens(LONG)
    writing = EncodedPrefix(network, cache, ids)
    network.encode(torch.tensor([ids[:30]]), writing)
    writing.commit(ids[:30])
    other = encoded(network, cache, ids[:30] + tokens(10, seed=3))
    network.encode(torch.tensor([ids[30:]]), writing)
    writing.commit(ids[30:])
    fresh = encoded(network, new_prefix_cache(network, 1 << 30), ids)
    check_alike(network, writing, fresh)
    other.close()


def test_the_budget_holds_once_nobody_reads(network: DiffusionGemmaNetwork) -> None:
    cache = new_prefix_cache(network, 0)
    prefix = encoded(network, cache, tokens(LONG))
    assert cache.size_bytes() > 0
    prefix.close()
    assert cache.size_bytes() == 0


def test_the_least_recently_used_goes_first(network: DiffusionGemmaNetwork) -> None:
    probe = new_prefix_cache(network, 1 << 30)
    encoded(network, probe, tokens(LONG)).close()
    cache = new_prefix_cache(network, 2 * probe.size_bytes())
    for seed in (1, 2, 1, 3):
        encoded(network, cache, tokens(LONG, seed=seed)).close()
    check_equals_fresh(network, cache, tokens(LONG, seed=1), reused=LONG)
    check_equals_fresh(network, cache, tokens(LONG, seed=2), reused=0)
