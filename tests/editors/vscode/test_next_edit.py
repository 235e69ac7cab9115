"""The next edit in real VS Code: old and new text as decorations, Tab jumps, Tab accepts, Escape dismisses."""

from tests.editors.places import until
from tests.editors.vscode import pictures
from tests.editors.vscode.window import Window

TEXT = "def area():\n    count = 1\n    print(count)\n    return count\n"
RENAMED = TEXT.replace("count", "total")


def rename(window: Window) -> None:
    window.go_to(2, 5)
    window.press("Control+Shift+ArrowRight")
    window.type("total")
    window.press("ArrowLeft")
    until(lambda: is_shown(window), "the next edit is shown")


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
