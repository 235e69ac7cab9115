"""`python -m tests.storm`: runs the storm, prints what happened, and fails where a reply is lost, doubled or late.

Fails too where a secret leaks, memory grows, a server does not fill any more, or there was not enough of a storm.
What happens follows from the seed, which is printed; when it happens is up to the machine.
"""

import argparse
import asyncio
import random
import shutil
import signal
import tempfile
import time
from collections import Counter
from contextlib import suppress
from itertools import count
from pathlib import Path

import psutil

from lsp_server.worker.client import ANSWER_S, GRACE_S
from tests.e2e.raw_client import RawClient
from tests.lsp_server.lsp.wild_messages import URI, body, owed
from tests.partner_server import partner_server, sensible
from tests.storm import hostile
from tests.storm.typist import Typist

SERVERS, MESSAGES, FAULTS, CANCELS, WHILE_LOADING, CASES = 3, 2_000, 20, 600, 3, 10_000
"""So many servers are typed into, and one more whose model is the hostile partner; the rest is the least of a storm."""
WHOLE_S = 900.0
"""How long a storm lasts; of a shorter one less is asked."""
LIMIT_S = 600.0
"""So long may the end take."""
SAMPLE_S = 10.0
SPARE_MB, WORKER_MB = 20, 650
"""By how much memory may grow by chance, and the most that the worker of the embedded model may take."""
CALM = 1 / 3
"""In the last part of the time nobody harms the worker, so that one that lives long is seen not to grow."""
SETTLE_S = 120.0
"""How long after the end the last reply may come: a killed worker restarts and loads its model."""
DEADLINES = {"automatic": 1_500, "invoked": 10_000}
SETTINGS = {"model": "embedded", "deadlineMs": DEADLINES, "debounceMs": 20, "idleSeconds": 60}
LATE_S = 10.0 + GRACE_S + ANSWER_S
"""After so long a worker that has its model has answered, or was given up; one that loads may take longer."""


def worker_of(runtime: Path) -> psutil.Process | None:
    """The worker that runs now, loading or loaded."""
    for process in psutil.process_iter(["cmdline"]):
        line = process.info["cmdline"] or []
        if "inference.worker" in line and any(str(runtime) in part for part in line):
            return process
    return None


async def faults(client: RawClient, runtime: Path, chance: random.Random, until: float) -> Counter[str]:
    """Kill or stop the worker at random moments until `until`, also while it loads; how often each was done."""
    done: Counter[str] = Counter()
    while (left_s := until - time.monotonic()) > 0:
        pause_s = left_s / max(2 * (FAULTS - done.total()), 10)  # half the time goes into the faults themselves
        await asyncio.sleep(chance.choice([0.2, 1.5, pause_s, pause_s]))
        if (worker := worker_of(runtime)) is not None:
            loads = (await client.status())["state"] in ("starting", "loading")
            kind = chance.choice(["killed", "stopped, went on", "stopped, killed"])
            with suppress(psutil.NoSuchProcess):
                await _harm(worker, kind, chance.choice([0.5, 3.0, 8.0]))
                done[f"{kind} while it loaded" if loads else kind] += 1
    return done


async def _harm(worker: psutil.Process, kind: str, seconds: float) -> None:
    if kind != "killed":
        worker.send_signal(signal.SIGSTOP)
        await asyncio.sleep(seconds)
    worker.send_signal(signal.SIGCONT if kind == "stopped, went on" else signal.SIGKILL)


async def nonsense(client: RawClient, chance: random.Random, seconds: float) -> Counter[object]:
    """Send wild messages within `seconds`. How many replies each id is owed less those it got: zero is right."""
    client.open(URI, "x = ???\n")
    bodies = [body(chance) for _ in range(MESSAGES)]
    for each in bodies:
        client.send_bytes(each)
        await asyncio.sleep(seconds / MESSAGES)
    wanted = owed(bodies)
    for _ in range(int(SETTLE_S)):
        if all(client.counts[key] >= count for key, count in wanted.items()):
            break
        await asyncio.sleep(1)
    await client.status()
    return Counter({key: count - client.counts[key] for key, count in wanted.items() if count != client.counts[key]})


