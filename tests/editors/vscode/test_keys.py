"""Random keys in VS Code, against a slow model: the text is what a person expects. See `tests.editors.keys`.

All is typed at the end of the file. A Tab may take the ghost text that was on the screen shortly before, or that comes
while the key is on its way: what is left of a line that the model writes.
"""

import re

import pytest

from tests.editors import keys
from tests.editors.partner import Partner
from tests.editors.places import until
from tests.editors.vscode.window import Window

SEQUENCES = range(keys.ALL if keys.IS_ALL else 10)
NAMES = {"<Tab>": "Tab", "<CR>": "Enter", "<BS>": "Backspace", " ": "Space"}
SETTINGS = {
    **dict.fromkeys(("editor__autoClosingBrackets", "editor__autoClosingQuotes", "editor__autoSurround"), "never"),
    **dict.fromkeys(("editor__insertSpaces", "editor__detectIndentation", "editor__trimAutoWhitespace"), False),
    "editor__suggestOnTriggerCharacters": False,
    "editor__autoIndent": "none",
    "files__trimTrailingWhitespace": True,  # the formatter
    "infill__nextEdit__enabled": False,
}


@pytest.mark.timeout(1800)
def test_keys(window: Window, model: Partner) -> None:
    model.completes(keys.CODE)
    assert sum(typed(window, number) for number in SEQUENCES), "no suggestion was ever taken"


def typed(window: Window, number: int) -> int:
    """Types a sequence into a file of its own, and checks its text; how many suggestions it may have taken."""
    window.open(f"keys_{number}.py", keys.TEXT)
    window.press("Control+End")
    texts, known, taken = {keys.TEXT}, [keys.TEXT], 0
    for step in keys.sequence(number):
        window.page.wait_for_timeout(step.pause_ms)
        if step.keys in (keys.OUTSIDE, keys.SAVE, "<C-o>u"):
            if step.keys == "<C-o>u":
                window.press("Control+z")
                texts = {*known}
            texts = {_outside(window, texts, number) if step.keys == keys.OUTSIDE else _saved(window, texts, number)}
            window.press("Control+End")
        else:
            for key in re.findall(r"<\w+>|.", step.keys):
                ghosts = {window.ghost, *window.ghosts[-2:]} - {""} if key == "<Tab>" else set()
                window.press(NAMES.get(key, key))
                taken += bool(ghosts)
                texts = {after for text in texts for after in _after(text, key, ghosts | _rest(text))}
        known += texts
    _saved(window, texts, number)
    assert window.page.locator(".notification-list-item").count() == 0
    return taken


def _rest(text: str) -> set[str]:
    """What the model writes behind a text: what is left of the first of its lines that the text's last one begins."""
    begun = text.rpartition("\n")[2].lstrip()
    return {*[line.removeprefix(begun) for line in keys.CODE if line.startswith(begun) and line != begun][:1]}


def _after(text: str, key: str, ghosts: set[str]) -> list[str]:
    if key == "<BS>":
        return [text[:-1]]
    return [text + {"<Tab>": "\t", "<CR>": "\n"}.get(key, key), *(text + ghost for ghost in ghosts)]


def _saved(window: Window, texts: set[str], number: int) -> str:
    """The text in the file once it is saved and formatted, which is one of `texts`."""
    found = window.saved()
    wanted = {"\n".join(line.rstrip() for line in text.split("\n")) for text in texts}
    assert found in wanted, f"sequence {number} of INFILL_TEST_SEED={keys.SEED}: {found!r} is none of {wanted}"
    return found


def _outside(window: Window, texts: set[str], number: int) -> str:
    """The text once another program has changed the file on disk, and VS Code has noticed."""
    text = "import re\n" + _saved(window, texts, number)
    count = len(text.split("\n"))
    window.file.write_text(text)
    window.press("Control+End")
    place = f'[id="status.editor.selection"]:has-text("Ln {count}")'
    until(lambda: window.press("Control+End") or window.page.query_selector(place), "the change is noticed")
    return text
