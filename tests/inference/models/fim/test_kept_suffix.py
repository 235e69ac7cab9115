"""A suffix whose rows are kept when lines come or go before it: which tokens are read, and what becomes of the rows."""

import pytest
import torch

from inference.engine.engine import Engine
from inference.models.fim.adapter import LlamaFimAdapter
from inference.models.fim.kept_suffix import KEEP_SUFFIX_VARIABLE
from tests.inference.engine.filling import fill, line, request
from tests.inference.models.fim.checkpoints import loaded

PREFIX = "def add(first, second):\n    total = first\n"
SUFFIX = "".join(f"\n\ndef number_{index}(value):\n    return value + {index}\n" for index in range(16))


@pytest.fixture
def family(monkeypatch: pytest.MonkeyPatch) -> LlamaFimAdapter:
    """A model that has read one prompt."""
    monkeypatch.setenv(KEEP_SUFFIX_VARIABLE, "1")
    family = loaded()
    read(family, PREFIX, SUFFIX)
    return family


@pytest.fixture
def fresh(monkeypatch: pytest.MonkeyPatch) -> LlamaFimAdapter:
    """One that keeps no suffix."""
    monkeypatch.setenv(KEEP_SUFFIX_VARIABLE, "0")
    return loaded()


def read(family: LlamaFimAdapter, prefix: str, suffix: str) -> tuple[int, torch.Tensor]:
    """How many tokens of the prompt were read, and the logits behind it."""
    ids = family.fim_prompt(prefix, suffix)
    context = family.open_prefix(ids)
    list(context.prefill())
    logits = context.continuation(8).decode(torch.empty(1, 0, dtype=torch.long))
    context.close()
    return len(ids) - context.reused_tokens, logits


def lines(count: int) -> str:
    return "".join(f"    total += {index}\n" for index in range(count))


def drop_lines(text: str, count: int) -> str:
    return "".join(text.splitlines(keepends=True)[count:])


@pytest.mark.parametrize("added", [1, 8])
def test_only_new_text_and_the_start_of_the_suffix_are_read(family: LlamaFimAdapter, added: int) -> None:
    """More of the start when the rest moves further."""
    new = len(family.fim_prompt(lines(added), ""))
    count, _ = read(family, PREFIX + lines(added), SUFFIX)
    assert count < new + 32 + 8 * added < len(family.fim_prompt("", SUFFIX))


def test_rows_are_those_of_the_new_positions(family: LlamaFimAdapter, fresh: LlamaFimAdapter) -> None:
    """In the first layer they do not depend on the text before."""
    read(family, PREFIX + lines(2), SUFFIX)
    kept = family.prefixes.entries[0]
    assert kept.approximate_from is not None
    assert kept.drift_lines == 2
    read(fresh, PREFIX + lines(2), SUFFIX)
    exact = fresh.prefixes.entries[0]
    assert exact.ids == kept.ids
    length = len(kept.ids)
    torch.testing.assert_close(
        kept.keys_values[0, ..., :length, :], exact.keys_values[0, ..., :length, :], atol=1e-4, rtol=1e-3
    )
    assert not torch.equal(kept.keys_values[-1, ..., :length, :], exact.keys_values[-1, ..., :length, :])


def test_the_rest_of_a_suffix_is_kept_when_the_cursor_moves_down(family: LlamaFimAdapter) -> None:
    count, _ = read(family, PREFIX + SUFFIX[: SUFFIX.index("\n\ndef number_1(")], drop_lines(SUFFIX, 4))
    assert count < len(family.fim_prompt("", SUFFIX)) / 2


def test_rows_that_moved_far_are_read(family: LlamaFimAdapter) -> None:
    whole = len(family.fim_prompt("", SUFFIX))
    counts = [read(family, PREFIX + lines(3 * step), SUFFIX)[0] for step in range(1, 4)]
    assert [count > whole for count in counts] == [False, False, True]
    assert read(family, PREFIX + lines(12), SUFFIX)[0] < whole, "from those that were read"


