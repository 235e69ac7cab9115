"""Every message between a client (`lsp_server`) and the resident worker (`inference`).

This is all that the two packages share but for the table of published models. Do not import anything here but the
standard library and msgspec; a test enforces that. On the wire each message is one msgpack map with a `type` tag,
preceded by its length (see `frame`).

A field with a default may be missing from a message; the docstrings say what its default means. Every new field needs a
default, so that a client and a worker of different releases understand each other while they have the same
`PROTOCOL_VERSION`. Raise that version for a change that the other side could not survive. Offsets and counts of holes
start at 0, `_ms` and `_s` are durations, and lengths in tokens are in the loaded model's own tokens.
"""

from enum import StrEnum
from typing import Literal, get_args

import msgspec

PROTOCOL_VERSION = 1
MAX_MESSAGE_BYTES = 64 * 1024 * 1024
"""A longer message is a protocol error. Nothing that an editor sends comes near this size."""

MAX_STEPS = 1000
"""The highest `InfillRequest.max_steps`: no canvas has as many rows."""

MAX_CANDIDATES = 16
"""The most candidates that one request gets."""

REFINED_STRENGTH = 0.5
"""The `Hole.strength` that a partner is asked with for a hole whose `text` is a draft to improve on."""

PartnerKind = Literal[
    "auto",
    "suffix",
    "infill",
    "chat",
    "qwen2.5-coder",
    "starcoder2",
    "codegemma",
    "deepseek-coder",
    "codestral",
    "granite",
]
"""How an autoregressive server can be asked to fill a hole.

`auto` finds out. `suffix` is /v1/completions with a suffix, `infill` llama.cpp's /infill, `chat`
/v1/chat/completions. A family of models is /v1/completions with that family's fill-in-the-middle tokens.
"""
PARTNER_KINDS: tuple[str, ...] = get_args(PartnerKind)

LENGTH_BYTES = 4
"""Each message is preceded by its length as an unsigned big-endian integer of this many bytes."""


class _Message(msgspec.Struct, frozen=True, tag_field="type", omit_defaults=True):
    """Base of all messages: immutable, tagged. Fields that equal their default are left off the wire."""


# --- How a worker is started -----------------------------------------------------------------------------------------


class WorkerOptions(msgspec.Struct, frozen=True):
    """The model and how to run it. `idle_s` counts when a worker is started; the others choose the worker.

    `model` is `auto`, a name of the catalogue, a hub id, a folder, a file or the URL of a server. Of a server the last
    five count, too: the name by which it has the model, the folder or hub id of its tokenizer, whether http may leave
    this machine, whether the user's token goes there, and how an autoregressive server is asked (None: it is a vLLM
    that holds pins). None lets the worker choose.
    """

    model: str = "auto"
    device: str | None = None
    dtype: str | None = None
    idle_s: float = 600
    server_model: str | None = None
    server_tokenizer: str | None = None
    plain_http: bool = False
    sends_token: bool = True
    partner: PartnerKind | None = None


# --- What is to be filled -------------------------------------------------------------------------------------------


class HoleKind(StrEnum):
    """What the syntax around a hole asks for. It sets how much room the hole gets when `Hole.max_tokens` is 0."""

    EXPRESSION = "expression"
    ARGUMENTS = "arguments"
    LINE = "line"
    BODY = "body"
    BLOCK = "block"
    MARKER = "marker"


class Text(_Message, frozen=True, tag="text"):
    """Pinned text: it conditions the fill and is never changed."""

    text: str


class Hole(_Message, frozen=True, tag="hole"):
    """A place to fill. The fill replaces the hole.

    `min_tokens` and `max_tokens` bound the length of the fill; `max_tokens` 0 lets the engine choose from `kind`.
    `starts_with` is how the fill must begin; empty: with anything. `single_line` True forbids line breaks in the fill.
    `text` is what the hole holds now and `strength` how much of it to rework: 0 returns it unchanged, values between
    0 and 1 denoise from a partly noised `text`, 1 (the default) ignores it.
    """

    kind: HoleKind = HoleKind.LINE
    min_tokens: int = 1
    max_tokens: int = 0
    starts_with: str = ""
    single_line: bool = False
    text: str = ""
    strength: float = 1.0


