"""Draws the screens of terminals as SVG: into a folder that is thrown away, or into that of INFILL_TEST_PICTURES."""

import io
import os
import re
from collections.abc import Callable, Sequence
from pathlib import Path

from rich.console import Console
from rich.table import Table
from rich.terminal_theme import TerminalTheme
from rich.text import Text

WIDTH, NARROW = 72, 46
THEME = TerminalTheme((20, 22, 27), (224, 226, 234), [(7, 8, 10)] * 8, [(79, 82, 88)] * 8)
"""Background and text of Neovim's own colours; it names all others by their values."""
_FONTS = re.compile(r"@font-face \{.*?\}", re.DOTALL)
"""Fonts that a viewer would fetch from elsewhere; its own monospaced font serves."""
Picture = Callable[[str, str, Sequence[tuple[str, str]]], str]


def _screen(caption: str, escaped: str) -> Text:
    lines = [Text.from_ansi(line, no_wrap=True, overflow="crop") for line in escaped.splitlines()]
    while lines and not lines[-1].plain.strip():
        lines.pop()
    return Text("\n").join([*([Text(caption, style="#8a8f98")] if caption else []), *lines])


def painter(tmp_path: Path) -> Picture:
    """Draws screens with their captions under a name and a title; returns what they say."""
    folder = Path(os.environ.get("INFILL_TEST_PICTURES") or tmp_path)
    folder.mkdir(parents=True, exist_ok=True)

    def draw(name: str, title: str, screens: Sequence[tuple[str, str]]) -> str:
        width = WIDTH if len(screens) == 1 else 2 * NARROW + 1
        console = Console(record=True, width=width, file=io.StringIO(), force_terminal=True, color_system="truecolor")
        drawn = [_screen(caption, screen) for caption, screen in screens]
        table = Table.grid(padding=(0, 1, 0, 0))
        for number in range(0, len(drawn), 2):
            if number:
                table.add_row("")
            table.add_row(*drawn[number : number + 2])
        console.print(table)
        svg = console.export_svg(title=title, theme=THEME, unique_id=name)
        (folder / f"{name}.svg").write_text(_FONTS.sub("", svg))
        return "\n".join(screen.plain for screen in drawn)

    return draw
