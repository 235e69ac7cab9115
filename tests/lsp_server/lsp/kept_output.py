"""Records a server's output, in place of a transport."""

import json
from typing import Any


class KeptOutput:
    """Keeps the bodies of all messages that are written to it."""

    def __init__(self) -> None:
        self.bodies: list[bytes] = []

    def write(self, body: bytes) -> None:
        self.bodies.append(body)

    @property
    def messages(self) -> list[Any]:
        """All messages, which must be strict JSON."""
        return [json.loads(body, parse_constant=lambda name: 1 / 0) for body in self.bodies]

    @property
    def replies(self) -> list[Any]:
        return [message for message in self.messages if "method" not in message]
