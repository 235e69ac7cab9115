"""The state of the worker and its model, as `infill/status` reports it (editors/README.md has the contract)."""

from collections.abc import Callable
from typing import Any

from inference.messages import Status
from inference.models.catalogue import EMBEDDED, FIRST, known
from lsp_server.worker import ClientState

METHOD = "infill/status"
CHANGED = "infill/didChangeStatus"
_OF_WORKER = (
    *("model", "device", "dtype", "pid", "uptime_s", "clients", "running", "waiting", "memory_bytes", "step_s"),
    *(
        "token_ms",
        "prompt_token_ms",
        "context_tokens",
        "note",
        "choice",
        "better",
        "server",
        "server_up_s",
        "server_problem",
    ),
)
_NAMES = {name: name[0] + name.title().replace("_", "")[1:] for name in _OF_WORKER}
"""The fields of `Status`, and their names in camel case."""


class StatusBoard:
    """The state of the client and its worker, and the worker's last status. Calls `notify` each time that changes."""

    def __init__(self, notify: Callable[[dict[str, Any]], None]) -> None:
        self.log = ""  # the path of the worker's log
        self.is_auto = False  # whether nobody named a model
        self._notify = notify
        self._last_failure: str | None = None
        self.state = ClientState.STOPPED
        self.detail = ""
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
        return self.is_auto and self._status is not None and self._status.model == EMBEDDED

    @property
    def better(self) -> str:
        """The model to pull in its place: the one that suits this machine."""
        return (self._status.better if self._status else "") or FIRST

    @property
    def download(self) -> str:
        """The title of the command that downloads it."""
        return f"Download the model {self.better} ({known(self.better).download_bytes / 1e6:.0f} MB)"

    @property
    def no_model(self) -> str:
        """What to tell a user for whom the embedded model must do."""
        return (
            "the tiny embedded model fills in, because no pulled model runs here. It knows little, and only Python. "
            f"For a real model pick the code action “{self.download}”, or run `infill-ls models pull {self.better}`"
        )

    def on_state(self, state: ClientState, detail: str, status: Status | None) -> None:
        """The client's connection has changed; `status` is what the worker has said of itself by now."""
        self.state = state
        self.detail = detail
        self._status = status
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
        worker = {shown: getattr(self._status, name, None) for name, shown in _NAMES.items()}
        state = {"state": self.state.value, "detail": self.detail, "progress": self.progress}
        return {**state, **worker, "lastFailure": self._last_failure, "log": self.log or None}

    def _changed(self) -> None:
        told = self._status
        now = (self.state, self.detail, self.progress, told and told.model, told and told.server_problem)
        if now != self._notified:
            self._notified = now
            self._notify(self.report())
