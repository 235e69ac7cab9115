"""The state of the worker and its model, as in the answer to `infill/status` and in `infill/didChangeStatus`.

Both carry the same object; the notification comes when its first three keys, the model or the server's problem change,
including the partner's:

    state      stopped (the next request starts the worker), starting, loading, ready, busy, stopping,
               failed, backing_off (it failed; there is a pause before the next try), closed
    detail     why it failed, or what it is doing while it loads
    progress   0 to 1 while loading
    model, device, dtype, pid, uptimeS, clients, running, waiting, memoryBytes
               as the worker said last; `null` where it has said nothing yet
    stepS      how long its model has been in one step, 0 between steps; after minutes it hangs; `null` as above
    tokenMs    how long it lately took to write a token, promptTokenMs to read one of a prompt; 0: not known
    contextTokens
               how many tokens of other files the model can use, 0 for none; `null` as above
    note       what the user should know of the model, "" for nothing; `null` as above
    choice     why this model was chosen, "" where it was named; `null` as above
    server     the URL to which text goes; "" where the model is on this machine; `null` as above
    serverUpS  how long that server has answered without failing, 0 while it does not; `null` as above
    serverProblem
               why it failed last, until it answers again, then ""; `null` as above
    lastFailure
               what went wrong with the worker last, even if all is well again; `null` where nothing did
    log        the file that the worker writes its log to
    partner    how the partner is that refines what the model drafts; `null` where none is configured, or it is the
               model itself: `name` of its model, `state` as above, `problem` (why it cannot be asked, or failed last;
               "" where all is well), `kind` (how it is asked), `seesDrafts` (`null`: not known yet), `server`, `log`

The answer to `infill/status` has two keys more:

    problems   what is wrong with the settings, a list of lines
    computing  whether an inline completion is being computed, even ahead of a request

With `{"textDocument": {"uri": …}}` as params it has these too, as of the request's arrival:

    off        why that document gets no fills, `null` where it does
    grammar    whether there is a grammar for its language; without one holes are chosen by indentation
    version    the version of the document that the server has; `null` where it has none
    sha256     of its text in UTF-8 (U+FFFD for a lone surrogate), in hex: a plugin compares it with its own
    noHole     with `"position"` beside `"textDocument"`: why no inline completion comes there, `null` if one may
"""

from collections.abc import Callable
from typing import Any

from inference.messages import Status
from inference.models.catalogue import EMBEDDED, FIRST, known
from lsp_server.worker import ClientState

METHOD = "infill/status"
CHANGED = "infill/didChangeStatus"
DOWNLOAD = f"Download the model {FIRST} ({known(FIRST).download_bytes / 1e6:.0f} MB)"
NO_MODEL = (
    "the tiny embedded model fills in, because there is no better one on this machine. It knows little, and Python "
    f"alone. For a real model pick the code action “{DOWNLOAD}”, or run `infill-ls models pull {FIRST}`"
)

_OF_WORKER = (
    *("model", "device", "dtype", "pid", "uptime_s", "clients", "running", "waiting", "memory_bytes", "step_s"),
    *("token_ms", "prompt_token_ms", "context_tokens", "note", "choice", "server", "server_up_s", "server_problem"),
)
"""The fields of `Status`, whose names are in camel case here."""


class StatusBoard:
    """The state of the client and its worker, and the worker's last status. Calls `notify` each time that changes."""

    def __init__(self, notify: Callable[[dict[str, Any]], None]) -> None:
        self.log = ""  # the path of the worker's log
        self._notify = notify
        self._last_failure: str | None = None
        self.state, self.detail = ClientState.STOPPED, ""
        self._status: Status | None = None
        self._notified: tuple[object, ...] = (self.state, self.detail, 0.0, None, None)

    @property
    def progress(self) -> float:
        """How much of the model is loaded, 0 to 1; 0 when it is not being loaded."""
        loading = self._status is not None and self.state is ClientState.LOADING
        return round(self._status.progress, 2) if loading and self._status else 0.0

    @property
    def makes_do(self) -> bool:
        """Whether the embedded model runs because `auto` found no better one on this machine."""
        return self._status is not None and self._status.model == EMBEDDED and bool(self._status.choice)

    def on_state(self, state: ClientState, detail: str, status: Status | None) -> None:
        """The client's connection has changed; `status` is what the worker has said of itself by now."""
        self.state, self.detail, self._status = state, detail, status
        if state in (ClientState.FAILED, ClientState.BACKING_OFF) and detail:
            self._last_failure = detail
        self._changed()

    def on_status(self, status: Status) -> None:
        """The worker has spoken."""
        self._status = status
        self._last_failure = status.server_problem or self._last_failure
        self._changed()

    def report(self) -> dict[str, Any]:
        """The whole object."""
        worker = {_camel(name): getattr(self._status, name, None) for name in _OF_WORKER}
        state = {"state": self.state.value, "detail": self.detail, "progress": self.progress}
        return {**state, **worker, "lastFailure": self._last_failure, "log": self.log or None}

    def _changed(self) -> None:
        told = self._status
        now = (self.state, self.detail, self.progress, told and told.model, told and told.server_problem)
        if now != self._notified:
            self._notified = now
            self._notify(self.report())


def _camel(name: str) -> str:
    first, *others = name.split("_")
    return first + "".join(map(str.capitalize, others))
