"""`python -m tests.storm`: runs the storm, prints what happened, and fails where a reply is lost, doubled or late.

Fails too where a secret leaks, memory grows, or a server does not fill any more.
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
from typing import Any

import psutil

from lsp_server.worker.client import HEARTBEAT_S, RESPONSE_S
from tests.e2e.raw_client import RawClient
from tests.e2e.test_storm import TEXT, Storm
from tests.e2e.user import User
from tests.partner_server import partner_server, sensible
from tests.storm import hostile

SERVERS, FAULTS = 3, 20
"""So many servers are typed into, and one more whose model is the hostile partner; so often the worker is harmed."""
WHOLE_S = 900.0
LIMIT_S = 600.0
"""So long may the end take."""
SAMPLE_S = 10.0
SPARE_MB, WORKER_MB = 20, 650
"""By how much memory may grow by chance, and the most that the worker of the embedded model may take."""
CALM = 1 / 3
"""In the last part of the time nobody harms the worker, so that one that lives long is seen not to grow."""
SETTLE_S = 120.0
"""How long after the end it may take until all fill again: a killed worker restarts and loads its model."""
PAUSES_S = (0.01, 0.05, 0.15, 0.4)
"""Some of those between a user's keys."""
DEADLINES = {"automatic": 1_500, "invoked": 10_000}
SETTINGS = {"model": "embedded", "deadlineMs": DEADLINES, "debounceMs": 20, "idleSeconds": 60}
LATE_S = 10.0 + HEARTBEAT_S + RESPONSE_S
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


async def sampled(servers: list[psutil.Process], runtime: Path, until: float) -> list[list[int]]:
    """The memory in MB of each server, and of the worker last, every few seconds until then."""
    found: list[list[int]] = []
    while time.monotonic() < until:
        with suppress(psutil.NoSuchProcess):  # it was killed at this moment
            processes = [*servers, worker_of(runtime)]
            found.append([each.memory_info().rss >> 20 if each else 0 for each in processes])
        await asyncio.sleep(SAMPLE_S)
    return found


def grown(samples: list[list[int]]) -> list[tuple[int, ...]]:
    """The memory of each server that needed more in the last third than before it.

    Likewise of a worker that needed more to the end of the last third, while nobody harmed it, or too much.
    """
    third = len(samples) // 3
    *servers, worker = zip(*samples, strict=True)
    calm = worker[-third:]
    spans = [*((each[third:-third], each[-third:]) for each in servers), (calm[: third // 2], calm[third // 2 :])]
    rising = [late for early, late in spans if early and max(late) > 1.1 * max(early) + SPARE_MB]
    return rising + [calm] * (max(calm) > WORKER_MB)


async def suggested_to(user: User) -> list[Any]:
    reply = await user.client.reply(user.ask(invoked=True))
    return list((reply.get("result") or {"items": []})["items"])


async def suggested_in_secret(client: RawClient, uri: str, until: float) -> list[Any]:
    """What is suggested until then in a document that no model may see."""
    user, found = User(client, f"KEY = {hostile.SECRET}\nOTHER = ‸", uri=uri), []
    while time.monotonic() < until:
        found += await suggested_to(user)
        await asyncio.sleep(1)
    return found


async def still_fills(client: RawClient) -> None:
    """Raises TimeoutError. A worker that was killed again and again is not started again at once."""
    user = User(client, "def add(a, b):\n    return ‸\n")
    async with asyncio.timeout(SETTLE_S):
        while not await suggested_to(user):
            await asyncio.sleep(1)


async def storm(folder: Path, seconds: float, seed: int) -> bool:
    """Run it and print the report; whether all went well."""
    runtime, project, precious = folder / "run", folder / "project", folder / "precious"
    runtime.mkdir(mode=0o700)
    project.mkdir()
    precious.write_text(hostile.PRECIOUS)
    chances = (random.Random(f"{seed} {number}") for number in count())
    async with partner_server(kinds=("fim",)) as partner:
        answers = hostile.HostileAnswers(partner, next(chances))
        by_partner = {**SETTINGS, "model": "partner", "partner": {"url": partner.url, "kind": "qwen"}}
        clients = [await RawClient.start(runtime, options) for options in [*[SETTINGS] * SERVERS, by_partner]]
        users = [User(client, TEXT, uri=f"{project.as_uri()}/{number}.py") for number, client in enumerate(clients)]
        storms = [Storm([(user, (await user.actions((4, 7)))[0])], next(chances), PAUSES_S) for user in users]
        await clients[0].becomes("ready")
        until = time.monotonic() + seconds
        processes = [psutil.Process(client.process.pid) for client in clients]
        done, spoilt, filled, samples, *secrets = await asyncio.gather(
            faults(clients[0], runtime, next(chances), until - CALM * seconds),
            hostile.damage(runtime, precious, next(chances), until),
            hostile.full_disk(processes, next(chances), until),
            sampled(processes, runtime, until),
            *(suggested_in_secret(client, f"{project.as_uri()}/.env", until) for client in clients),
            *(storm.blow(lambda: time.monotonic() < until) for storm in storms),
        )
        partner.raw, partner.answer, partner.delay_s, partner.status = lambda _: None, sensible, 0.0, 200
        for client in clients:
            await still_fills(client)
    print(f"memory in MB: {samples[-1:]}; faults: {dict(done)}, {dict(spoilt + filled)}")
    print("requests:", *(f"{len(storm.asked)}, {len(storm.cancelled)} of them cancelled" for storm in storms))
    asked = [(storm.client, key) for storm in storms for key in storm.asked]
    kept = [(client, key) for client, key in asked if not any(key in storm.cancelled for storm in storms)]
    troubles = {
        "doubled": [key for client, key in asked if client.counts[key] > 1],
        "late": [key for client, key in kept if client.arrived[key] - client.sent[key] > LATE_S],
        "exit statuses": [code for client in clients if (code := await client.quit())],
        "leaked": answers.leaks() or [found for found in secrets if found],
        "unseen characters were shown": sum(hostile.unseen_shown(client.replies.values()) for client in clients),
        "a link was followed": precious.read_text() != hostile.PRECIOUS,
        "memory grows": grown(samples),
        "not enough of a storm": done.total() < int(FAULTS * seconds / WHOLE_S),
    }
    for what, found in troubles.items():
        if found:
            print(f"FAILED: {what}: {found}")
    return not any(troubles.values())


def main() -> int:
    """The exit status: 0 when nothing was lost."""
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
