"""What surrounds the servers in a storm: damaged state files, planted links, a full disk, a hostile partner and hub."""

import asyncio
import json
import os
import random
import resource
import shutil
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterable
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

import psutil

from lsp_server.fill.fitting import unseen_in
from tests.hub_server import hub_of
from tests.partner_server import Asked, PartnerServer, sensible
from tests.workers import environment

SECRET = "SECRET_THAT_NOBODY_MAY_SEE"
PRECIOUS = "what the user has in a file that a link leads to\n"
_UNSEEN = ("\x1b[2J", "\u202e", "\u200b", "\ufeff", "\U000e0041", "\x00")
_FULL_BYTES = 0
_LIES = ("size", "name", "cut", "damaged", "licence", "honest")
STATE = ("usage/counters.sqlite", "*.log", "*.err", "infill-ls.toml")


async def disk_troubles(
    runtime: Path, full: Path, precious: Path, processes: Iterable[psutil.Process], chance: random.Random, until: float
) -> tuple[Counter[str], list[str]]:
    """Damage state files, and fill the disk for servers and for commands; how often, and what was a fault."""
    chances = [random.Random(chance.random()) for _ in range(3)]
    spoilt, filled, (written, faults) = await asyncio.gather(
        damage(runtime, precious, chances[0], until),
        full_disk(processes, chances[1], until),
        writes_to_a_full_disk(full, runtime, chances[2], until),
    )
    return spoilt + filled + written, faults


async def damage(folder: Path, precious: Path, chance: random.Random, until: float) -> Counter[str]:
    """Spoil files of `folder` until then: flip bytes, cut, fill with noise, delete, put a link to `precious` there."""
    done: Counter[str] = Counter()
    while time.monotonic() < until:
        await asyncio.sleep(chance.uniform(0.2, 1.5))
        found = [file for pattern in STATE for file in folder.glob(pattern) if not file.is_symlink()]
        if not found:
            continue
        kind = chance.choice(["a byte", "cut", "noise", "deleted", "link", "folder"])
        with suppress(OSError):
            _spoil(chance.choice(sorted(found)), kind, precious, chance)
            done[kind] += 1
    return done


def _spoil(file: Path, kind: str, precious: Path, chance: random.Random) -> None:
    content = file.read_bytes() if file.is_file() else b""
    if kind == "a byte" and content:
        at = chance.randrange(min(len(content), 200))
        with file.open("r+b") as stream:
            stream.seek(at)
            stream.write(bytes([chance.randrange(256)]))
    elif kind == "cut":
        os.truncate(file, chance.randrange(len(content) + 1))
    elif kind == "noise":
        file.write_bytes(chance.randbytes(chance.randrange(10_000)))
    else:
        file.unlink()
        if kind != "deleted":
            file.symlink_to(precious) if kind == "link" else file.mkdir(mode=0o700)


async def full_disk(processes: Iterable[psutil.Process], chance: random.Random, until: float) -> Counter[str]:
    """Let a process write no file for a while, as where the disk is full; again and again until then."""
    known, done = list(processes), Counter[str]()
    while time.monotonic() < until:
        process = chance.choice(known)
        with suppress(psutil.Error, OSError):
            process.rlimit(psutil.RLIMIT_FSIZE, (_FULL_BYTES, psutil.RLIM_INFINITY))
            done["full disks"] += 1
            await asyncio.sleep(chance.uniform(1, 4))
            process.rlimit(psutil.RLIMIT_FSIZE, (psutil.RLIM_INFINITY, psutil.RLIM_INFINITY))
        await asyncio.sleep(chance.uniform(0.5, 5))
    return done


async def writes_to_a_full_disk(
    folder: Path, runtime: Path, chance: random.Random, until: float
) -> tuple[Counter[str], list[str]]:
    """How filling a file ended where nothing can be written, and faults: a file changed or left, or no line why."""
    done, faults = Counter[str](), list[str]()
    file, text = folder / "a.py", "x = 1\ny = ???\n"
    file.write_text(text)
    fill = partial(_command, environment(runtime), "fill", str(file), "--write", "--model", "embedded", first=_no_room)
    while time.monotonic() < until:
        status, said = await asyncio.to_thread(fill)
        done[f"fill --write on a full disk: {status}"] += 1
        if not said.startswith("infill-ls: ") or said.count("\n") != 1 or not status:
            faults.append(f"not one clear line: {status} {said[-300:]!r}")
        if file.read_text() != text or len(list(folder.iterdir())) > 1:
            faults.append(f"written: {[path.name for path in folder.iterdir()]}, {file.read_text()!r}")
        await asyncio.sleep(chance.uniform(2, 15))
    return done, faults


