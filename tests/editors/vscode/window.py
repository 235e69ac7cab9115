"""One VS Code window in a real browser: a user's keys, and the visible result."""

from contextlib import suppress
from pathlib import Path
from urllib.parse import quote

from playwright.sync_api import BrowserContext, FloatRect, TimeoutError

from tests.editors.places import PATIENCE_S, until

_CELL = ".notebookOverlay .code-cell-row"
_LINES = ".editor-instance .view-lines"
_CURSOR = """() => [...document.querySelectorAll('.monaco-editor.focused .cursors-layer .cursor')]
  .map((element) => element.getBoundingClientRect()).flatMap((box) => [box.x, box.y])"""
STATUS = '[id="infill-ls.infill.infill.status"]'
_DIALOG = ".monaco-dialog-box"
_INPUT = ".quick-input-widget .quick-input-box input"
_ROW = ".quick-input-list .monaco-list-row"
_SAVING_MS = 2_000
_LISTING_MS = 10_000
_WATCH = (Path(__file__).parent / "watch.js").read_text()


class Window:
    def __init__(self, context: BrowserContext, address: str, folder: Path) -> None:
        self.file = self._folder = folder
        self.page = context.new_page()
        self.page.set_default_timeout(PATIENCE_S * 1000)
        self.page.goto(f"{address}/?folder={quote(str(folder))}")
        self.page.wait_for_selector(".monaco-workbench")
        self.page.evaluate(_WATCH)

    def open(self, name: str, text: str) -> None:
        self.file = self._folder / name
        assert not self.file.exists(), "each test has files of its own"
        self.file.write_bytes(text.encode())
        self._enter("Control+p", str(self.file), wait=f'{_ROW}.focused:has-text("{name}")')
        self.page.wait_for_selector(f'.tab.active[data-resource-name="{name}"]')
        self.page.wait_for_selector(f"{_LINES} .view-line >> nth=0")
        self.page.wait_for_selector(".quick-input-widget", state="hidden")
        self.page.locator(_LINES).first.click(position={"x": 2, "y": 2})

    def open_notebook(self, name: str, text: str) -> None:
        self.file = self._folder / name
        self.file.write_text(text)
        self._enter("Control+p", str(self.file), wait=f'{_ROW}.focused:has-text("{name}")')
        self.page.wait_for_selector(f"{_CELL} .view-line >> nth=0")

    def enter_cell(self, number: int) -> None:
        """Put the cursor into the text of a cell of the open notebook."""
        self.page.locator(f"{_CELL} .view-lines").nth(number).click()

    def close_all(self) -> None:
        self.press("Escape", "Escape")
        self.run("View: Close All Editors")
        until(self._is_empty, "every file is closed")
        self.page.evaluate("() => { Object.values(window.seen).forEach((seen) => seen.splice(0)); }")

    def status_is(self, part: str) -> None:
        until(lambda: part in self.status, f"the status item shows {part}")

    @property
    def status(self) -> str:
        item = self.page.query_selector(STATUS)
        icons = [str(icon.get_attribute("class")) for icon in item.query_selector_all(".codicon")] if item else []
        return " ".join([*icons, str(item.get_attribute("aria-label")) if item else ""])

    @property
    def statuses(self) -> list[str]:
        """The different looks of the status item since the last file was closed, in order."""
        return list(self.page.evaluate("window.seen.statuses"))

    @property
    def ghost(self) -> str:
        return str(self.page.evaluate("window.ghost()"))

    def await_ghost(self) -> str:
        return until(lambda: self.ghost, "ghost text is shown")

    def ghost_within(self, seconds: float) -> str:
        """The ghost text that is shown within this time; "" if there is none."""
        with suppress(AssertionError):
            return until(lambda: self.ghost, "ghost text is shown", seconds)
        return ""

    @property
    def drawn(self) -> str:
        """What is drawn beside the document's text now: a draft, or what is previewed."""
        return str(self.page.evaluate(_WATCH))

    @property
    def cursor(self) -> list[float]:
        """Where on the page the cursor is."""
        return list(self.page.evaluate(_CURSOR))

    @property
    def drafts(self) -> list[str]:
        return list(self.page.evaluate("window.seen.drafts"))

    @property
    def ghosts(self) -> list[str]:
        """The different ghost texts since the last file was closed, in order; "" where there was none for a frame."""
        return list(self.page.evaluate("window.seen.ghosts"))

    def await_preview(self) -> str:
        self.page.wait_for_selector(".codelens-decoration a")
        return until(lambda: self.drawn, "the preview is drawn")

    def go_to(self, line: int, column: int = 1) -> None:
        self._enter("Control+g", f":{line}:{column}", wait=f'{_ROW}:has-text("line {line} at column {column}.")')
        self.page.wait_for_selector(".quick-input-widget", state="hidden")

    def press(self, *keys: str) -> None:
        for key in keys:
            self.page.keyboard.press(key)

    def type(self, text: str) -> None:
        self.page.keyboard.type(text, delay=40)

    def run(self, title: str) -> None:
        self._enter("F1", f">{title}", wait=f'{_ROW}.focused:has-text("{title}")')

    def choose(self, title: str) -> None:
        self.page.locator(f'{_ROW}:has-text("{title}")').first.click()

    def light_bulb(self) -> list[str]:
        self.press("Control+.")
        rows = ".action-widget .monaco-list-row.action"
        self.page.wait_for_selector(rows)
        return [row.inner_text().strip() for row in self.page.query_selector_all(rows)]

    def pick(self, title: str) -> None:
        self.page.locator(f'.action-widget .monaco-list-row.action:has-text("{title}")').first.click()

    def saved(self) -> str:
        """Saves the document, and returns what the file holds then."""
        until(self._save, "the document is saved")
        return until(self.file.read_bytes, "it is written").decode()  # VS Code empties a file before it writes

    def changed(self, before: str) -> str:
        """What the file holds once that is something else."""
        return until(lambda: (found := self.saved()) != before and found, "the text is another")

    def clip(self, width: int, height: int) -> FloatRect:
        box = self.page.locator(".editor-instance .overflow-guard").first.bounding_box()
        return {"x": box["x"], "y": box["y"], "width": width, "height": height}

    def close(self) -> None:
        self.page.close()

    def _is_empty(self) -> bool:
        """Whether no file is open. A dialog that asks about unsaved changes gets its answer."""
        if self.page.is_visible(_DIALOG):
            self.page.click(f'{_DIALOG} :text("Don\'t Save")')
        return self.page.query_selector(".tab") is None

    def _save(self) -> bool:
        self.press("Control+s")
        with suppress(TimeoutError):
            self.page.wait_for_selector(".tab.active:not(.dirty)", timeout=_SAVING_MS)
            return True
        return False

    def _enter(self, key: str, words: str, wait: str) -> None:
        """Opens a list with `key`, types `words` and chooses the row that `wait` selects."""
        until(lambda: self._offers(key, words, wait), f"{key} offers {words}")
        self.page.keyboard.press("Enter")

    def _offers(self, key: str, words: str, wait: str) -> bool:
        self.press(key)
        with suppress(TimeoutError):
            self.page.fill(_INPUT, words, timeout=_LISTING_MS)
            self.page.wait_for_selector(wait, timeout=_LISTING_MS)
            return True
        self.press("Escape")
        return False
