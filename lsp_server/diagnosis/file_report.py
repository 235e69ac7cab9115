"""Explains why nothing happens in a file or at a position, and which settings apply. Asks no worker."""

import os
from collections.abc import Callable, Iterator
from pathlib import Path

from lsp_server import holes
from lsp_server.diagnosis.workers import CheckResult, Grade
from lsp_server.documents.document import Document, Snapshot
from lsp_server.documents.reading import BadInputError, offset_at_line_col, read_named_file
from lsp_server.documents.uris import paths_via_links
from lsp_server.holes import HoleSpan
from lsp_server.inline.anchor import Cursor
from lsp_server.inline.request import hole_for_ghost_text
from lsp_server.settings.configuration import FILE_NAME, Configuration
from lsp_server.settings.layers import VARIABLE_PREFIX
from lsp_server.settings.schema import Settings
from lsp_server.syntax.languages import language_id_of_path, table_of
from lsp_server.syntax.lines import is_word_char

Suggest = Callable[[Snapshot, HoleSpan], CheckResult]
"""Makes an automatic request for a hole; returns its text, or why there is none."""
_ADVICE = (
    "change the setting that it names, where `settings` above says; if it names none, rename the file, or allow it "
    "with allowedSecretGlobs in your editor's start options or INFILL_LS_ALLOWED_SECRET_GLOBS"
)


def examine_settings(configuration: Configuration) -> Iterator[CheckResult]:
    """Where the settings of a file or folder come from, outside editors, and their problems."""
    variables = sorted(name for name in os.environ if name.startswith(VARIABLE_PREFIX))
    sources = [*map(str, configuration.settings_files), *variables]
    description = ", ".join(sources) or f"the defaults (no {FILE_NAME} in {configuration.folders[0].root})"
    yield CheckResult("settings", Grade.OK, f"{description}; doctor cannot see your editor's settings")
    for problem in configuration.problems:
        yield CheckResult("settings", Grade.WARN, problem)


def examine_file(
    file: Path, position: str | None, configuration: Configuration, suggest: Suggest | None = None
) -> Iterator[CheckResult]:
    """Whether `file` gets fills, and whether there is a hole at `position` (LINE:COL), if given. `suggest` tries it."""
    path, language = Path(os.path.abspath(file)), language_id_of_path(str(file))  # noqa: PTH100 - links are followed below
    settings = configuration.at_path(path)
    if reason := configuration.unreadable_reason(path, language):
        yield CheckResult("file", Grade.FAIL, f"{file}: {reason}", _ADVICE)
        return
    try:
        text = read_named_file(file, paths_via_links(path)[-1])
    except BadInputError as error:
        yield CheckResult.from_message("file", Grade.FAIL, str(error), "check the path")
        return
    snapshot = Document(path.as_uri(), language, 0, text).snapshot()
    yield CheckResult("file", Grade.OK, f"{file}: {snapshot.lines.line_count} lines, fills are on")
    yield _language(file, snapshot)
    if not position:
        yield _markers(snapshot, settings)
        return
    result, hole = _hole_at(snapshot, position, file, settings)
    yield result
    if suggest and hole:
        yield suggest(snapshot, hole)


def _language(file: Path, snapshot: Snapshot) -> CheckResult:
    if not snapshot.language_id:
        description = f"unknown from the name {file.name}; your editor may know it"
        return CheckResult(
            "language", Grade.WARN, description, "without a grammar, infill-ls finds holes by indentation"
        )
    if snapshot.tree is None:
        advice = "infill-ls finds holes by indentation here"
        return CheckResult(
            "language", Grade.WARN, f"{snapshot.language_id}, without a grammar or too long to parse", advice
        )
    return CheckResult("language", Grade.OK, f"{snapshot.language_id}, with a grammar")


def _hole_at(snapshot: Snapshot, position: str, file: Path, settings: Settings) -> tuple[CheckResult, HoleSpan | None]:
    try:
        offset = offset_at_line_col(snapshot.lines, position, file)
    except BadInputError as error:
        return CheckResult.from_message("hole", Grade.FAIL, str(error)), None
    if reason := no_hole_reason(snapshot, offset, settings.marker):
        reason_text, _, advice = reason.partition(": ")
        return CheckResult("hole", Grade.FAIL, f"none at {position}: {reason_text}", advice), None
    hole = holes.hole_at_cursor(snapshot, offset, settings.marker)
    kind = hole.kind.value if hole else ""
    return CheckResult("hole", Grade.OK, f"found at {position} ({kind})"), hole


def _markers(snapshot: Snapshot, settings: Settings) -> CheckResult:
    count = len(holes.find_markers(snapshot, settings.marker))
    advice = "" if count else "the cursor may be in one: check with --at LINE:COL"
    return CheckResult("hole", Grade.OK, f"{count} marked with {settings.marker}", advice)


def no_hole_reason(snapshot: Snapshot, offset: int, marker: str) -> str | None:
    """Why no inline completion comes at `offset`; None if there is a hole for one."""
    hole = holes.hole_at_cursor(snapshot, offset, marker)
    if hole is None:
        return _no_hole_here_reason(snapshot, offset)
    if hole_for_ghost_text(snapshot, Cursor(offset), marker) is None:
        return "the hole spans several lines, where editors show no ghost text: use the code action"
    return None


def _no_hole_here_reason(snapshot: Snapshot, offset: int) -> str:
    """Why `holes.hole_at_cursor` gives None, judging by the text around."""
    text = snapshot.text
    word_characters = table_of(snapshot.language_id).word_characters
    if all(is_word_char(text[max(0, end - 1) : end], word_characters) for end in (offset, offset + 1)):
        return "the cursor is in the middle of a word: go to its end"
    line = snapshot.lines.line_of(offset)
    if text[offset : snapshot.lines.line_end(line)].strip():
        return "there is code behind the cursor: go to the end of the line, into brackets, or to an empty line"
    return "this line already has its block: go into it, or to an empty line"
