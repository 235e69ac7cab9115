"""How an action can end without an edit. None of these is a fault: each is told to the user in plain words."""


class NotDone(Exception):
    """Nothing was changed. str() says why, and what to do next where something can be done."""


class Cancelled(NotDone):
    """The user has stopped it."""

    def __init__(self) -> None:
        super().__init__("cancelled")


STALE = "the file has changed since this was asked for; ask again"
CANNOT_APPLY = "this editor does not support workspace/applyEdit"
