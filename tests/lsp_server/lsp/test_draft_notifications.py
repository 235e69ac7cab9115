"""`infill/draft` is sent no more often than an eye can follow, and never for a text that is gone."""

import math
import time

from inference.messages import Draft
from lsp_server.documents.document import Document
from lsp_server.documents.positions import Encoding
from lsp_server.fill.drafts import HoleDraft
from lsp_server.lsp.draft_notifications import INTERVAL_S, PAUSE_RATIO, DraftSender

DOCUMENT = Document("file:///a.py", "python", 7, "s = '😀'; x = \n")
HOLE = HoleDraft(13, 13, "1", ("1",), (0.5,))


class Sent(list[tuple[str, dict[str, object]]]):
    def __init__(self) -> None:
        super().__init__()
        told = {"kind": "inline", "encoding": Encoding.UTF16, "token": "t"}
        self.sender = DraftSender(lambda method, params: self.append((method, params)), **told)


def draft(step: int) -> Draft:
    return Draft("r", step, 8, (("1",),), ((0.5,),))


def test_a_pause_follows_a_draft_that_took_long_to_make() -> None:
    def slow() -> list[HoleDraft]:
        time.sleep(INTERVAL_S)
        return [HOLE]

    took_s = math.inf
    while took_s >= (1 + PAUSE_RATIO) * INTERVAL_S:  # the machine was busy, and the pause over
        sent, began_s = Sent(), time.monotonic()
        for step in range(2):
            sent.sender.send(draft(step), DOCUMENT, slow)
            time.sleep(INTERVAL_S)
        took_s = time.monotonic() - began_s
    assert len(sent) == 1


def test_nothing_is_sent_without_something_to_show() -> None:
    sent = Sent()
    sent.sender.send(draft(1), None, lambda: [HOLE])
    sent.sender.send(draft(1), DOCUMENT, list)
    assert sent == []
