"""Reads framed messages from a stream and checks the handshake. Knows bytes and messages, no sockets."""

import asyncio
import hmac

import msgspec

from inference.messages import (
    LENGTH_BYTES,
    MAX_MESSAGE_BYTES,
    PROTOCOL_VERSION,
    ClientMessage,
    ErrorCode,
    Hello,
    decode_client_message,
)

MAX_HELLO_BYTES = 4096
"""A client that has not identified itself may send no more than its first message needs."""


class RefusedError(Exception):
    """The connection ends: `code` and str() go to the client in its last message."""

    def __init__(self, code: ErrorCode, message: str) -> None:
        super().__init__(message)
        self.code = code


class _Envelope(msgspec.Struct):
    type: str
    id: str = ""


async def read_payload(reader: asyncio.StreamReader, limit_bytes: int = MAX_MESSAGE_BYTES) -> bytes:
    """One message's bytes. The limit is checked before its body is read.

    Raises RefusedError when it is longer, asyncio.IncompleteReadError or OSError when the client is gone.
    """
    length = int.from_bytes(await reader.readexactly(LENGTH_BYTES), "big")
    if length > limit_bytes:
        raise RefusedError(ErrorCode.BAD_MESSAGE, f"a message of {length} bytes is over the limit of {limit_bytes}")
    return await reader.readexactly(length)


def decode(payload: bytes) -> ClientMessage:
    """What a client sent. Raises RefusedError for anything that is not one of its messages."""
    try:
        return decode_client_message(payload)
    except (msgspec.DecodeError, ValueError, RecursionError) as error:
        raise RefusedError(ErrorCode.BAD_MESSAGE, f"not a message of this protocol: {_shape_of(error)}") from error


def id_of_bad_request(payload: bytes) -> str:
    """The id of a request that could not be understood as a whole; empty when not even that can be."""
    try:
        envelope = msgspec.msgpack.decode(payload, type=_Envelope)
    except (msgspec.DecodeError, ValueError, RecursionError):
        return ""
    return envelope.id if envelope.type in ("infill", "score", "next_edit") else ""


def check_hello(message: ClientMessage, token: str) -> Hello:
    """The greeting, when it is one, of our protocol version and with our token. Raises RefusedError otherwise."""
    if not isinstance(message, Hello):
        raise RefusedError(ErrorCode.BAD_MESSAGE, "the first message must be hello")
    if message.protocol != PROTOCOL_VERSION:
        raise RefusedError(
            ErrorCode.WRONG_PROTOCOL,
            f"this worker speaks protocol {PROTOCOL_VERSION}, the client {message.protocol}; restart the editor",
        )
    if not hmac.compare_digest(message.token.encode(), token.encode()):
        raise RefusedError(ErrorCode.WRONG_TOKEN, "wrong token; only the user who started this worker may use it")
    return message


def _shape_of(error: Exception) -> str:
    """What was wrong, in msgspec's words, which name types and positions. For the sender only, not for the log."""
    return str(error)[:200] if isinstance(error, msgspec.ValidationError) else "malformed msgpack"
