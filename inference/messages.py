"""Every message between a client (`lsp_server`) and the resident worker (`inference`).

The two packages share only this and the table of published models. Import nothing here but the standard library and
msgspec; a test enforces that. On the wire each message is one msgpack map with a `type` tag, preceded by its length
(see `encode_frame`).

A field with a default may be missing from a message; the docstrings say what its default means. Every new field needs a
default, so that a client and a worker of different releases understand each other as long as they have the same
`PROTOCOL_VERSION`. Raise that version for a change that the other side could not survive. Offsets and counts of holes
start at 0, `_ms` and `_s` are durations, and lengths in tokens are in the loaded model's own tokens.
"""

import hashlib
from collections.abc import Callable, Iterable, Iterator
from enum import StrEnum
from importlib.metadata import version
from pathlib import Path
from typing import ClassVar, Literal

import msgspec

PROTOCOL_VERSION = 2
BYTES_PER_TOKEN = 3
"""With the supported tokenizers, code has 3 to 4 bytes of UTF-8 per token; other scripts have about one character."""
MAX_MESSAGE_BYTES = 64 * 1024 * 1024
"""A longer message is a protocol error. No editor sends anything near this size."""

MAX_STEPS = 1000
"""The highest `InfillRequest.max_steps`: no canvas has as many rows."""

MAX_CANDIDATES = 16

MAX_PROPOSALS, MAX_PROPOSED_CHARACTERS = 24, 2_000
"""The most `NextEditRequest.proposals`, and the most characters in the old and in the new text of each."""

REFINED_STRENGTH = 0.5
"""The `Hole.strength` that asks a partner to improve a hole's `text`, which is a draft."""

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
    "seed-coder",
    "mellum",
    "codellama",
    "granite",
]
"""The API of an autoregressive server for filling a hole.

`auto` finds out. `suffix` is /v1/completions with a suffix, `infill` llama.cpp's /infill, `chat` /v1/chat/completions.
A model family is /v1/completions with that family's fill-in-the-middle tokens.
"""

EditKind = Literal["auto", "zeta-2.1", "zeta-2", "zeta", "sweep"]
"""The prompt of an edit model, which rewrites the lines around the cursor; `auto` chooses it by the model's name.

`zeta-2.1` and `zeta-2` are Zed's, `zeta` its first, `sweep` Sweep's next-edit models.
"""

LENGTH_BYTES = 4
"""Each message is preceded by its length as an unsigned big-endian integer of this many bytes."""


class _Message(msgspec.Struct, frozen=True, tag_field="type", omit_defaults=True):
    """Base of all messages: immutable, tagged. Fields equal to their defaults are left off the wire."""


# --- How a worker is started -----------------------------------------------------------------------------------------


class WorkerOptions(msgspec.Struct, frozen=True):
    """The model and how to run it. `idle_s` counts when a worker is started; the others choose the worker.

    `model` is `auto`, a name of the catalogue, a hub id, a folder, a file or the URL of a server. Those from
    `server_model` to `partner` apply only to a server: its name for the model, the folder or hub id of its tokenizer,
    whether http may leave this machine, whether to send the user's token, and how to ask an autoregressive server
    (None: it is a vLLM that holds pins). `edits` is the prompt of an edit model, which fills no holes. None lets the
    worker choose.
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
    edits: EditKind | None = None

    @property
    def worker_name(self) -> str:
        """The name of the worker of these options. Another version of the code or another checkpoint makes another."""
        chosen = [getattr(self, name) for name in WorkerOptions.__struct_fields__ if name != "idle_s"]
        parts = [str(part) for part in (PROTOCOL_VERSION, *chosen, *_installation())]
        return hashlib.sha256(repr(parts).encode()).hexdigest()[:16]


def _installation() -> list[object]:
    code = Path(__file__).resolve().parent
    weights = code / "embedded" / "model.safetensors"
    status = weights.stat() if weights.is_file() else None
    return [version("infill-ls"), code, status and (status.st_mtime_ns, status.st_size)]


# --- What to fill ----------------------------------------------------------------------------------------------------


class HoleKind(StrEnum):
    """The syntactic kind of a hole. It decides the fill's token limit if `Hole.max_tokens` is 0."""

    EXPRESSION = "expression"
    LINE = "line"
    BODY = "body"
    BLOCK = "block"
    MARKER = "marker"


