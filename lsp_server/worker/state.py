"""Where a client stands with its worker."""

from enum import StrEnum

from inference.messages import WorkerState


class ClientState(StrEnum):
    """`stopped` is no error: the next request starts a worker. `failed` and `backing_off` have a reason."""

    STOPPED = "stopped"
    STARTING = "starting"
    LOADING = "loading"
    READY = "ready"
    BUSY = "busy"
    STOPPING = "stopping"
    FAILED = "failed"
    BACKING_OFF = "backing_off"
    CLOSED = "closed"


OF_WORKER = {state: ClientState(state.value) for state in WorkerState}
"""What a connected client's state is, by its worker's."""