def _no_room() -> None:
    """From now on this process can write to no file."""
    resource.setrlimit(resource.RLIMIT_FSIZE, (_FULL_BYTES, _FULL_BYTES))


def _command(places: dict[str, str], *words: str, first: Callable[[], None] | None = None) -> tuple[int | None, str]:
    """The exit status of `infill-ls`, None if it hangs, and all that it says. The process does `first` first."""
    try:
        done = subprocess.run(
            [sys.executable, "-m", "lsp_server.cli", *words],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            env=places,
            timeout=180,
            check=False,
            preexec_fn=first,
        )
    except subprocess.TimeoutExpired as error:
        return None, f"Traceback: it hangs, {error.output!r}"
    return done.returncode, done.stdout.decode(errors="replace")


class HostileAnswers:
    """What a partner writes: sometimes sense, else commands to a terminal, noise, no end, or much too much."""

    def __init__(self, server: PartnerServer, chance: random.Random) -> None:
        self.server, self._chance = server, chance
        server.answer, server.raw = self.answer, self.raw

    def answer(self, asked: Asked) -> str:
        """A text, with characters in it that nobody may be shown."""
        self.server.status = self._chance.choice([200] * 6 + [500, 503, 302])
        self.server.delay_s = self._chance.choice([0.0, 0.0, 0.05, 3.0])
        unseen = self._chance.choice(["", *_UNSEEN])
        return self._chance.choice([sensible(asked) + unseen, unseen, f"a{unseen}b\n" * self._chance.randrange(200)])

    def raw(self, _asked: Asked) -> Iterable[bytes | None] | None:
        """Mostly None, which is an honest stream of `answer`."""
        noise = self._chance.randbytes(self._chance.randrange(3000))
        wrong = json.dumps({"choices": self._chance.choice([None, [], [7], [{"text": 7}], {"a": 1}])}).encode()
        choices: list[Iterable[bytes | None] | None] = [None] * 6
        return self._chance.choice([*choices, [noise], [b"data: " + wrong + b"\n\n"], [b"data: {}\n\n", None]])

    def leaks(self) -> int:
        """How many requests had something of the secret file in them."""
        return sum(SECRET in json.dumps(asked.body) for asked in self.server.asked)


async def pulls(folder: Path, chance: random.Random, until: float) -> tuple[Counter[str], list[str]]:
    """Pull models from a hub that lies, breaks off and names files elsewhere; how that ended, and what is a fault."""
    done, faults = Counter[str](), list[str]()
    model = folder / "served"
    model.mkdir()
    (model / "config.json").write_text('{"model_type": "qwen2"}')
    (model / "model.safetensors").write_bytes(chance.randbytes(3000))
    while time.monotonic() < until:
        kind = chance.choice(_LIES)
        home = folder / "home"
        status, said = await asyncio.to_thread(_pull, model, home, kind, chance.choice((-1, 0, 1e300, 1 << 62)))
        done[f"pull, {kind}: {status}"] += 1
        if "Traceback" in said or unseen_in(said) - {"\r"}:
            faults.append(f"{kind}: {said[-300:]!r}")
        if outside := [path.name for path in folder.iterdir() if path.name not in ("served", "home")]:
            faults.append(f"{kind}: written outside: {outside}")
        shutil.rmtree(home, ignore_errors=True)
        await asyncio.sleep(chance.uniform(0, 10))
    return done, faults


def _pull(model: Path, home: Path, kind: str, size: float) -> tuple[int | None, str]:
    """As `_command`."""
    with hub_of("team/model", model) as hub:
        hub.claims = {"model.safetensors": size} if kind == "size" else {}
        hub.also = ("../evil.json", "/tmp/evil.json", "a" * 300 + ".json") if kind == "name" else ()
        hub.cut_at, hub.damaged = (100 if kind == "cut" else None), ("config.json" if kind == "damaged" else "")
        hub.licence = "\x1b]0;mine\x07other" if kind == "licence" else "apache-2.0"
        places = {**environment(home), "HF_ENDPOINT": hub.url, "HF_HOME": str(home)}
        return _command(places, "models", "pull", "team/model")


def unseen_shown(messages: Iterable[Any]) -> int:
    """How many messages to an editor have characters in them that nobody can see."""
    return sum(bool(unseen_in(text)) for message in messages for text in _strings(message))


def _strings(value: Any) -> Iterable[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict | list):
        for each in value.values() if isinstance(value, dict) else value:
            yield from _strings(each)