class PinnedText(_Message, frozen=True, tag="text"):
    """Pinned text: it conditions the fill and never changes."""

    text: str


class Hole(_Message, frozen=True, tag="hole"):
    """A place to fill. The fill replaces the hole.

    `min_tokens` and `max_tokens` bound the length of the fill; `max_tokens` 0 lets the engine choose from `kind`.
    `may_be_empty` True: the model may find that nothing is missing, unless the line cannot end there. The fill must
    begin with `starts_with`; empty: with anything. `single_line` True forbids line breaks in the fill. `text`
    is the hole's current text and `strength` how much of it to rework: 0 returns it unchanged, values between 0 and 1
    denoise from a partly noised `text`, 1 (the default) ignores it. `closable` are the closing brackets that the fill
    may write without their partners, in order, and `quotes` ends the string it is in, empty for code; None: not known.
    """

    kind: HoleKind = HoleKind.LINE
    min_tokens: int = 1
    max_tokens: int = 0
    starts_with: str = ""
    single_line: bool = False
    text: str = ""
    strength: float = 1.0
    closable: str | None = None
    quotes: str | None = None
    may_be_empty: bool = False


class Snippet(_Message, frozen=True, tag="snippet"):
    """Text of another file, or of a far part of this one, that may help. It is context only and never changes."""

    path: str
    text: str


