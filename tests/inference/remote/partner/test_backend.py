"""A partner fills holes, whatever its API, as a scripted server answers (tests/partner_server.py)."""

import asyncio
import json
import re

import pytest

from inference.messages import (
    BYTES_PER_TOKEN,
    REFINED_STRENGTH,
    Hole,
    HoleKind,
    Outcome,
    PinnedText,
    Snippet,
)
from inference.remote.http import ServerError
from tests.inference.remote.asking import AFTER, ANSWER, BEFORE, KIND_OF, answered, one_hole, partner_at, request
from tests.partner_server import KINDS, Asked, partner_server
from tests.workers import until

each_kind = pytest.mark.parametrize("kind", KINDS)


@each_kind
async def test_a_hole_is_filled_and_drafts_come_before(kind: str) -> None:
    async with partner_server(kinds=(kind,), pause_s=0.02) as server, partner_at(server.url) as partner:
        drafts, candidates, done = await answered(partner, one_hole(drafts=True))
        assert (partner.partner, partner.sees_drafts) == (KIND_OF[kind], kind == "chat")
        assert partner.model == server.name and partner.device in server.url
        assert [each.texts for each in candidates] == [(ANSWER,)]
        ((pieces,), (probs,)) = candidates[0].pieces, candidates[0].confidences
        assert candidates[0].complete and "".join(pieces) == ANSWER and all(0.89 < prob < 0.91 for prob in probs)
        assert drafts and all(ANSWER.startswith(draft.texts[0]) for draft in drafts)
        assert done.outcome is Outcome.COMPLETE and done.stats.canvases == 1
        (asked,) = server.fills
        assert (asked.prefix, asked.suffix) == (BEFORE, AFTER)


@each_kind
async def test_holes_are_filled_in_order(kind: str) -> None:
    parts = (
        PinnedText("a = "),
        Hole(single_line=True),
        PinnedText("\nb = "),
        Hole(single_line=True),
        PinnedText("\nc = a + b\n"),
    )
    words = iter(["first", "second"])
    async with partner_server(kinds=(kind,), answer=lambda _: next(words)) as server:
        async with partner_at(server.url, KIND_OF[kind]) as partner:
            words = iter(["first", "second"])
            _, candidates, _ = await answered(partner, request(*parts))
        assert candidates[0].texts == ("first", "second")
        around = [("a = ", "\nb = \nc = a + b\n"), ("a = first\nb = ", "\nc = a + b\n")]
        assert [(asked.prefix, asked.suffix) for asked in server.fills] == around


@each_kind
async def test_a_fill_begins_as_it_must_and_the_model_is_shown_so(kind: str) -> None:
    def going_on(asked: Asked) -> str:
        return "mbers) / 2" if asked.prefix.endswith("sum(nu") else "x"

    async with partner_server(kinds=(kind,), answer=going_on) as server, partner_at(server.url) as partner:
        _, candidates, _ = await answered(partner, one_hole(starts_with="sum(nu"))
        assert candidates[0].texts == ("sum(numbers) / 2",)


@each_kind
async def test_a_text_that_repeats_itself_is_no_candidate(kind: str) -> None:
    async with (
        partner_server(kinds=(kind,), answer=lambda _: "total or " * 5) as server,
        partner_at(server.url) as partner,
    ):
        _, candidates, _ = await answered(partner, one_hole())
        assert candidates == []


@each_kind
async def test_text_cut_at_the_limit_ends_with_a_whole_line(kind: str) -> None:
    lines = "\n    ".join(f"a{number} = {number}" for number in range(40))
    serving = partner_server(kinds=(kind,), answer=lambda _: lines, fenced=False)
    async with serving as server, partner_at(server.url) as partner:
        _, candidates, _ = await answered(partner, one_hole(single_line=False, max_tokens=20))
        assert re.fullmatch(r"a0 = 0(\n    a\d+ = \d+)*", candidates[0].texts[0])
        assert lines.startswith(candidates[0].texts[0] + "\n") and candidates[0].complete
        _, candidates, _ = await answered(partner, one_hole(single_line=False, max_tokens=2))
        assert not candidates[0].complete or kind == "chat"