def resident_mb(process_id: int) -> int:
    return psutil.Process(process_id).memory_info().rss >> 20


async def sampled(clients: list[RawClient], runtime: Path, until: float) -> list[list[int]]:
    """The memory in MB of each server, and of the worker last, every few seconds until then."""
    found: list[list[int]] = []
    while time.monotonic() < until:
        servers = [resident_mb(client.process.pid) for client in clients]
        with suppress(psutil.NoSuchProcess):  # it was killed at this moment
            worker = worker_of(runtime)
            found.append([*servers, resident_mb(worker.pid) if worker else 0])
        await asyncio.sleep(SAMPLE_S)
    return found


def grows(samples: list[int]) -> bool:
    """Whether the last third of the time needed more memory than the one before, by more than chance."""
    third = len(samples) // 3
    return third > 0 and max(samples[-third:]) > 1.1 * max(samples[third:-third]) + SPARE_MB


def worker_troubles(samples: list[int]) -> list[int]:
    """The memory of a worker while nobody harmed it, where it was too much or grew to the end."""
    calm = samples[-int(CALM * len(samples)) :]
    half = len(calm) // 2
    rises = half > 0 and max(calm[half:]) > 1.1 * max(calm[:half]) + SPARE_MB
    return calm if rises or max(calm, default=0) > WORKER_MB else []


async def settled(typists: list[Typist]) -> None:
    """Once every request has a reply, or after a long wait."""
    until = time.monotonic() + SETTLE_S
    while any(typist.lost() for typist in typists) and time.monotonic() < until:
        await asyncio.sleep(0.2)


def memory_mb(clients: list[RawClient], runtime: Path) -> str:
    """The memory of the worker and of each server."""
    worker = worker_of(runtime)
    servers = ", ".join(str(resident_mb(client.process.pid)) for client in clients)
    return f"worker {resident_mb(worker.pid) if worker else 0} MB, servers {servers} MB"


def report(typist: Typist) -> str:
    """What became of one typist's requests."""
    waits, cancels = typist.waits_s() or [0.0], typist.cancel_waits_s() or [0.0]
    late = sum(wait > LATE_S for wait in waits)
    return (
        f"{typist.uri}: {len(typist.sent)} requests, {len(typist.cancelled)} cancelled, errors {typist.errors()}\n"
        f"  lost {typist.lost()}, doubled {typist.doubled()}, late (after {LATE_S:g} s) {late}\n"
        f"  replies after {waits[len(waits) // 2]:.2f} s (median), {waits[-1]:.1f} s (longest); "
        f"{cancels[-1]:.2f} s (longest) after they were cancelled"
    )


