"""infill-ls in real VS Code: the extension installed from its file, the real server, worker and embedded model."""

import re
from contextlib import suppress
from pathlib import Path

import pytest
from playwright.sync_api import BrowserContext, TimeoutError

from tests.editors.partner import Partner
from tests.editors.places import until
from tests.editors.vscode import pictures
from tests.editors.vscode.code_server import CodeServer
from tests.editors.vscode.window import STATUS, Window

BASKET = '''\
class Basket:
    """What somebody is going to buy."""

    def __init__(self):
        self.items = []

    def add(self, item):
        if item not in self
            self.items.append(item)
'''
HALF_LINE = (8, 28)
BODY = '''\
import os


def parent(path):
    """Return the folder of a path, whether it is there."""


def size(path):
    """Return the size of a file in bytes."""
    return os.path.getsize(path)
'''
SOON_S = 3.0
NOTHING_S = 30.0
"""After this long, the model has found nothing."""
HOLES = '''\
class Basket:
    """What somebody is going to buy."""

    def __init__(self):
        self.items = ???

    def add(self, item):
        if item not in self.???:
            self.items.append(???)
'''


def is_filled(text: str, template: str) -> bool:
    pattern = "(.*?)".join(re.escape(part) for part in template.split("???"))
    found = re.fullmatch(pattern, text, re.DOTALL)
    return found is not None and all("???" not in fill and fill.strip() for fill in found.groups())


def ghost_after_dot(window: Window, name: str) -> str:
    """The ghost text of the half line."""
    window.open(name, BASKET)
    window.go_to(*HALF_LINE)
    window.type(".")
    return window.await_ghost()


def test_a_suggestion_is_accepted_with_tab(window: Window) -> None:
    ghost = ghost_after_dot(window, "tab.py")
    pictures.take(window, "ghost-text", width=600, height=250)
    window.press("Tab")
    assert window.saved() == BASKET.replace("not in self", f"not in self.{ghost}")


def test_a_word_of_a_suggestion_is_taken_and_the_rest_stays(window: Window) -> None:
    ghost = ghost_after_dot(window, "word.py")
    window.press("Control+ArrowRight")
    before, after = BASKET.split("not in self")
    text = window.changed(f"{before}not in self.{after}")
    taken = text.removeprefix(f"{before}not in self.").removesuffix(after)
    assert ghost.startswith(taken)
    assert ghost == taken or until(lambda: window.ghost, "the rest is offered")


def test_drafts_settle_before_a_suggestion(window: Window) -> None:
    """Tried again where the small model finds nothing, or where the machine is so fast that all drafts fall into one
    frame.
    """
    for attempt in range(8):
        seen = len(window.drafts)
        window.open(f"settle-{attempt}.py", BODY)
        window.go_to(5, 1)
        window.press("End", "Enter")
        window.run("Trigger Inline Suggestion")  # by itself the small model is too unsure
        if window.ghost_within(NOTHING_S):
            until(lambda: window.drawn == "", "the drafts are gone")
            assert window.saved() == BODY.replace('there."""\n', 'there."""\n    \n')
            if len(window.drafts) > seen + 1:
                return
    pytest.fail("no drafts were ever seen to settle")


def test_the_light_bulb_fills_all_holes_and_changes_nothing_else(window: Window) -> None:
    """Tried again where a busy machine showed all drafts in one frame."""
    for attempt in range(8):
        seen = len(window.drafts)
        window.open(f"bulb-{attempt}.py", HOLES)
        window.go_to(9, 32)
        titles = window.light_bulb()
        pictures.take(window, "light-bulb", width=730, height=340)
        window.pick(next(title for title in titles if "3 holes" in title))
        until(lambda: "???" not in window.page.locator(".view-lines").first.inner_text(), "the holes are filled")
        assert is_filled(window.saved(), HOLES)
        if len(set(window.drafts[seen:])) > 1:
            return
    pytest.fail("no drafts were ever seen")


def test_a_fill_is_previewed_and_taken_with_enter(window: Window) -> None:
    window.open("enter.py", HOLES)
    window.go_to(5, 22)
    with pictures.film(window, "settling", width=600, height=280):
        window.press("Alt+i", "a")
        preview = window.await_preview()
    pictures.take(window, "preview", width=600, height=280)
    assert window.saved() == HOLES
    window.press("Enter")
    until(lambda: not window.drawn, "the preview is gone")
    text = window.changed(HOLES)
    assert is_filled(text, HOLES)
    fills = re.fullmatch("(.*?)".join(map(re.escape, HOLES.split("???"))), text, re.DOTALL)
    assert fills and "".join(fills.groups()) == preview


def test_a_preview_is_left_with_escape(window: Window) -> None:
    window.open("escape.py", HOLES)
    window.run("Infill: Fill All Holes of the File")
    window.await_preview()
    window.press("Escape")
    until(lambda: not window.drawn, "the preview is gone")
    window.status_is("sparkle")
    window.press("End", "Enter")  # Enter is a line break again
    assert window.saved() == HOLES.replace("\n", "\n    \n", 1)


def test_typing_on_cancels_a_fill(window: Window) -> None:
    window.open("cancel.py", HOLES)
    window.run("Infill: Fill All Holes of the File")
    until(lambda: window.drawn, "a draft is drawn")
    window.type("# ")
    until(lambda: not window.drawn, "the draft is gone")
    window.status_is("sparkle")
    assert window.saved() == "# " + HOLES


