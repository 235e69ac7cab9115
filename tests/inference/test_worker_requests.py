"""The life of a request in the worker: steps, cancel, deadline, vanishing clients, and exactly one final reply."""

import asyncio
import random
from collections.abc import Callable

import pytest

from inference import messages
from inference.messages import Cancel, Done, Draft, Failed, FilledHoles, Hole, Outcome, PinnedText, Status
from lsp_server.worker.paths import WorkerPaths
from tests.workers import Process, RawClient, fill, is_idle, long_fill

NOT_DEAF_S = 10.0
"""Within this any worker answers that is not deaf; it takes a few hundredths of a second."""


async def test_drafts_then_candidates_then_done(client: RawClient) -> None:
    client.send(fill("a", drafts=True, candidates=2, max_steps=4))
    kinds = []
    while not isinstance(message := await client.receive(), Done):
        if not isinstance(message, Status):
            kinds.append(type(message))
            assert message.id == "a"  # type: ignore[union-attr]
    assert message.outcome is Outcome.COMPLETE
    assert kinds == [Draft] * kinds.count(Draft) + [FilledHoles] * kinds.count(FilledHoles)
    assert Draft in kinds and FilledHoles in kinds


async def test_cancel_stops_between_two_steps_and_is_answered_once(client: RawClient) -> None:
    client.send(long_fill("a"))
    draft = await client.first_draft()
    client.send(Cancel("a"), Cancel("a"))
    assert (await client.final("a")).outcome is Outcome.CANCELLED
    assert draft.step < messages.MAX_STEPS
    await client.becomes(is_idle)
    client.send(fill("a"))
    assert await final_outcome(client, "a") is Outcome.COMPLETE


async def test_the_worker_is_free_once_a_client_vanishes(resident: WorkerPaths) -> None:
    client, witness = await RawClient.open(resident), await RawClient.open(resident)
    client.send(*(long_fill(str(number)) for number in range(6)))
    await client.first_draft()
    before = await witness.status()
    assert before.state is messages.WorkerState.BUSY
    client.close()
    assert (await witness.becomes(is_idle)).clients == before.clients - 1
    witness.close()


async def test_a_deadline_is_kept_while_others_run(resident: WorkerPaths) -> None:
    client = await RawClient.open(resident)
    client.send(*(long_fill(f"long {number}") for number in range(6)))
    await client.first_draft()
    client.send(fill("waits for its turn", max_steps=60, deadline_ms=50))
    assert await final_outcome(client, "waits for its turn") is Outcome.DEADLINE
    status = await client.status()
    assert status.running + status.waiting == 6, "it has not waited for the others to end"
    client.close()


LINE = "value=foo(bar,baz[12]);" * 600_000
"""A file of 14 million characters without a line break. Tokenised in one call it took half a minute."""


@pytest.mark.parametrize(
    "segments",
    [
        (PinnedText("x = "), Hole(max_tokens=4), PinnedText(LINE), Hole(max_tokens=4), PinnedText("\n")),
        (PinnedText("x = "), Hole(text=LINE, strength=0.5), PinnedText("\n")),
        (PinnedText("x = "), Hole(starts_with=LINE), PinnedText("\n")),
    ],
    ids=["before and behind", "in a hole", "at the start of a hole"],
)
async def test_behind_a_long_line_others_are_answered(
    client: RawClient, resident: WorkerPaths, segments: tuple[PinnedText | Hole, ...]
) -> None:
    other = await RawClient.open(resident)
    client.send(messages.InfillRequest("long", segments, max_steps=1))
    ended = asyncio.create_task(client.final("long"))
    while not ended.done():
        async with asyncio.timeout(NOT_DEAF_S):
            await other.status()
        await asyncio.sleep(0.01)
    assert isinstance(await ended, Done) or "does not fit" in ended.result().message  # type: ignore[union-attr]
    other.close()


async def test_every_request_gets_exactly_one_final_reply(resident: WorkerPaths) -> None:
    chance = random.Random(20)
    crowd = [(await RawClient.open(resident), list[str]()) for _ in range(3)]
    for number in range(60):
        place = chance.randrange(len(crowd))
        client, asked = crowd[place]
        match chance.choices(["ask", "cancel", "vanish", "pause"], [6, 3, 1, 2])[0]:
            case "ask":
                asked.append(str(number))
                client.send(random_request(chance, asked[-1]))
            case "cancel":
                client.send(Cancel(chance.choice([*asked, "never heard of"])))
            case "vanish":
                client.close()
                crowd[place] = (await RawClient.open(resident), [])
            case _:
                await asyncio.sleep(chance.random() * 0.05)
    for client, asked in crowd:
        await check_each_ends_once(client, asked)
        client.close()
    witness = await RawClient.open(resident)
    await witness.becomes(is_idle)
    witness.close()


async def check_each_ends_once(client: RawClient, asked: list[str]) -> None:
    """Each request gets a final reply, behind which nothing comes."""
    ended = set[str]()
    while len(ended) < len(asked):
        message = await client.answer()
        assert message.id not in ended  # type: ignore[union-attr]
        if isinstance(message, Done | Failed):
            ended.add(message.id)
    client.send(fill("last"))
    while not isinstance(message := await client.answer(), Done):
        assert message.id == "last"  # type: ignore[union-attr]
    assert message.id == "last" and ended == {*asked}


def random_request(chance: random.Random, request_id: str) -> messages.InfillRequest:
    return fill(
        request_id,
        segments=() if chance.random() < 0.1 else fill().segments,
        path=chance.choice("xy"),
        max_steps=chance.randint(1, 6),
        drafts=chance.random() < 0.5,
        deadline_ms=chance.choice([None, None, 0, 30, 1000]),
    )


async def final_outcome(client: RawClient, request_id: str) -> Outcome:
    reply = await client.final(request_id)
    assert isinstance(reply, Done), reply
    return reply.outcome


async def test_the_status_says_that_suggestions_are_cut_short(start_worker: Callable[..., Process]) -> None:
    client = await start_worker().connect()
    for number in range(4):
        assert "deadlineMs" not in (await client.becomes(is_idle)).note
        client.send(long_fill(str(number), quick=True, deadline_ms=1))
        assert await final_outcome(client, str(number)) is Outcome.DEADLINE
    assert (await client.status()).note.startswith("4 of the last 4 suggestions were cut short")
    for number in range(6):
        client.send(fill(f"quick {number}", quick=True))
        assert await final_outcome(client, f"quick {number}") is Outcome.COMPLETE
    assert "deadlineMs" not in (await client.status()).note
    client.close()
