"""`python -m tests.storm`: runs the storm, prints what happened, and fails where a reply is lost or doubled.

Fails too where a server does not fill any more, or where there was not enough of a storm to say so.
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
from pathlib import Path

import psutil

from lsp_server.worker.alive import ANSWER_S, GRACE_S
from tests.e2e.raw_client import RawClient
from tests.lsp_server.lsp.wild_messages import URI, owed
from tests.storm.mutations import mutated
from tests.storm.typist import Typist

SERVERS, MESSAGES, FAULTS, CANCELS, WHILE_LOADING = 3, 1_000, 20, 600, 3
LIMIT_S = 600.0
SETTLE_S = 120.0
"""How long after the end the last reply may come: a worker that was killed is started anew and loads its model."""
SETTINGS = {"deadlineMs": {"automatic": 1_500, "invoked": 10_000}, "debounceMs": 20, "idleSeconds": 60}
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
    """Kill or stop the worker at random moments until `until`, also while it loads; how often each was done.

    `client` is asked whether it loads.
    """
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
    """Send the mutated messages within `seconds`.

    Returns how many replies each id is owed less those it got: all zero when none is lost.
    """
    client.open(URI, "x = ???\n")
    bodies = [mutated(chance, key) for key in range(MESSAGES)]
    for body in bodies:
        client.send_bytes(body)
        await asyncio.sleep(seconds / MESSAGES)
    wanted = owed(bodies)
    for _ in range(int(SETTLE_S)):
        if all(client.counts[key] >= count for key, count in wanted.items()):
            break
        await asyncio.sleep(1)
    await client.status()
    return Counter({key: count - client.counts[key] for key, count in wanted.items() if count != client.counts[key]})


def resident_mb(process_id: int) -> int:
    """The memory of a process, in MB."""
    return psutil.Process(process_id).memory_info().rss >> 20


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


async def storm(runtime: Path, seconds: float, seed: int) -> bool:
    """Run it and print the report; whether no reply was lost or doubled."""
    clients = [await RawClient.start(runtime, SETTINGS) for _ in range(SERVERS + 1)]
    chances = [random.Random(seed + number) for number in range(SERVERS + 2)]
    pairs = zip(clients[:SERVERS], chances, strict=False)
    typists = [Typist(client, chance, f"file:///p/{number}.py") for number, (client, chance) in enumerate(pairs)]
    await clients[0].becomes("ready")
    print(f"at the start: {memory_mb(clients, runtime)}", flush=True)
    until = time.monotonic() + seconds
    typing = asyncio.gather(*(typist.type(until) for typist in typists))
    wrong, done, _ = await asyncio.gather(
        nonsense(clients[-1], chances[-2], seconds), faults(clients[0], runtime, chances[-1], until), typing
    )
    await settled(typists)
    fills = [await typist.still_fills(SETTLE_S) for typist in typists]
    print(f"at the end: {memory_mb(clients, runtime)}\nfaults of the worker: {dict(done)}")
    print("\n".join(map(report, typists)))
    print(f"{MESSAGES} mutated messages: replies missing (+), extra (-) {dict(wrong)}")
    cancelled = sum(len(typist.cancelled) for typist in typists)
    codes = [await client.quit() for client in clients]
    loading = sum(count for kind, count in done.items() if "loaded" in kind)
    print(f"{cancelled} cancelled (at least {CANCELS}), {done.total()} faults (at least {FAULTS}), {loading} of them")
    print(f"while the worker loaded (at least {WHILE_LOADING}); still fills {fills}; exit statuses {codes}")
    lost = wrong or any(typist.lost() or typist.doubled() for typist in typists)
    enough = cancelled >= CANCELS and done.total() >= FAULTS and loading >= WHILE_LOADING
    return not lost and all(fills) and not any(codes) and enough


async def within_limit(runtime: Path, seconds: float, seed: int) -> bool:
    """The same; False, and said, where it takes longer than it may."""
    try:
        async with asyncio.timeout(LIMIT_S):
            return await storm(runtime, seconds, seed)
    except TimeoutError as error:
        print(f"not done within {LIMIT_S:g} s, or a request was not answered: {error}")
        return False


def main() -> int:
    """The exit status: 0 when nothing was lost, and there was enough of a storm to say so."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=300.0, help="how long to type")
    parser.add_argument("--seed", type=int, default=1)
    args = parser.parse_args()
    runtime = Path(tempfile.mkdtemp(prefix="ils-", dir="/tmp"))
    try:
        return 0 if asyncio.run(within_limit(runtime, args.seconds, args.seed)) else 1
    finally:
        while (worker := worker_of(runtime)) is not None:
            worker.kill()
            worker.wait(10)
        shutil.rmtree(runtime, ignore_errors=True)


if __name__ == "__main__":
    raise SystemExit(main())