class Snippet(_Message, frozen=True, tag="snippet"):
    """Text of another file that may help. It is context only and is never changed."""

    path: str
    text: str


# --- Client to worker -----------------------------------------------------------------------------------------------


class Hello(_Message, frozen=True, tag="hello"):
    """First message on a connection.

    `client` names the program that connects. `token` is the worker's secret where the transport is TCP, else empty.
    """

    protocol: int = PROTOCOL_VERSION
    client: str = ""
    token: str = ""


class InfillRequest(_Message, frozen=True, tag="infill"):
    """Fill the holes of `segments` together. `id` is unique among this connection's running requests, and not empty.

    `language` is an LSP language id; empty: not known. `path` is the file's name, for prompts; a connection's requests
    with the same path (empty, too) share one document's turns. `context` is text of other files, most useful first;
    checkpoints that have no use for it ignore it. `candidates` is how many answers are wanted, up to `MAX_CANDIDATES`.
    `deadline_ms` counts from the worker's receipt, and at the deadline the best whole answer so far is sent; None: no
    deadline. `max_steps` caps the denoising steps of each canvas, 1 to `MAX_STEPS`; None: the checkpoint's own number.
    `drafts` True asks for a `Draft` after each step. `seed` makes the fills repeatable; None: unseeded. `instruction`
    says what the user wants of the fills; checkpoints that take no instructions ignore it. `quick` True: nobody
    asked for it, so the engine tries less and answers sooner. `background` True: it runs only while the
    worker has nothing else to do, and ends as cancelled when it gets something else.
    """

    id: str
    segments: tuple[Text | Hole, ...]
    language: str = ""
    path: str = ""
    context: tuple[Snippet, ...] = ()
    candidates: int = 1
    deadline_ms: int | None = None
    max_steps: int | None = None
    drafts: bool = False
    seed: int | None = None
    instruction: str = ""
    quick: bool = False
    background: bool = False


class Hunk(_Message, frozen=True, tag="hunk"):
    """A change that was made: from line `line` (from 0) of the text as it is now, `new` stands where `old` stood.

    Both are whole lines with their line ends, and only a line feed ends a line; one of them may be empty.
    """

    line: int
    old: str
    new: str


class Edit(_Message, frozen=True, tag="edit"):
    """A change that could be made: `text` instead of what is between the offsets `start` and `end`.

    `score` says how sure the model is of it; comparable within one answer only.
    """

    start: int
    end: int
    text: str
    score: float = 0.0


class NextEditRequest(_Message, frozen=True, tag="next_edit"):
    """Which other places of `text` no longer fit since `hunks`, its latest changes, were made, newest last?

    The answer is one `NextEdits`, then `Done`. `text` is as it is now, and offsets are indices into it. `cursor` is
    where the user is; None: not known. `proposals` are edits that the caller has found by other means: those the model
    agrees with come back. `language`, `path` and `deadline_ms` are as in `InfillRequest`. A model that cannot judge
    edits finds none.
    """

    id: str
    text: str
    hunks: tuple[Hunk, ...]
    language: str = ""
    path: str = ""
    cursor: int | None = None
    proposals: tuple[Edit, ...] = ()
    deadline_ms: int | None = None


class Cancel(_Message, frozen=True, tag="cancel"):
    """Stop request `id` between two denoising steps. It still gets its final reply, `Done(outcome="cancelled")`."""

    id: str


class Amend(_Message, frozen=True, tag="amend"):
    """The user typed or accepted text at the start of hole number `hole` (from 0) of the running request `id`.

    `text` is all that the user has there now, from the hole's start. The worker pins it: where the canvas agrees with
    it, denoising goes on, else it starts again from there. The fills still begin with it.
    """

    id: str
    hole: int
    text: str