async def storm(folder: Path, seconds: float, seed: int) -> bool:
    """Run it and print the report; whether all went well."""
    runtime, project, precious = folder / "run", folder / "project", folder / "precious"
    for each in (runtime, project, folder / "hub", folder / "full"):
        each.mkdir(mode=0o700)
    precious.write_text(hostile.PRECIOUS)
    chances = (random.Random(f"{seed} {number}") for number in count())
    async with partner_server(kinds=("fim",)) as partner:
        answers = hostile.HostileAnswers(partner, next(chances))
        by_partner = {**SETTINGS, "model": "partner", "partner": {"url": partner.url, "kind": "qwen"}}
        clients = [await RawClient.start(runtime, SETTINGS, capabilities={}) for _ in range(SERVERS + 1)]
        clients.insert(SERVERS, await RawClient.start(runtime, by_partner, capabilities={}))
        typists = [
            Typist(client=client, chance=next(chances), uri=f"{project.as_uri()}/{number}.py")
            for number, client in enumerate(clients[:-1])
        ]
        await clients[0].becomes("ready")
        print(f"at the start: {memory_mb(clients, runtime)}", flush=True)
        until = time.monotonic() + seconds
        processes = [psutil.Process(client.process.pid) for client in clients]
        wrong, done, (disk, disk_faults), (pulled, hub_faults), samples, *_ = await asyncio.gather(
            nonsense(clients[-1], next(chances), seconds),
            faults(clients[0], runtime, next(chances), until - CALM * seconds),
            hostile.disk_troubles(runtime, folder / "full", precious, processes, next(chances), until),
            hostile.pulls(folder / "hub", next(chances), until),
            sampled(clients, runtime, until),
            *(typist.type_on(until) for typist in typists),
        )
        await settled(typists)
        partner.raw, partner.answer, partner.delay_s, partner.status = lambda _: None, sensible, 0.0, 200
        fills = [await typist.still_fills(SETTLE_S) for typist in typists]
    print(f"at the end: {memory_mb(clients, runtime)}\nfaults of the worker: {dict(done)}")
    print(f"disk: {dict(disk)}\nhub: {dict(pulled)}\npartner: asked {len(partner.asked)} times")
    print("\n".join(map(report, typists)))
    print(f"{MESSAGES} wild messages: replies missing (+), extra (-) {dict(wrong)}")
    cancelled = sum(len(typist.cancelled) for typist in typists)
    codes = [await client.quit() for client in clients]
    loading = sum(number for kind, number in done.items() if "loaded" in kind)
    cases = MESSAGES + sum(len(each.sent) for each in typists) + (done + disk + pulled).total()
    found = {"cases": cases, "cancelled": cancelled, "faults": done.total(), "faults while it loaded": loading}
    least = [int(most * min(1.0, seconds / WHOLE_S)) for most in (CASES, CANCELS, FAULTS, WHILE_LOADING)]
    few = [(what, number, at_least) for (what, number), at_least in zip(found.items(), least, strict=True)]
    print("; ".join(f"{number} {what} (at least {at_least})" for what, number, at_least in few))
    troubles = {
        "replies are missing or extra": wrong,
        "lost": [key for typist in typists for key in typist.lost()],
        "doubled": [key for typist in typists for key in typist.doubled()],
        "late": [wait for typist in typists for wait in typist.waits_s() if wait > LATE_S],
        "does not fill any more": not all(fills),
        "exit statuses": [code for code in codes if code],
        "leaked": answers.leaks() or [key for typist in typists for key in typist.leaked()],
        "unseen characters were shown": sum(hostile.unseen_shown(each.client.replies.values()) for each in typists),
        "a link was followed": precious.read_text() != hostile.PRECIOUS,
        "faults of pull": hub_faults,
        "faults on a full disk": disk_faults,
        "memory of a server grows": [of for of in list(zip(*samples, strict=True))[:-1] if grows(list(of))],
        "memory of the worker": worker_troubles([sample[-1] for sample in samples]),
        "not enough of a storm": [what for what, number, at_least in few if number < at_least],
    }
    for what, found in troubles.items():
        if found:
            print(f"FAILED: {what}: {found}")
    return not any(troubles.values())


def main() -> int:
    """The exit status: 0 when nothing was lost, and there was enough of a storm to say so."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=WHOLE_S, help="how long to type")
    parser.add_argument("--seed", type=int, default=None, help="that of an earlier storm, to have it again")
    args = parser.parse_args()
    seed = random.randrange(1 << 32) if args.seed is None else args.seed
    print(f"seed {seed}; again: make storm SEED={seed}", flush=True)
    folder = Path(tempfile.mkdtemp(prefix="ils-", dir="/tmp"))
    limit_s = args.seconds + LIMIT_S
    try:
        return 0 if asyncio.run(asyncio.wait_for(storm(folder, args.seconds, seed), limit_s)) else 1
    except TimeoutError as error:
        print(f"not done within {limit_s:g} s, or a request was not answered: {error}")
        return 1
    finally:
        while (worker := worker_of(folder)) is not None:
            worker.kill()
            worker.wait(10)
        shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    raise SystemExit(main())