def estimate_tokens(text: str) -> int:
    """An upper estimate of the number of tokens in a text, without the model's tokenizer."""
    return -(-len(text.encode("utf-8", "replace")) // BYTES_PER_TOKEN)


def fit_snippets(snippets: Iterable[Snippet], max_tokens: int) -> Iterator[Snippet]:
    """The first snippets that together fit into `max_tokens`, and the whole lines of the next one that still fit."""
    for snippet in snippets:
        max_tokens -= estimate_tokens(snippet.path)
        data = snippet.text.encode("utf-8", "replace")
        max_bytes = max(max_tokens, 0) * BYTES_PER_TOKEN
        if fitting := data if len(data) <= max_bytes else data[: data.rfind(b"\n", 0, max_bytes) + 1]:
            yield Snippet(snippet.path, fitting.decode())
        max_tokens -= estimate_tokens(snippet.text)
        if max_tokens <= 0:
            return


# --- Client to worker -----------------------------------------------------------------------------------------------


class Hello(_Message, frozen=True, tag="hello"):
    """First message on a connection. `client` names the program; `token` is the worker's secret, for TCP alone."""

    protocol: int = PROTOCOL_VERSION
    client: str = ""
    token: str = ""


class InfillRequest(_Message, frozen=True, tag="infill"):
    """Fill the holes of `segments` together. `id` is not empty, and unique among this connection's running requests.

    `language` is an LSP language id; empty: not known. `path` is the file's name, for prompts; of one client's requests
    those go first whose document has fewer running ones. `name_comment` is a comment line in the file's language that
    tells its name, for prompts that hold only the file; empty: there is none. `context` is further text, most useful
    first; checkpoints that cannot use it ignore it. `candidates` is the number of answers wanted, up to
    `MAX_CANDIDATES`. `deadline_ms` counts from the worker's receipt; at the deadline the worker sends the best whole
    answer so far; None: after ten minutes. `max_steps` caps the denoising steps of each canvas, 1 to `MAX_STEPS`; None:
    the checkpoint's own number. `drafts` True asks for a `Draft` after each step. `seed` makes the fills repeatable;
    None: repeatable for the same segments asked for the n-th time. `instruction` describes the fills the user wants;
    checkpoints without instructions ignore it. `quick` True: the user did not ask, so the engine tries less and answers
    sooner. `min_prob`: a single hole's text may end behind its first token less likely than this, since nothing after
    that is shown. `prefill_only` True: the request fills nothing and ends at once; the worker prefills its prompt when
    idle. `reads_ahead` True: after the fill the worker prefills, when idle, the prompt for the next line, as if the
    user had accepted the text. `endpoint_client` names a client of an HTTP endpoint, which sends the requests of all
    its clients over one connection; they go after editors. Empty: the connection is the client.
    """

    id: str
    segments: tuple[PinnedText | Hole, ...]
    language: str = ""
    path: str = ""
    name_comment: str = ""
    context: tuple[Snippet, ...] = ()
    candidates: int = 1
    deadline_ms: int | None = None
    max_steps: int | None = None
    drafts: bool = False
    seed: int | None = None
    instruction: str = ""
    quick: bool = False
    min_prob: float = 0.0
    prefill_only: bool = False
    reads_ahead: bool = False
    endpoint_client: str = ""


class Hunk(_Message, frozen=True, tag="hunk"):
    """A change that was made: from line `line` (from 0) of the current text, `new` has replaced `old`.

    Both are whole lines with their line ends, and only a line feed ends a line; one of them may be empty. `path` is
    another file that was changed; empty: the file that the request is about.
    """

    line: int
    old: str
    new: str
    path: str = ""


class ScoredEdit(_Message, frozen=True, tag="edit"):
    """A possible change: `text` replaces the range between the offsets `start` and `end`.

    `score` is the model's confidence, comparable within one answer only. In a proposal it is the similarity of its
    lines to those of the change that it repeats, from 0 to 1.
    """

    start: int
    end: int
    text: str
    score: float = 0.0


class NextEditRequest(_Message, frozen=True, tag="next_edit"):
    """Asks which other places of `text` no longer fit after `hunks`, its latest changes, newest last.

    The answer is one `NextEdits`, then `Done`. `text` is the current text, and offsets are indices into it. `cursor` is
    the user's position; None: not known. `language`, `path` and `deadline_ms` are as in `InfillRequest`. A causal model
    judges the `proposals`, edits of whole lines, and writes one of its own for the whole lines of each of `regions`;
    a model that cannot judge answers with no edits. An edit model answers with its rewrite of the lines around the
    cursor.
    """

    quick: ClassVar[bool] = False
    endpoint_client: ClassVar[str] = ""

    id: str
    text: str
    hunks: tuple[Hunk, ...]
    language: str = ""
    path: str = ""
    cursor: int | None = None
    deadline_ms: int | None = None
    proposals: tuple[ScoredEdit, ...] = ()
    regions: tuple[tuple[int, int], ...] = ()


class Cancel(_Message, frozen=True, tag="cancel"):
    """Stop request `id` between two denoising steps. It still gets its final reply, `Done(outcome="cancelled")`."""

    id: str


class StatusRequest(_Message, frozen=True, tag="status_request"):
    """Ask for one `Status`."""


class Shutdown(_Message, frozen=True, tag="shutdown"):
    """Ask the worker to finish running requests and exit. `if_unused`: only if it has no other clients; otherwise it
    answers with its `Status`.
    """

    if_unused: bool = False


class ChooseModelAgain(_Message, frozen=True, tag="choose_again"):
    """A model was pulled: a worker of `auto` chooses again, and ends if it would now choose another model."""


Request = InfillRequest | NextEditRequest
"""Each of these gets exactly one `Done` or `Failed`, last."""

ClientMessage = Hello | Request | Cancel | StatusRequest | Shutdown | ChooseModelAgain


# --- Worker to client -----------------------------------------------------------------------------------------------


class WorkerState(StrEnum):
    """The worker's activity. `failed` means that the model could not be loaded; `Status.detail` says why."""

    LOADING = "loading"
    READY = "ready"
    BUSY = "busy"
    STOPPING = "stopping"
    FAILED = "failed"


class Welcome(_Message, frozen=True, tag="welcome"):
    """Answer to `Hello`. A `Status` follows immediately, and again each time the worker's state changes.

    `version` is the worker's release, `pid` its process.
    """

    protocol: int = PROTOCOL_VERSION
    version: str = ""
    pid: int = 0


class Status(_Message, frozen=True, tag="status"):
    """The worker's current state.

    `model` is the requested name; `device` and `dtype` are empty until known. `progress` is 0 to 1 while loading, and
    `detail` says what is happening, or why it failed. `pid` and `uptime_s` are the process's, `clients` counts its
    connections, `running` and `waiting` count requests. `memory_bytes` is the process's resident memory,
    `device_memory_bytes` its memory on an accelerator. `context_tokens` is how much text of other files the model can
    use; 0: none, so send none. `step_s` is the time the engine has spent in its current step, 0 between steps; a step
    of minutes has hung. `note` is a message about the model for the user; empty: nothing. `server` is the URL that
    receives text; empty: text stays in the worker. `server_up_s` is how long the server has answered without failing, 0
    while it does not, and `server_problem` why it last failed, until it answers again. `partner` is how to ask an
    autoregressive server (see `PartnerKind`); empty: the model is none. `sees_drafts` tells whether it sees a hole's
    draft (see `REFINED_STRENGTH`). `choice` is why the worker chose this model for `auto`; empty: the model was named.
    `better` is the catalogue's model for this machine, if the worker runs the embedded one for want of a pulled one.
    `token_ms` is the recent duration of a pass that writes one token, `prompt_token_ms` of one token of a prompt; 0:
    not known. `edits` is the prompt of an edit model (see `EditKind`); None: the model is none. `choices` counts the
    answers to `ChooseModelAgain`. `ahead_tokens` were prefilled before they were asked for, and `ahead_hits` counts the
    requests that this helped.
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
    better: str = ""
    token_ms: float = 0.0
    prompt_token_ms: float = 0.0
    edits: EditKind | None = None
    choices: int = 0
    ahead_tokens: int = 0
    ahead_hits: int = 0


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
        return tuple("".join(pieces) for pieces in self.pieces)


class FilledHoles(_Message, frozen=True, tag="candidate"):
    """A candidate: a text for each hole, in document order. Sent best first, all of them before `Done`.

    `score` is a mean log-probability per token (higher is better), comparable within one request only. `tokens` counts
    this candidate's hole tokens, `steps` its passes: denoising steps, or one per token if the model wrote from left to
    right. `ms` is the time since the engine began with the request. `complete` is False if a deadline cut it short;
    `unfilled` then numbers the holes (from 0) that there was no time for, which keep their previous texts. `pieces` and
    `confidences` are as in `Draft`, and empty for a hole whose tokens or probabilities are not known.
    """

    id: str
    texts: tuple[str, ...]
    score: float = 0.0
    steps: int = 0
    tokens: int = 0
    ms: float = 0.0
    complete: bool = True
    unfilled: tuple[int, ...] = ()
    pieces: tuple[tuple[str, ...], ...] = ()
    confidences: tuple[tuple[float, ...], ...] = ()


class NextEdits(_Message, frozen=True, tag="next_edits"):
    """The answer to a `NextEditRequest`: edits that do not overlap, best first; often none."""

    id: str
    edits: tuple[ScoredEdit, ...] = ()


class Outcome(StrEnum):
    """How a request ended without an error."""

    COMPLETE = "complete"
    DEADLINE = "deadline"
    CANCELLED = "cancelled"


class Stats(_Message, frozen=True, tag="stats"):
    """The cost of a request. All but `ms` are 0 if it ended before the engine began with it.

    `ms` is the time since the engine began with it, or since receipt if the engine never did; `encode_ms` of that was
    spent encoding prefixes. `steps` counts denoising steps and `canvases` the canvases that the holes took.
    `reused_tokens` of the `prefix_tokens` came from the prefix cache.
    """

    ms: float = 0.0
    encode_ms: float = 0.0
    steps: int = 0
    canvases: int = 0
    prefix_tokens: int = 0
    reused_tokens: int = 0


class Done(_Message, frozen=True, tag="done"):
    """The final reply to the request `id`, which succeeded or was cancelled."""

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
    """The remote server of the model failed or could not be reached. Try again later."""


class Failed(_Message, frozen=True, tag="failed"):
    """The final reply to the request `id`, which failed; with an empty `id`, the end of the connection.

    `message` tells the user what happened and what to do next.
    """

    id: str
    code: ErrorCode
    message: str


WorkerMessage = Welcome | Status | Draft | FilledHoles | NextEdits | Done | Failed


# --- Framing --------------------------------------------------------------------------------------------------------

_encoder = msgspec.msgpack.Encoder()


def encode_frame(message: ClientMessage | WorkerMessage) -> bytes:
    """One message as sent: its length, then msgpack. Raises ValueError if it is longer than `MAX_MESSAGE_BYTES`."""
    payload = _encoder.encode(message)
    if len(payload) > MAX_MESSAGE_BYTES:
        raise ValueError(f"message of {len(payload)} bytes is over the limit of {MAX_MESSAGE_BYTES}")
    return len(payload).to_bytes(LENGTH_BYTES, "big") + payload


# Both raise msgspec.DecodeError (or ValidationError, its subclass) for anything else.
decode_client_message: Callable[[bytes], ClientMessage] = msgspec.msgpack.Decoder(ClientMessage).decode
decode_worker_message: Callable[[bytes], WorkerMessage] = msgspec.msgpack.Decoder(WorkerMessage).decode
