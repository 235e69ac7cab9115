"""Reads framed messages from a stream and checks the handshake. Knows bytes and messages, no sockets."""

import asyncio
import hmac

import msgspec

from inference import messages
from inference.messages import ClientMessage, ErrorCode

MAX_HELLO_BYTES = 4096
"""An unidentified client may send no more than its first message needs."""


class RefusedError(Exception):
    """The connection ends: the last message to the client has `code` and str()."""

    def __init__(self, code: ErrorCode, message: str) -> None:
        super().__init__(message)
        self.code = code


class _Envelope(msgspec.Struct):
    type: str
    id: str = ""


async def read_payload(reader: asyncio.StreamReader, limit_bytes: int = messages.MAX_MESSAGE_BYTES) -> bytes:
    """One message's bytes. Raises RefusedError if it is too long, IncompleteReadError or OSError if the client left."""
    length = int.from_bytes(await reader.readexactly(messages.LENGTH_BYTES), "big")
    if length > limit_bytes:
        raise RefusedError(ErrorCode.BAD_MESSAGE, f"a message of {length} bytes is over the limit of {limit_bytes}")
    return await reader.readexactly(length)


def decode(payload: bytes) -> ClientMessage:
    """Decodes a client's message. Raises RefusedError for anything else."""
    try:
        return messages.decode_client_message(payload)
    except (msgspec.DecodeError, ValueError, RecursionError) as error:
        shape = str(error)[:200] if isinstance(error, msgspec.ValidationError) else "malformed msgpack"
        raise RefusedError(ErrorCode.BAD_MESSAGE, f"not a message of this protocol: {shape}") from error


def id_of_bad_request(payload: bytes) -> str:
    """The id of a request that cannot be decoded as a whole; empty if even that fails."""
    try:
        envelope = msgspec.msgpack.decode(payload, type=_Envelope)
    except (msgspec.DecodeError, ValueError, RecursionError):
        return ""
    return envelope.id if envelope.type in ("infill", "next_edit") else ""


def check_hello(message: ClientMessage, token: str) -> None:
    """Raises RefusedError unless it is a greeting with our protocol version and our token."""
    if not isinstance(message, messages.Hello):
        raise RefusedError(ErrorCode.BAD_MESSAGE, "the first message must be hello")
    if message.protocol != (ours := messages.PROTOCOL_VERSION):
        said = f"this worker speaks protocol {ours}, the client {message.protocol}; restart the editor"
        raise RefusedError(ErrorCode.WRONG_PROTOCOL, said)
    if not hmac.compare_digest(message.token.encode(), token.encode()):
        raise RefusedError(ErrorCode.WRONG_TOKEN, "wrong token; only the user who started this worker may use it")
