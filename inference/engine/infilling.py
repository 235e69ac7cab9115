"""One request on its way: plan, encode, settle the lengths, denoise, rerank; then the next canvas.

The work is cut into steps of at most one forward pass, so that the worker can interleave requests, amend one, and stop
one, between any two of them.
"""

import itertools
import time
from collections.abc import Generator, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from typing import Any

import torch

from inference.engine.canvas import fills
from inference.engine.canvas.batch import Canvas
from inference.engine.canvas.layout import Row, Slots
from inference.engine.canvas.plan import Group, Plan, Planner
from inference.engine.loaded_model import Toolbox
from inference.engine.search import amending, answers, continuations, length, pruning, sizing
from inference.engine.search.answers import Answer, Written
from inference.engine.search.denoise import Denoising, NoiseSource, Start
from inference.messages import MAX_CANDIDATES, Candidate, Done, Draft, InfillRequest, Outcome, Stats
from inference.models.diffusion_gemma.prefix_cache import Lease

Event = Draft | Candidate | Done
_ENCODE_CHUNK_TOKENS = 512


@dataclass
class _Progress:
    """What is counted while a request runs."""

    started: float = field(default_factory=time.monotonic)
    encode_ms: float = 0.0
    steps: int = 0
    canvases: int = 0
    prefix_tokens: int = 0
    reused_tokens: int = 0

    def ms(self) -> float:
        return (time.monotonic() - self.started) * 1000

    def stats(self) -> Stats:
        return Stats(self.ms(), self.encode_ms, self.steps, self.canvases, self.prefix_tokens, self.reused_tokens)


