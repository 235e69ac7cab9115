"""The next edit in real VS Code: old and new text as decorations, Tab jumps, Tab accepts, Escape dismisses."""

from contextlib import suppress

from tests.editors.places import until
from tests.editors.vscode import pictures
from tests.editors.vscode.window import Window

TEXT = "def area():\n    count = 1\n    print(count)\n    return count\n"
SOON_S = 3.0
RENAMED = TEXT.replace("count", "total")


def rename(window: Window) -> None:
    type_new_name(window)
    until(lambda: is_shown(window), "the next edit is shown")


def type_new_name(window: Window) -> None:
    window.go_to(2, 5)
    window.press("Control+Shift+ArrowRight")
    window.type("total")
    window.press("ArrowLeft")


def is_shown(window: Window) -> bool:
    """Whether the next edit is shown. Escapes from a list of words or a suggestion; Escape would dismiss an edit."""
    if not window.drawn and (window.ghost or window.page.is_visible(".suggest-widget.visible")):
        window.press("Escape", "ArrowLeft")
    return window.drawn == "total"


def test_a_rename_over_three_places_takes_three_tabs(window: Window) -> None:
    window.open("rename.py", TEXT)
    rename(window)
    pictures.take(window, "next-edit", width=420, height=110)
    window.press("Tab")
    window.page.wait_for_selector('[id="status.editor.selection"]:has-text("Ln 3")')
    window.press("Tab")
    window.page.wait_for_selector('[id="status.editor.selection"]:has-text("Ln 4")')
    window.press("Tab")
    until(lambda: window.drawn == "", "nothing is left to show")
    assert window.saved() == RENAMED
    window.press("Control+z")
    assert window.saved() == TEXT.replace("count", "total", 2)


def test_escape_dismisses_and_tab_is_a_tab_again(window: Window) -> None:
    window.open("dismissed.py", TEXT)
    rename(window)
    window.press("Escape")
    until(lambda: window.drawn == "", "it is gone")
    window.go_to(1, 1)
    window.press("Tab")
    assert window.saved() == "    " + TEXT.replace("count", "total", 1)


def test_a_dismissed_edit_stays_away_after_undo_and_elsewhere(window: Window) -> None:
    window.open("other.py", "x = 1\n")
    window.open("away.py", TEXT)
    rename(window)
    window.press("Escape")
    until(lambda: window.drawn == "", "it is gone")
    window.press("Control+z")
    assert window.saved() == TEXT
    window.press("Control+y")
    assert window.saved() == TEXT.replace("count", "total", 1)
    assert not is_drawn_soon(window)
    window.run("View: Open Previous Editor")
    window.run("View: Open Next Editor")
    assert not is_drawn_soon(window)
    window.go_to(1, 5)
    window.type("x")  # a change brings back the edits that were not dismissed
    until(lambda: is_shown(window), "the other place is shown")


def test_no_next_edit_is_shown_during_a_snooze(window: Window) -> None:
    window.open("snoozed.py", TEXT)
    window.run("Infill: Snooze…")
    window.page.wait_for_selector('.monaco-list-row.focused:has-text("10 minutes")')
    window.press("Enter")
    window.status_is("10 min")
    type_new_name(window)
    assert not is_drawn_soon(window)
    window.run("Infill: End Snooze")
    window.status_is("sparkle")
    until(lambda: is_shown(window), "the next edit is shown")


def is_drawn_soon(window: Window) -> bool:
    with suppress(AssertionError):
        return bool(until(lambda: window.drawn, "something is drawn", SOON_S))
    return False
