"""The life of a request in the worker: steps, cancel, deadline, vanishing clients, and exactly one final reply."""

import asyncio
import random
from collections import Counter
from collections.abc import Callable

import pytest

from inference import messages
from inference.messages import Amend, Cancel, Candidate, Done, Draft, Failed, Hole, Outcome, Status, Text
from lsp_server.worker.paths import WorkerPaths
from tests.workers import PATIENCE_S, Process, RawClient, fill, is_idle, long_fill

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
    assert kinds == [Draft] * kinds.count(Draft) + [Candidate] * kinds.count(Candidate)
    assert Draft in kinds and Candidate in kinds


async def test_cancel_stops_between_two_steps_and_is_answered_once(client: RawClient) -> None:
    client.send(long_fill("a"))
    draft = await client.first_draft()
    client.send(Cancel("a"), Cancel("a"))
    assert (await client.final("a")).outcome is Outcome.CANCELLED
    assert draft.step < 80
    await client.becomes(is_idle)
    client.send(fill("a"))
    assert await final_outcome(client, "a") is Outcome.COMPLETE


async def test_next_edits_then_done(client: RawClient) -> None:
    hunk = messages.Hunk(0, "def area(hight):\n", "def area(width):\n")
    client.send(messages.NextEditRequest("n", "def area(width):\n    return hight\n", (hunk,)))
    found, done = await client.answer(), await client.answer()
    assert isinstance(found, messages.NextEdits)
    assert (found.id, found.edits, done.id, done.outcome) == ("n", (), "n", Outcome.COMPLETE)


async def test_cancelling_a_request_that_is_not_running_does_nothing(client: RawClient) -> None:
    client.send(Cancel("never heard of"), fill("a"))
    assert await final_outcome(client, "a") is Outcome.COMPLETE
    client.send(Cancel("a"), fill("b"))
    assert await final_outcome(client, "b") is Outcome.COMPLETE


async def test_the_worker_is_free_once_a_client_vanishes(resident: WorkerPaths) -> None:
    client, witness = await RawClient.open(resident), await RawClient.open(resident)
    without_end = messages.MAX_STEPS  # minutes, if they ran on
    client.send(*(long_fill(str(number), max_steps=without_end) for number in range(6)))
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
        (Text("x = "), Hole(max_tokens=4), Text(LINE), Hole(max_tokens=4), Text("\n")),
        (Text("x = "), Hole(text=LINE, strength=0.5), Text("\n")),
        (Text("x = "), Hole(starts_with=LINE), Text("\n")),
    ],
    ids=["before and behind", "in a hole", "at the start of a hole"],
)
async def test_behind_a_long_line_others_are_answered(
    client: RawClient, resident: WorkerPaths, segments: tuple[Text | Hole, ...]
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


async def test_too_long_amendment_fails_its_request_alone(client: RawClient, resident: WorkerPaths) -> None:
    other = await RawClient.open(resident)
    client.send(long_fill("long"))
    await client.first_draft()
    client.send(Amend("long", 0, LINE))
    async with asyncio.timeout(NOT_DEAF_S):
        failed = await client.final("long")
    assert "does not fit" in failed.message
    other.send(fill("a"))
    assert await final_outcome(other, "a") is Outcome.COMPLETE
    other.close()


async def test_every_request_gets_exactly_one_final_reply(resident: WorkerPaths) -> None:
    chance = random.Random(20)
    crowd = [await Chaotic.join(resident) for _ in range(3)]
    for number in range(60):
        client = chance.choice(crowd)
        match chance.choices(["ask", "cancel", "vanish", "pause"], [6, 3, 1, 2])[0]:
            case "ask":
                client.ask(random_request(chance, str(number)))
            case "cancel" if client.asked:
                client.raw.send(Cancel(chance.choice(client.asked)))
            case "vanish":
                await client.leave()
                crowd[crowd.index(client)] = await Chaotic.join(resident)
            case _:
                await asyncio.sleep(chance.random() * 0.05)
    for client in crowd:
        await client.settle()
        assert (client.finals, client.late) == (Counter(client.asked), [])
        await client.leave()
    witness = await RawClient.open(resident)
    await witness.becomes(is_idle)
    witness.close()


def random_request(chance: random.Random, request_id: str) -> messages.InfillRequest:
    deadline_ms = chance.choice([None, None, 0, 30, 1000])
    segments = () if chance.random() < 0.1 else fill().segments
    return fill(
        request_id,
        segments=segments,
        path=chance.choice("xy"),
        max_steps=chance.randint(1, 6),
        drafts=chance.random() < 0.5,
        deadline_ms=deadline_ms,
    )


class Chaotic:
    def __init__(self, raw: RawClient) -> None:
        self.raw = raw
        self.asked: list[str] = []
        self.finals: Counter[str] = Counter()
        self.late: list[object] = []
        self._reading = asyncio.create_task(self._read())

    @classmethod
    async def join(cls, place: WorkerPaths) -> "Chaotic":
        return cls(await RawClient.open(place))

    def ask(self, request: messages.InfillRequest) -> None:
        self.asked.append(request.id)
        self.raw.send(request)

    async def settle(self) -> None:
        """Wait for all replies, and a little longer for one too many."""
        async with asyncio.timeout(PATIENCE_S):
            while self.finals.total() < len(self.asked):
                await asyncio.sleep(0.01)
        await asyncio.sleep(0.05)

    async def leave(self) -> None:
        self.raw.close()
        self._reading.cancel()
        await asyncio.gather(self._reading, return_exceptions=True)

    async def _read(self) -> None:
        while True:
            message = await self.raw.stream.receive()
            if isinstance(message, Draft | Candidate | Done | Failed):
                if self.finals[message.id]:
                    self.late.append(message)
                self.finals[message.id] += isinstance(message, Done | Failed)


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
