"""Somebody who types into one server without a pause, asks for fills, and cancels many of them."""

import asyncio
import random
import time
from collections import Counter
from dataclasses import dataclass, field

from tests.e2e.raw_client import between
from tests.e2e.user import User
from tests.storm.hostile import SECRET

SOURCE = "import os\n\n\ndef add(a, b):\n    return a + b\n\n\ndef main():\n    ‸\n\n\nprint(???)\n"
WORDS = ("return os.path.join(", "for name in ", "if a is None:", "x = add(1, ", "print(os.", "with open(")
ACTION = (11, 7)


@dataclass(kw_only=True)
class Typist(User):
    """One client, and when each of its requests was sent, and cancelled, by the monotonic clock."""

    chance: random.Random
    text: str = SOURCE
    sent: dict[str, float] = field(default_factory=dict)
    cancelled: dict[str, float] = field(default_factory=dict)

    @property
    def secret(self) -> str:
        """A document beside the other one that no model may see."""
        return f"{self.uri.rpartition('/')[0]}/.env"

    def leaked(self) -> list[str]:
        """The requests in the secret document that were answered with anything."""
        replies = {key: self.client.replies.get(key, {}) for key in self.sent if key.startswith("secret")}
        return [key for key, reply in replies.items() if (reply.get("result") or {}).get("items")]

    async def type_on(self, until: float) -> None:
        """Type until the monotonic clock says `until`."""
        self.client.open(self.secret, f"KEY = {SECRET}\nOTHER = ")
        while time.monotonic() < until:
            await self._line(until)

    async def _line(self, until: float) -> None:
        self._rewrite_line("    ")
        for letter in self.chance.choice(WORDS):
            if time.monotonic() >= until:
                return
            self.type(letter)
            key = self._sends(self.ask(invoked=self.chance.random() < 0.2))
            await asyncio.sleep(self.chance.choice([0.01, 0.05, 0.15, 0.4]))
            if self.chance.random() < 0.5:
                self._cancel(key)
        if self.chance.random() < 0.5:
            self._run_command()
        key = self._sends(f"secret {len(self.sent)}")
        self.client.complete(key, self.secret, 1, 8, invoked=self.chance.random() < 0.5)

    def _rewrite_line(self, line: str) -> None:
        start = self.text.rindex("\n", 0, self.cursor) + 1
        self.replace(start, self.text.index("\n", start), line)

    def _run_command(self) -> None:
        key = self._sends(f"command {len(self.sent)}")
        params = {"command": "infill-ls.fillHole", "arguments": [{"uri": self.uri, "range": between(ACTION)}]}
        self.client.request(key, "workspace/executeCommand", params)
        if self.chance.random() < 0.3:
            self._cancel(key)

    def _sends(self, key: str) -> str:
        self.sent[key] = time.monotonic()
        return key

    def _cancel(self, key: str) -> None:
        self.client.cancel(key)
        self.cancelled[key] = time.monotonic()

    def lost(self) -> list[str]:
        return [key for key in self.sent if self.client.counts[key] == 0]

    def doubled(self) -> list[str]:
        return [key for key in self.sent if self.client.counts[key] > 1]

    def waits_s(self) -> list[float]:
        """How long each reply took that nobody cancelled, in seconds, the longest last."""
        arrived = self.client.arrived
        return sorted(
            arrived[key] - at for key, at in self.sent.items() if key in arrived and key not in self.cancelled
        )

    def cancel_waits_s(self) -> list[float]:
        """How long each reply took after its request was cancelled; below 0 where it came before."""
        arrived = self.client.arrived
        return sorted(arrived[key] - at for key, at in self.cancelled.items() if key in arrived)

    async def still_fills(self, within_s: float) -> bool:
        """Whether a fill gets an answer; a worker that was killed again and again is not started again at once."""
        give_up = time.monotonic() + within_s
        while time.monotonic() < give_up:
            self._rewrite_line("    return ")
            key = self._sends(self.ask(invoked=True))
            if (await self.client.reply(key)).get("result", {}).get("items"):
                return True
            await asyncio.sleep(1)
        return False

    def errors(self) -> dict[str, int]:
        """How many replies were errors, by code."""
        errors = (self.client.replies.get(key, {}).get("error") for key in self.sent)
        return dict(Counter(str(error["code"]) for error in errors if error))