async def test_only_a_conversation_is_shown_the_draft() -> None:
    for kind in KINDS:
        async with partner_server(kinds=(kind,)) as server, partner_at(server.url) as partner:
            _, candidates, _ = await answered(partner, one_hole(text="sum(numbers)", strength=REFINED_STRENGTH))
            assert server.fills[0].draft == ("sum(numbers)" if kind == "chat" else "")
            assert candidates[0].texts == ("improved(sum(numbers))" if kind == "chat" else ANSWER,)
            _, kept, _ = await answered(partner, one_hole(text="kept", strength=0.0))
            assert kept[0].texts == ("kept",) and len(server.fills) == 1


async def test_candidates_differ_and_the_first_is_the_likeliest() -> None:
    count = iter(range(100))
    async with partner_server(kinds=("fim",), answer=lambda _: f"x{next(count)}") as server:
        async with partner_at(server.url) as partner:
            _, candidates, _ = await answered(partner, one_hole(candidates=3))
        assert len({each.texts for each in candidates}) == 3
        temperatures = sorted(asked.body["temperature"] for asked in server.fills)
        assert temperatures[0] == 0.0 and temperatures[1] > 0.0
        server.asked.clear()
        async with partner_at(server.url) as partner:
            await answered(partner, request(PinnedText(BEFORE), Hole(), PinnedText(AFTER), seed=7, candidates=2))
        assert sorted(asked.body["seed"] for asked in server.fills) == [7, 8]
        assert all("seed" not in asked.body for asked in server.asked if asked not in server.fills)


def endless(words: str) -> list[bytes | None]:
    """A stream with these words, whatever the API, that neither ends nor goes on."""
    said = {"choices": [{"text": words, "delta": {"content": words}}], "content": words}
    return [b"data: " + json.dumps(said).encode() + b"\n\n", None]


async def test_at_the_deadline_what_is_there_is_answered() -> None:
    async with partner_server(kinds=("fim",)) as server, partner_at(server.url) as partner:
        server.raw = lambda _: endless("a = 1\n    b = 2\n    c")
        for within_s in (0.5, 5, 50):
            _, candidates, done = await answered(partner, one_hole(single_line=False), within_s=within_s)
            if candidates:
                break
        assert done.outcome is Outcome.DEADLINE
        assert candidates[0].texts == ("a = 1\n    b = 2",) and not candidates[0].complete
        await until(lambda: server.running == 0)
        assert server.aborted == len(server.fills)
        server.raw = lambda _: None
        server.hold.clear()
        _, candidates, done = await answered(partner, one_hole(), within_s=3)
        assert (candidates, done.outcome, done.stats.canvases, done.stats.steps) == ([], Outcome.DEADLINE, 1, 0)


SELECTED = "".join(f"    value_{number} = {number}\n" for number in range(120))
"""A draft of more lines than a fill usually has room for."""


@pytest.mark.parametrize("kind", ["fim", "chat"])
async def test_a_rewritten_text_has_room_for_all_of_it(kind: str) -> None:
    improved = SELECTED.replace("value", "total").rstrip()
    async with partner_server(kinds=(kind,), answer=lambda _: improved) as server, partner_at(server.url) as partner:
        hole = one_hole(single_line=False, kind=HoleKind.BODY, text=SELECTED, strength=REFINED_STRENGTH)
        _, candidates, _ = await answered(partner, hole)
        assert candidates[0].texts[0].endswith("total_119 = 119") and candidates[0].complete


@each_kind
async def test_cut_rewrite_is_no_candidate(kind: str) -> None:
    """It would take the place of all of it."""
    serving = partner_server(kinds=(kind,), answer=lambda _: SELECTED * 3)
    async with serving as server, partner_at(server.url) as partner:
        hole = one_hole(single_line=False, text=SELECTED, strength=REFINED_STRENGTH)
        assert (await answered(partner, hole))[1] == []
        server.raw = lambda _: endless(SELECTED if kind != "chat" else f"```\n{SELECTED}")
        _, candidates, done = await answered(partner, hole, within_s=0.5)
        assert (candidates, done.outcome) == ([], Outcome.DEADLINE)