class StatusRequest(_Message, frozen=True, tag="status_request"):
    """Ask for one `Status`."""


class Shutdown(_Message, frozen=True, tag="shutdown"):
    """Ask the worker to finish what is running and exit."""


Request = InfillRequest | NextEditRequest
"""Each of them gets exactly one `Done` or `Failed`, last."""

ClientMessage = Hello | Request | Cancel | Amend | StatusRequest | Shutdown


# --- Worker to client -----------------------------------------------------------------------------------------------


class WorkerState(StrEnum):
    """What the worker is doing. `failed` means that the model could not be loaded; `Status.detail` says why."""

    LOADING = "loading"
    READY = "ready"
    BUSY = "busy"
    STOPPING = "stopping"
    FAILED = "failed"


class Welcome(_Message, frozen=True, tag="welcome"):
    """Answer to `Hello`. A `Status` follows at once, and again each time the worker's state changes.

    `version` is the worker's release, empty where it is not installed as a package; `pid` its process.
    """

    protocol: int = PROTOCOL_VERSION
    version: str = ""
    pid: int = 0


class Status(_Message, frozen=True, tag="status"):
    """The worker's state now.

    `model` is the name asked for; `device` and `dtype` are empty until they are known. `progress` is 0 to 1 while
    loading, and `detail` says what is being done, or why it failed. `pid` and `uptime_s` are the process's, `clients`
    counts its connections, `running` and `waiting` count requests. `memory_bytes` is the process's resident memory,
    `device_memory_bytes` what it holds on an accelerator. `context_tokens` is how much text of other files the model
    has a use for; 0: none, and none should be sent. `step_s` is how long the engine has been in its present step, 0
    between steps; a step of minutes never ends. `note` is what the user should know of the model; empty: nothing.
    `server` is the URL to which text goes; empty: it stays in the worker. `server_up_s` is how long the server has
    answered without failing, 0 while it does not, and `server_problem` why it failed last, until it answers again.
    `partner` is how an autoregressive server is asked (see `PARTNER_KINDS`); empty: the model is none. `sees_drafts`
    says whether a hole's draft (see `REFINED_STRENGTH`) is shown to it. `choice` is why the worker has chosen this
    model where `auto` was asked for; empty: it was named. `token_ms` is how long a pass that writes one token has taken
    lately, `prompt_token_ms` one token of a prompt; 0: not known.
    """

    state: WorkerState
    model: str = ""
    device: str = ""
    dtype: str = ""
    progress: float = 0.0
    detail: str = ""
    pid: int = 0
    uptime_s: float = 0.0
    clients: int = 0
    running: int = 0
    waiting: int = 0
    memory_bytes: int = 0
    device_memory_bytes: int = 0
    context_tokens: int = 0
    step_s: float = 0.0
    note: str = ""
    server: str = ""
    server_up_s: float = 0.0
    server_problem: str = ""
    partner: str = ""
    sees_drafts: bool = False
    choice: str = ""
    token_ms: float = 0.0
    prompt_token_ms: float = 0.0


class Draft(_Message, frozen=True, tag="draft"):
    """The canvas of request `id` after denoising step `step` of at most `max_steps`.

    For each hole, in document order: its tokens as text (`pieces`) and the probability of each, 0 to 1.
    """

    id: str
    step: int
    max_steps: int
    pieces: tuple[tuple[str, ...], ...]
    confidences: tuple[tuple[float, ...], ...]

    @property
    def texts(self) -> tuple[str, ...]:
        """The draft of each hole as one string."""
        return tuple("".join(pieces) for pieces in self.pieces)