class Infilling(Generator[Event | None, None, None]):
    """The work on one request, as a generator: each step does at most one forward pass.

    It yields drafts where asked for, then the candidates, best first, then Done; None means worked, nothing to tell.
    Closing it stops the work and frees all it holds.
    """

    def __init__(self, tools: Toolbox, request: InfillRequest, deadline: float | None) -> None:
        """`deadline` is in seconds of `time.monotonic()`. Raises RequestError where the request makes no sense."""
        self._tools, self._request, self._deadline = tools, request, deadline
        self._planner = Planner(tools.vocabulary, tools.properties, request)
        generator = torch.Generator(tools.network.device)
        if request.seed is None:
            generator.seed()
        else:
            generator.manual_seed(request.seed)
        properties = tools.properties
        mask = properties.mask_token_id if properties.corruption == "mask" else None
        self._source = NoiseSource(mask, generator)
        self._progress = _Progress()
        self._amended: dict[int, str] = {}
        self._changed = False
        self._events = self._work()

    def send(self, value: None, /) -> Event | None:
        """The next event. Raises StopIteration after Done."""
        return self._events.send(value)

    def throw(self, *error: Any) -> Event | None:
        """Raises the error where the work stands; `close` uses it to end the work."""
        return self._events.throw(*error)

    def amend(self, hole: int, text: str) -> None:
        """Pin `text`, all that now stands at the start of a hole; takes effect before the next step.

        Raises RequestError where the request has no such hole.
        """
        self._planner.pin_start(hole, text)
        self._amended[hole] = text
        self._changed = True

    def _work(self) -> Generator[Event | None, None, None]:
        """Canvas after canvas. The first gets at least one step; those the deadline leaves no time for are left."""
        canvases: list[list[Answer]] = []
        while len(canvases) < len(self._planner.groups) and not (canvases and self._late()):
            found: list[Answer] = []
            fills = [text for earlier in canvases for text in earlier[0].texts]
            yield from self._canvas(self._planner.groups[len(canvases)], fills, found)
            canvases.append(found)
            if self._changed:
                canvases = canvases[: self._still_good(canvases)]
        yield from self._candidates(canvases, complete=not self._late())
        outcome = Outcome.DEADLINE if self._late() else Outcome.COMPLETE
        yield Done(self._request.id, outcome, self._progress.stats())

    def _still_good(self, canvases: Sequence[list[Answer]]) -> int:
        """How many of the canvases done so far begin as what was typed meanwhile; what follows is planned anew.

        Of those that do, the answers that do not are dropped; the best one has to, for later canvases have seen it.
        """
        self._amended.clear()
        self._changed = False
        good = len(canvases)
        for done, (group, found) in enumerate(zip(self._planner.groups, canvases, strict=False)):
            holes = self._planner.document.holes[group.first : group.end]
            agree = [all(map(str.startswith, it.texts, (hole.starts_with for hole in holes))) for it in found]
            if not agree[0]:
                good = done
                break
            found[:] = itertools.compress(found, agree)
        self._planner.regroup(good)
        return good

    def _candidates(self, canvases: Sequence[Sequence[Answer]], complete: bool) -> Iterator[Candidate]:
        """The k-th best canvases of all canvases together; a canvas with fewer gives its best.

        Later canvases have seen the best fills of the earlier ones, so the first candidate is the coherent one.
        """
        holes = self._planner.document.holes
        done = self._planner.groups[len(canvases) - 1].end
        standing = tuple(hole.text or hole.starts_with for hole in holes[done:])
        count = min(self._wanted, max(len(found) for found in canvases))
        for number in range(count):
            parts = [found[number] if number < len(found) else found[0] for found in canvases]
            yield Candidate(
                self._request.id,
                texts=tuple(text for part in parts for text in part.texts) + standing,
                score=sum(part.score for part in parts) / len(parts),
                steps=sum(part.written.steps for part in parts),
                tokens=sum(part.tokens for part in parts),
                ms=self._progress.ms(),
                complete=complete,
                unfilled=tuple(range(done, len(holes))),
                confidence=sum(part.confidence for part in parts) / len(parts),
            )

    def _canvas(self, group: Group, fills: Sequence[str], found: list[Answer]) -> Iterator[Event | None]:
        """Fills one canvas; its answers, best first, are appended to `found`."""
        plan = self._planner.plan(group, fills)
        self._progress.canvases += 1
        with closing(_Held(self._tools.prefixes.acquire(plan.prefix_ids))) as held:
            yield from self._encode(held.lease, plan.prefix_ids)
            written = yield from self._continue(held.lease, plan)
            rows = [plan.layout.compose(lengths) for lengths in self._lengths(held.lease, plan)]
            yield None
            loop = self._denoising(held.lease, plan, pruning.tried(rows, self._wanted))
            yield from self._denoise(loop, held.lease, plan, fills)
            written = [*answers.standing(loop), *self._agreeing(written, plan)]
            found += answers.ranked(self._tools, held.lease, plan, written, quick=self._late())
            if self._request.drafts:
                yield self._draft(loop, plan, fills, found[0].written)

    def _encode(self, lease: Lease, ids: Sequence[int]) -> Iterator[None]:
        self._progress.prefix_tokens += len(ids)
        self._progress.reused_tokens += lease.length
        while lease.length < len(ids):
            began = time.monotonic()
            chunk = ids[lease.length : lease.length + _ENCODE_CHUNK_TOKENS]
            self._tools.network.encode(torch.tensor([chunk], device=self._tools.network.device), lease)
            lease.commit(chunk)
            self._progress.encode_ms += (time.monotonic() - began) * 1000
            yield None
        lease.seal()

    def _continue(self, lease: Lease, plan: Plan) -> Generator[None, None, list[Written]]:
        """What the encoder would write, where it is asked."""
        if self._late() or not continuations.wanted(self._tools, plan):
            return []
        return (yield from continuations.write(self._tools, lease, plan, self._source.generator, self._late))

    def _agreeing(self, written: Sequence[Written], plan: Plan) -> list[Written]:
        """Those that begin as what was typed meanwhile. Canvases have it pinned; what was written before has not."""
        holes = self._planner.document.holes[plan.group.first : plan.group.end]

        def agrees(one: Written) -> bool:
            texts = fills.texts(self._tools.vocabulary, one.ids, one.spans, plan.layout.holes).texts
            return all(text.startswith(hole.starts_with) for text, hole in zip(texts, holes, strict=True))

        return list(filter(agrees, written))

    def _lengths(self, lease: Lease, plan: Plan) -> list[tuple[int, ...]]:
        """The lengths to try, one per hole; as many choices as candidates are wanted, or as it takes to choose well."""
        holes, most = plan.layout.holes, self._tools.properties.length_choices
        if self._tools.properties.slack_token_id is None:
            choices = length.from_grid(holes, 1 if self._late() else max(self._wanted, most))
        else:
            count = 1 if self._late() else max(self._wanted, length.worth_trying(holes, most))
            choices = length.from_slack(self._slack(lease, plan), holes, count)
        missing = 0 if self._late() else max(0, self._wanted - len(choices))
        return choices + [choices[i % len(choices)] for i in range(missing)]

    def _slack(self, lease: Lease, plan: Plan) -> list[list[float]]:
        self._progress.steps += 1
        return sizing.slack_curves(self._tools, lease.view(), plan.layout, self._source)

    @property
    def _wanted(self) -> int:
        return min(max(1, self._request.candidates), MAX_CANDIDATES)

    def _denoising(self, lease: Lease, plan: Plan, rows: Sequence[Row]) -> Denoising:
        canvas = Canvas.of(rows, self._tools.network.device)
        return Denoising(
            self._tools.network,
            lease.view(len(rows)),
            canvas,
            self._tools.properties.sampler,
            self._source,
            max_steps=1 if self._late() else self._request.max_steps,
            constraint=self._tools.constraints.of(canvas, plan.layout.holes),
            start=self._start(canvas, plan.layout.holes),
        )

    def _start(self, canvas: Canvas, holes: Sequence[Slots]) -> Start | None:
        """Where to start from instead of noise, where text is reworked: some of its tokens, at random, are noised."""
        if not any(hole.existing for hole in holes):
            return None
        ids: list[int] = []
        strengths: list[float] = []
        for spans in canvas.spans:
            for (_, first, end), hole in zip(spans, holes, strict=True):
                ids += hole.existing or (0,) * (end - first)
                strengths += [hole.strength] * (end - first)
        device, generator = self._tools.network.device, self._source.generator
        chances = torch.rand(len(ids), generator=generator, device=device)
        noised = chances < torch.tensor(strengths, device=device)
        return Start(torch.tensor(ids, device=device), noised, max(hole.strength for hole in holes))

    def _denoise(self, loop: Denoising, lease: Lease, plan: Plan, fills: Sequence[str]) -> Iterator[Event | None]:
        """Steps until the answer stands, or until the deadline: then the answer is what stands."""
        while not loop.finished:
            loop.step()
            self._progress.steps += 1
            if pruning.is_due(loop, plan, self._wanted):
                yield None
                pruning.prune(self._tools, loop, lease, plan, self._wanted)
            yield self._draft(loop, plan, fills, answers.one_standing(loop, 0)) if self._request.drafts else None
            if self._late() or (self._amended and not self._go_on(loop, lease, plan, fills)):
                return

    def _go_on(self, loop: Denoising, lease: Lease, plan: Plan, fills: Sequence[str]) -> bool:
        """Pins what was typed on the canvases that agree with it; False where none does, so that it starts again."""
        amended, self._amended = self._amended, {}
        for number, text in amended.items():
            if number < plan.group.first and not fills[number].startswith(text):
                return False
            inside = plan.group.first <= number < plan.group.end
            if inside and not amending.pin(self._tools, loop, lease, plan, number - plan.group.first, text):
                return False
        return True

    def _late(self) -> bool:
        return self._deadline is not None and time.monotonic() >= self._deadline

    def _draft(self, loop: Denoising, plan: Plan, fills: Sequence[str], shown: Written) -> Draft:
        """One of the canvases as it stands: while they are denoised the first, of the likeliest length, or the best."""
        return answers.draft(self._tools, self._request.id, loop, shown, plan, fills, self._hole_count)

    @property
    def _hole_count(self) -> int:
        return len(self._planner.document.holes)


@dataclass(frozen=True)
class _Held:
    """A lease that is released on close, however the work on it ends."""

    lease: Lease

    def close(self) -> None:
        self.lease.release()
