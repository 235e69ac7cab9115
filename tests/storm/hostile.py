"""What surrounds the servers in a storm: damaged state files, planted links, a full disk, a hostile partner."""

import asyncio
import json
import os
import random
import time
from collections import Counter
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import Any

import psutil

from lsp_server.fill.postprocess import invisible_characters
from tests.partner_server import Asked, PartnerServer, sensible

SECRET = "SECRET_THAT_NOBODY_MAY_SEE"
PRECIOUS = "what the user has in a file that a link leads to\n"
_UNSEEN = ("\x1b[2J", "\u202e", "\u200b", "\ufeff", "\U000e0041", "\x00")
_FULL_BYTES = 0
STATE = ("usage/counters.sqlite", "*.log", "*.err", "infill-ls.toml")


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


def unseen_shown(messages: Iterable[Any]) -> int:
    """How many messages to an editor have characters in them that nobody can see."""
    return sum(bool(invisible_characters(text)) for message in messages for text in _strings(message))


def _strings(value: Any) -> Iterable[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict | list):
        for each in value.values() if isinstance(value, dict) else value:
            yield from _strings(each)
