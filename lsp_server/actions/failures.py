"""How an action can end without an edit. None of these is a fault: each is told to the user in plain words."""


class NotDone(Exception):
    """Nothing was changed. str() says why, and what to do next where something can be done."""


class Cancelled(NotDone):
    """The user has stopped it."""

    def __init__(self) -> None:
        super().__init__("cancelled")


STALE = "the file has changed since this was asked for; ask again"
NOTHING_FITS = "the model found nothing that fits here"
NOTHING_TO_CHANGE = "nothing to change: the model would write what stands there already"
TOO_LATE = "no answer within {} ms; try again, or raise deadlineMs.invoked"
LEFT = "{} of {} holes are left as they are: nothing that fits was found for them, or there was no time"
CANNOT_APPLY = "this editor does not support workspace/applyEdit"