@each_kind
@pytest.mark.parametrize("words", ["", "\ufffd"])
async def test_an_answer_with_no_text_is_asked_for_once(kind: str, words: str) -> None:
    async with partner_server(kinds=(kind,)) as server, partner_at(server.url) as partner:
        for end in ("stop", "length"):
            message = {"choices": [{"text": words, "delta": {"content": words}, "finish_reason": end}]}
            llama = {"content": words, "stop": True, "stop_type": "limit" if end == "length" else "eos"}
            server.asked.clear()
            server.raw = lambda _, both={**message, **llama}: [b"data: " + json.dumps(both).encode() + b"\n\n"]
            _, candidates, done = await answered(partner, one_hole(starts_with="x"))
            assert done.outcome is Outcome.COMPLETE and len(server.fills) == 1
            assert not any("\ufffd" in text for each in candidates for text in each.texts)


async def test_cancelled_again_and_again_it_leaves_no_request_behind() -> None:
    async with partner_server(kinds=("fim",)) as server, partner_at(server.url) as partner:
        server.hold.clear()
        waiting = asyncio.ensure_future(answered(partner, one_hole(candidates=4)))
        await until(lambda: server.running == 4)
        while not waiting.done():
            waiting.cancel()
            await asyncio.sleep(0)
        await until(lambda: server.running == 0)
        assert server.aborted == 4


async def test_other_files_are_shown_where_there_is_a_place_for_them() -> None:
    other = Snippet("stats.py", "def total(numbers):\n    return sum(numbers)\n")
    for kind in KINDS:
        async with partner_server(kinds=(kind,)) as server, partner_at(server.url) as partner:
            await answered(
                partner, request(PinnedText(BEFORE), Hole(single_line=True), PinnedText(AFTER), context=(other,))
            )
            shown = "def total" in str(server.fills[0].body)
            assert shown == (partner.context_tokens > 0) == (kind != "suffix")


LONG_FILE = PinnedText("x = 1\n" * 5000 + "y = "), Hole(single_line=True), PinnedText("\n" + "z = 2\n" * 5000)


@pytest.mark.parametrize("context_tokens", [1024, 4096, 6000, 1 << 15])
async def test_a_server_that_takes_little_is_sent_no_more_than_that(context_tokens: int) -> None:
    others = tuple(Snippet(f"{name}.py", f"{name} = 1\n" * 100) for name in "abcdefgh")
    for kind in KINDS:
        async with partner_server(kinds=(kind,), max_model_len=context_tokens) as server:
            async with partner_at(server.url, KIND_OF[kind]) as partner:
                await answered(partner, request(*LONG_FILE, context=others))
                long = server.fills[0]
                assert LONG_FILE[0].text.endswith(long.prefix) and LONG_FILE[2].text.startswith(long.suffix)
                assert long.prefix.startswith("x = 1\n") and long.suffix.endswith("\n")
                await answered(partner, request(PinnedText(BEFORE), Hole(), PinnedText(AFTER), context=others[:1]))
            for asked in server.fills:
                most = asked.body.get("max_tokens") or asked.body["n_predict"]
                names = ("prompt", "suffix", "messages", "input_prefix", "input_suffix", "input_extra")
                sent = str([asked.body.get(name, "") for name in names]).replace("\\n", "\n")
                assert len(sent) <= (context_tokens - most) * BYTES_PER_TOKEN
            shown = ["a = 1" in str(asked.body) for asked in server.fills]
            assert shown == [context_tokens > 4096 and kind != "suffix", kind != "suffix"]


async def test_a_server_that_refuses_so_much_is_sent_less() -> None:
    async with partner_server(kinds=("fim",)) as server, partner_at(server.url) as partner:
        server.most_characters = 1
        with pytest.raises(ServerError, match="context length"):
            await answered(partner, request(*LONG_FILE, candidates=4))
        assert min(len(asked.prefix) for asked in server.fills) > 100
        server.asked.clear()
        server.most_characters = 8_000
        _, candidates, _ = await answered(partner, request(*LONG_FILE, candidates=4))
        assert len(server.fills) == 8 and candidates
        assert all(5_000 < len(asked.prefix) + len(asked.suffix) < 8_000 for asked in server.fills[4:])
        await answered(partner, request(*LONG_FILE))
        assert len(server.fills) == 9, "what was learnt is kept"