class Candidate(_Message, frozen=True, tag="candidate"):
    """One whole answer: a text for each hole, in document order. Sent best first, all of them before `Done`.

    `score` is a mean log-probability per token (higher is better), comparable within one request only. `tokens` counts
    this candidate's hole tokens, `steps` the passes it took: denoising steps, or one per token where the model wrote
    from left to right. `ms` is the time since the engine began with the request. `complete` is False where a deadline
    cut it short; `unfilled` then numbers the holes (from 0) that there was no time for, whose texts are what they held
    before. `confidence` is the mean probability (0 to 1) that the model gave the tokens it chose; 1 where it is not
    known.
    """

    id: str
    texts: tuple[str, ...]
    score: float = 0.0
    steps: int = 0
    tokens: int = 0
    ms: float = 0.0
    complete: bool = True
    unfilled: tuple[int, ...] = ()
    confidence: float = 1.0


class NextEdits(_Message, frozen=True, tag="next_edits"):
    """The answer to a `NextEditRequest`: edits that do not overlap, best first; often none."""

    id: str
    edits: tuple[Edit, ...] = ()


class Outcome(StrEnum):
    """How a request ended without an error."""

    COMPLETE = "complete"
    DEADLINE = "deadline"
    CANCELLED = "cancelled"


class Stats(_Message, frozen=True, tag="stats"):
    """What a request cost. All but `ms` are 0 where it ended before the engine came to it.

    `ms` is the time since the engine began with it, or since receipt where the engine never did; `encode_ms` of that
    went into encoding prefixes. `steps` counts denoising steps and `canvases` the canvases that the holes took.
    `reused_tokens` of the `prefix_tokens` came from the prefix cache.
    """

    ms: float = 0.0
    encode_ms: float = 0.0
    steps: int = 0
    canvases: int = 0
    prefix_tokens: int = 0
    reused_tokens: int = 0


class Done(_Message, frozen=True, tag="done"):
    """The final reply to the request `id`, which did not fail."""

    id: str
    outcome: Outcome = Outcome.COMPLETE
    stats: Stats = Stats()


class ErrorCode(StrEnum):
    """Why a request or a connection failed."""

    BAD_REQUEST = "bad_request"
    BAD_MESSAGE = "bad_message"
    WRONG_PROTOCOL = "wrong_protocol"
    WRONG_TOKEN = "wrong_token"  # noqa: S105 - the name of an error, not a secret
    MODEL = "model"
    OUT_OF_MEMORY = "out_of_memory"
    STOPPED = "stopped"
    INTERNAL = "internal"
    SERVER = "server"
    """The server that has the model, which is not ours, failed or could not be reached. It is worth asking again."""


class Failed(_Message, frozen=True, tag="failed"):
    """The final reply to the request `id`, which failed; with an empty `id`, the end of the connection.

    `message` says what happened and what to do next, and is fit to be shown to a user.
    """

    id: str
    code: ErrorCode
    message: str


WorkerMessage = Welcome | Status | Draft | Candidate | NextEdits | Done | Failed


# --- Framing --------------------------------------------------------------------------------------------------------

_encoder = msgspec.msgpack.Encoder()
_client_decoder: msgspec.msgpack.Decoder[ClientMessage] = msgspec.msgpack.Decoder(ClientMessage)
_worker_decoder: msgspec.msgpack.Decoder[WorkerMessage] = msgspec.msgpack.Decoder(WorkerMessage)


def frame(message: ClientMessage | WorkerMessage) -> bytes:
    """One message as it goes over the wire: its length, then msgpack.

    Raises ValueError when the message is longer than `MAX_MESSAGE_BYTES`.
    """
    payload = _encoder.encode(message)
    if len(payload) > MAX_MESSAGE_BYTES:
        raise ValueError(f"message of {len(payload)} bytes is over the limit of {MAX_MESSAGE_BYTES}")
    return len(payload).to_bytes(LENGTH_BYTES, "big") + payload


def decode_client_message(payload: bytes) -> ClientMessage:
    """What a client sent. Raises msgspec.DecodeError (or ValidationError, its subclass) for anything else."""
    return _client_decoder.decode(payload)


def decode_worker_message(payload: bytes) -> WorkerMessage:
    """What a worker sent. Raises msgspec.DecodeError (or ValidationError, its subclass) for anything else."""
    return _worker_decoder.decode(payload)