def test_a_language_goes_off_and_on_again(window: Window) -> None:
    window.open("toggle.py", BASKET)
    window.status_is("sparkle")
    window.run("Infill: Enable or Disable for This Language")
    window.status_is("circle-slash")
    window.go_to(*HALF_LINE)
    window.type(".")
    window.run("Infill: Enable or Disable for This Language")
    window.status_is("sparkle")
    assert window.ghost == ""


def test_ghost_text_comes_only_when_invoked_during_a_snooze(window: Window) -> None:
    window.open("snooze.py", BASKET)
    window.run("Infill: Snooze…")
    window.choose("5 minutes")
    window.status_is("5 min")
    window.go_to(*HALF_LINE)
    window.type(".")
    assert window.ghost_within(SOON_S) == ""
    window.run("Trigger Inline Suggestion")
    window.await_ghost()
    window.page.click(STATUS)
    window.status_is("sparkle")
    window.go_to(8, 29)
    window.press("Backspace")
    window.type(".")
    window.await_ghost()


def test_a_search_editor_says_why_it_gets_no_fills(window: Window) -> None:
    window.run("Search Editor: New Search Editor")
    window.status_is("results of a search")


def test_it_says_why_nothing_is_suggested(window: Window, model: Partner) -> None:
    reason = '.statusbar-item:has-text("infill: the model found nothing")'
    window.open("silence.py", BASKET)
    window.go_to(*HALF_LINE)
    window.type(".")
    window.status_is("No suggestion here: the model found nothing")
    assert not window.page.is_visible(reason), "nobody has asked"
    window.run("Trigger Inline Suggestion")
    window.page.wait_for_selector(reason)
    model.answers("items:")
    window.press("Backspace")
    window.type(".")
    window.await_ghost()
    until(lambda: "No suggestion" not in window.status, "there is one")


def test_the_list_of_a_json_schema_comes_before_ghost_text(
    window: Window, code_server: CodeServer, model: Partner
) -> None:
    model.answers('our": "red"')
    own = {"infill__model": "partner", "infill__partner__url": model.url, "infill__partner__kind": "chat"}
    default = {"other": "offWhenInlineCompletions", "comments": "off", "strings": "off"}
    code_server.set(**own, editor__quickSuggestions=default)
    window.open("schema.json", '{"properties": {"colour": {"type": "string"}}}')
    window.open("values.json", '{\n  "$schema": "./schema.json",\n  \n}\n')
    until(lambda: lists(window, "colour"), "the list opens")  # once VS Code has read the schema
    assert window.ghost == ""


def lists(window: Window, label: str) -> bool:
    """Whether VS Code lists `label` once its beginning is typed in the third line."""
    window.press("Escape")
    window.go_to(3, 3)
    window.press("Shift+End", "Delete")
    window.type(label[:3])
    with suppress(TimeoutError):
        window.page.wait_for_selector(f'.suggest-widget.visible .monaco-list-row:has-text("{label}")', timeout=3_000)
        return True
    return False


def test_a_selection_is_reworked(window: Window) -> None:
    window.open("rework.py", BASKET)
    window.go_to(2, 8)
    window.press("Shift+End", "Alt+i", "r")
    window.choose("Freely")
    window.page.wait_for_selector('.quick-input-title:has-text("Freely")')  # what it should become: nothing is wished
    window.press("Enter")
    window.await_preview()
    window.press("Enter")
    text = window.changed(BASKET)
    before, after = BASKET.split('What somebody is going to buy."""')
    assert text.startswith(before) and text.endswith(after)


def test_a_model_that_is_not_there_is_said_once(window: Window, code_server: CodeServer) -> None:
    window.open("model.py", BASKET)
    code_server.set(infill__model="/nowhere")
    window.status_is("/nowhere: no such model")
    window.page.wait_for_selector('.notification-list-item:has-text("/nowhere: no such model")')
    window.go_to(1, 1)  # the server's own message has come by then
    assert window.page.locator('.notification-list-item:has-text("/nowhere: no such model")').count() == 1
    code_server.set()
    window.status_is("sparkle")


def test_a_server_that_ends_is_started_again(window: Window, code_server: CodeServer) -> None:
    window.open("again.py", BASKET)
    for server in code_server.servers():  # also of windows that were closed: VS Code keeps those for a while
        server.kill()
    until(lambda: any("started again" in status for status in window.statuses), "the end of the server is shown")
    window.status_is("sparkle")
    window.go_to(*HALF_LINE)
    window.type(".")
    window.await_ghost()


def test_only_a_trusted_workspace_has_its_own_server_run(
    browser: BrowserContext, address: str, home: Path, code_server: CodeServer
) -> None:
    folder, ran = home / "foreign", home / "ran"
    trap = folder / ".venv" / "bin" / "infill-ls"
    trap.parent.mkdir(parents=True)
    trap.write_text(f'#!/bin/sh\ntouch "{ran}"\nexec infill-ls "$@"\n')
    trap.chmod(0o755)
    code_server.set(security__workspace__trust__enabled=True, security__workspace__trust__startupPrompt="never")
    restricted = Window(browser, address, folder)
    restricted.status_is("sparkle")
    restricted.close()
    assert not ran.exists()
    code_server.set()
    trusted = Window(browser, address, folder)
    trusted.status_is("sparkle")
    trusted.close()
    assert ran.exists()