@pytest.mark.parametrize(("suffix", "variable"), [(SUFFIX[:120], "1"), (SUFFIX, "0")])
def test_a_short_suffix_is_read_and_so_is_each_if_the_user_wants(
    suffix: str, variable: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(KEEP_SUFFIX_VARIABLE, variable)
    family = loaded()
    read(family, PREFIX, suffix)
    count, _ = read(family, PREFIX + lines(1), suffix)
    assert count > len(family.fim_prompt("", suffix)) - 4


def test_many_lines_are_typed(family: LlamaFimAdapter) -> None:
    """Also once the text outgrows the memory of its entry."""
    engine, before = Engine(family), PREFIX
    for index in range(60):
        before += f"    total += {index}\n    value_{index} = "
        stats = fill(engine, before, line(), f"\n{SUFFIX}", quick=True).done.stats
        before += "1\n"
        assert stats.reused_tokens > 0 or index == 0
    assert family.prefixes.cached_tokens(family.fim_prompt(before, "")) > 500


def test_moving_up_and_deleting_below_count_as_moved_lines(family: LlamaFimAdapter) -> None:
    read(family, PREFIX + lines(6), SUFFIX)
    del family.prefixes.slots[:-1]
    read(family, PREFIX + lines(1), SUFFIX)
    assert family.prefixes.entries[0].approximate_from is None, "six lines down and five up are too many"
    family.prefixes.slots.clear()
    read(family, PREFIX, SUFFIX)
    whole = len(family.fim_prompt("", drop_lines(SUFFIX, 12)))
    assert read(family, PREFIX, drop_lines(SUFFIX, 12))[0] > whole - 20, "twelve lines are gone"


def test_what_comes_behind_the_suffix_is_read(family: LlamaFimAdapter) -> None:
    ids = family.fim_prompt(PREFIX + lines(1), SUFFIX)
    context = family.open_prefix([*ids, 7, 8, 9])
    list(context.prefill())
    assert context.reused_tokens < ids.index(family.tokenizer.token_to_id("<|fim_middle|>"))
    context.close()


@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_the_line_below_and_what_was_kept_are_read_while_idle(family: LlamaFimAdapter, end: str) -> None:
    engine, head, below = Engine(family), PREFIX + lines(1), end + SUFFIX
    taken = fill(engine, f"{head}    value = ", line(), below, quick=True, reads_ahead=True).text
    prompt = family.fim_prompt(head, below)
    assert family.prefixes.cached_tokens(prompt, exact=True) < len(prompt) - 100
    while engine.run_idle_task():
        pass
    assert family.prefixes.cached_tokens(prompt, exact=True) == len(prompt)
    stats = fill(engine, f"{head}    value = {taken}{end}    ", line(), below, quick=True).done.stats
    assert stats.prefix_tokens - stats.reused_tokens < 8
    assert family.prefixes.entries[0].approximate_from is None
    assert engine.status_fields()["ahead_hits"] == 1
    assert family.prefixes.size_bytes() < sum(entry.size_bytes() for entry in family.prefixes.entries)


def test_what_was_read_ahead_in_part_is_used_and_the_rest_kept(family: LlamaFimAdapter) -> None:
    family.prefill_when_idle(family.fim_prompt(PREFIX + lines(1), SUFFIX))
    for _ in range(8):
        family.run_idle_task()
    count, _ = read(family, PREFIX + lines(1), SUFFIX)
    assert count == 1, "the middle token"
    assert len(family.fim_prompt(PREFIX + lines(1), "")) + 32 < (family.prefixes.entries[0].approximate_from or 0)


def test_rows_kept_behind_kept_rows_do_not_make_these_exact(family: LlamaFimAdapter) -> None:
    read(family, PREFIX + lines(1), SUFFIX)
    approximate_from = family.prefixes.entries[0].approximate_from
    start, end = SUFFIX.index("\n\ndef number_5("), SUFFIX.index("\n\ndef number_6(")
    assert read(family, PREFIX + lines(1), SUFFIX[:start] + SUFFIX[end:])[0] < 40
    assert family.prefixes.entries[0].approximate_from == approximate_from


def test_exact_rows_win_against_a_few_more_that_are_not(family: LlamaFimAdapter) -> None:
    read(family, PREFIX + lines(4), f"{SUFFIX}\n# end")
    read(family, PREFIX + lines(1), f"{SUFFIX}\n# end")
    assert family.prefixes.entries[0].drift_lines == 1, "four and three from the longer ones"
    ids = family.fim_prompt(PREFIX + lines(1), f"{SUFFIX}\n# end")
    family.prefill_when_idle(ids[:-1])
    while family.run_idle_task():
        pass
    assert read(family, PREFIX + lines(1), f"{SUFFIX}\n# end")[0] == 1
    assert family.prefixes.entries[0].approximate_from is None


def test_at_rest_a_place_that_was_kept_is_read(family: LlamaFimAdapter) -> None:
    engine, place = Engine(family), (f"{PREFIX}{lines(1)}    value = ", line(), f"\n{SUFFIX}")
    fill(engine, *place, quick=True)
    assert not engine.is_prefill_pending
    list(engine.infill(request(*place, quick=True, prefill_only=True)))
    assert engine.is_prefill_pending
