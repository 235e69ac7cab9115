"""One VS Code window in a real browser: what a user would type, and what they would see."""

import json
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlsplit

from playwright.sync_api import BrowserContext, Page

from tests.editors.places import PATIENCE_S, until

_GHOST = '.view-lines [class*="ghost-text-decoration"]'
_LINES = ".editor-instance .view-lines .view-line"
_STATUS = '[id="infill-ls.infill.infill.status"]'
_WATCH = """
() => {
  window.drafts = [];
  const look = () => {
    const shown = [...document.querySelectorAll('.view-lines span[class*="ced-"]')]
      .map((e) => getComputedStyle(e, '::after').content).filter((c) => c.startsWith('"')).map((c) => JSON.parse(c)).join('');
    if (shown && shown !== window.drafts.at(-1)) window.drafts.push(shown);
    requestAnimationFrame(look);
  };
  look();
}
"""
"""Notes every different text of the decorations, frame by frame."""


class Window:
    """A window on `folder`, showing `file`."""

    def __init__(self, context: BrowserContext, address: str, file: Path) -> None:
        self.file, self.page = file, context.new_page()
        self.page.set_default_timeout(PATIENCE_S * 1000)
        place = f"vscode-remote://{urlsplit(address).netloc}{file}"
        payload = quote(json.dumps([["openFile", place]]))
        self.page.goto(f"{address}/?folder={quote(str(file.parent))}&payload={payload}")
        self.page.wait_for_selector(f"{_LINES} >> nth=0")
        self.status_is("sparkle")

    @property
    def status(self) -> str:
        """Icons and words of our item in the status bar."""
        item = self.page.query_selector(_STATUS)
        icons = [str(icon.get_attribute("class")) for icon in item.query_selector_all(".codicon")] if item else []
        return " ".join([*icons, item.inner_text().strip() if item else ""])

    def status_is(self, part: str) -> None:
        """Waits until our status item has `part` among its icons and words."""
        until(lambda: part in self.status, f"the status item shows {part}")

    @property
    def ghost(self) -> str:
        """The ghost text that is shown; empty when there is none."""
        return "".join(part.text_content() or "" for part in self.page.query_selector_all(_GHOST)).replace("\xa0", " ")

    def await_ghost(self) -> str:
        """The next ghost text."""
        return until(lambda: self.ghost, "ghost text is shown")

    def go_to(self, line: int, column: int = 1) -> None:
        """Puts the cursor there; both count from 1."""
        self.page.locator(".editor-instance .view-lines").first.click(position={"x": 5, "y": 5})
        self.page.keyboard.press("Control+g")
        self.page.wait_for_selector(".quick-input-widget input")
        self.page.keyboard.type(f"{line}:{column}")
        self.page.keyboard.press("Enter")
        self.page.wait_for_selector(".quick-input-widget", state="hidden")

    def press(self, *keys: str) -> None:
        """Press keys, such as Control+s."""
        for key in keys:
            self.page.keyboard.press(key)

    def type(self, text: str) -> None:
        """Type `text`, as fast as a quick typist."""
        self.page.keyboard.type(text, delay=40)

    def run(self, title: str) -> None:
        """Choose a command from the palette by its title."""
        self.press("F1")
        self.page.wait_for_selector(".quick-input-widget input")
        self.page.keyboard.type(title)
        self.page.locator(f'.quick-input-list .monaco-list-row:has-text("{title}")').first.click()

    def saved(self) -> str:
        """Saves the document, and returns what the file holds then."""
        before = self.file.stat().st_mtime_ns
        self.press("Control+s")
        until(lambda: self.file.stat().st_mtime_ns != before, "the file is saved")
        return self.file.read_text()

    def watch_drafts(self) -> None:
        """From now on note every draft that is drawn."""
        self.page.evaluate(_WATCH)

    @property
    def drafts(self) -> list[str]:
        """The different drafts that were drawn, in order."""
        found: Any = self.page.evaluate("window.drafts")
        return list(found)
