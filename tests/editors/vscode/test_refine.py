"""Draft and refine in VS Code: the draft is there before the partner answers, is refined in place, and outlives it."""

from collections.abc import Callable, Iterator

import pytest

from tests.editors.partner import Partner
from tests.editors.places import until
from tests.editors.vscode import pictures
from tests.editors.vscode.code_server import CodeServer
from tests.editors.vscode.test_vscode import BASKET, HOLES
from tests.editors.vscode.window import Window

MEAN = '''\
def mean(numbers):
    """Return the mean of some numbers."""
    return
'''
BETTER = "sum(numbers) / len(numbers)"
TOLD = '.notification-list-item:has-text("infill-ls")'
Configure = Callable[..., None]


@pytest.fixture
def configure(window: Window, code_server: CodeServer, partner: Partner) -> Iterator[Configure]:
    partner.answers(BETTER)

    def configure(**more: object) -> None:
        code_server.set(infill__partner__url=partner.url, infill__partner__kind="chat", **more)
        window.status_is("Partner: ")
        window.status_is("sparkle")

    yield configure
    code_server.set()
    until(lambda: "Partner: " not in window.status, "there is no partner")
    window.status_is("sparkle")
    window.run("Notifications: Clear All Notifications")


def drafted(window: Window, name: str, *, explicit: bool = True) -> str:
    """The ghost text that is shown; by itself the small model is too unsure in most files."""
    window.open(name, MEAN)
    window.go_to(3, 11)
    window.type(" ")
    if explicit:
        window.run("Trigger Inline Suggestion")
    ghost = window.await_ghost()
    assert ghost != BETTER
    return ghost


def with_text(text: str) -> str:
    return MEAN.replace("return\n", f"return {text}\n")


def test_draft_is_refined_in_place_and_taken(window: Window, partner: Partner, configure: Configure) -> None:
    configure()
    draft = drafted(window, "refine.py", explicit=False)
    with pictures.film(window, "refine", width=600, height=130):
        with partner.held():
            window.press("Alt+i", "p")
            assert partner.until_asked()["draft"] == draft
            assert window.ghost == draft
        until(lambda: window.ghosts[-1:] == [BETTER], "the ghost text is refined in place")
    assert window.ghosts[-2:] == [draft, BETTER], "nothing else is on screen in between, and never nothing"
    window.press("Tab")
    assert window.saved() == with_text(BETTER)


def test_a_draft_that_was_asked_for_is_refined_twice(window: Window, partner: Partner, configure: Configure) -> None:
    configure()
    drafted(window, "twice.py")
    for answer in (BETTER, "statistics.mean(numbers)"):
        partner.answers(answer)
        window.press("Alt+i", "p")
        until(lambda answer=answer: window.ghosts[-1:] == [answer], "the ghost text is refined")
    window.press("Tab")
    assert window.saved() == with_text("statistics.mean(numbers)")


def test_draft_taken_while_the_partner_thinks(window: Window, partner: Partner, configure: Configure) -> None:
    configure()
    draft = drafted(window, "taken.py")
    with partner.held():
        window.press("Alt+i", "p")
        partner.until_asked()
        window.press("Tab")
        assert window.saved() == with_text(draft)
    window.status_is("sparkle")
    assert BETTER not in window.ghost
    assert window.saved() == with_text(draft)


def test_draft_outlives_the_partner(window: Window, partner: Partner, configure: Configure) -> None:
    configure()
    draft = drafted(window, "dead.py")
    partner.end()
    window.press("Alt+i", "p")
    window.page.wait_for_selector(TOLD)
    assert window.ghost == draft
    window.press("Tab")
    assert window.saved() == with_text(draft)


def test_a_selection_is_refined_and_previewed(window: Window, partner: Partner, configure: Configure) -> None:
    configure()
    partner.answers("[item for item in ()]")
    window.open("selected.py", BASKET)
    window.go_to(5, 22)
    window.press("Shift+End", "Alt+i", "p")
    window.await_preview()
    assert partner.asked[-1]["draft"] == "[]"
    window.press("Enter")
    text = window.changed(BASKET)
    assert text == BASKET.replace("self.items = []", "self.items = [item for item in ()]")


def test_a_statement_just_filled_is_refined(window: Window, partner: Partner, configure: Configure) -> None:
    configure()
    partner.answers("self.items = [item for item in ()]")
    window.open("made.py", HOLES)
    window.go_to(5, 22)
    window.press("Alt+i", "h")
    window.await_preview()
    window.press("Enter")
    filled = window.changed(HOLES)
    window.press("Alt+i", "p")
    window.await_preview()
    assert partner.asked[-1]["draft"] in filled.splitlines()[4]
    window.press("Enter")
    text = window.changed(filled)
    assert text == HOLES.replace("self.items = ???", "self.items = [item for item in ()]")
