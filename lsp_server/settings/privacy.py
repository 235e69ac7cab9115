"""Decides which files may be read and sent to the model: by their names and the user's settings. Opens nothing.

A user's pattern without a slash is compared with the file's name, one with a slash with the end of its path; `*` also
spans folders and case does not count.
"""

import re
from collections.abc import Sequence
from fnmatch import translate
from functools import lru_cache

from lsp_server.settings.schema import Settings
from lsp_server.settings.secret_names import is_secret_name, originals_of
from lsp_server.syntax.languages import language_of


def is_secret(path: str, settings: Settings) -> bool:
    """Whether the file must not be read."""
    globs = settings.secret_globs
    return is_secret_name(path) or (bool(globs) and any(_matches(name, globs) for name in originals_of(path)))


def why_off(path: str, language: str, settings: Settings, links: Sequence[str] = ()) -> str | None:
    """Why this document gets no fills; None if it does. `links` are the targets of the links on its path."""
    if reason := _why_off(path, language, settings):
        return reason
    for link in links:
        for each in (language, language_of(link)):
            if reason := _why_off(link, each, settings):
                return f"{reason} (it leads to {link})"
    return None


def _why_off(path: str, language: str, settings: Settings) -> str | None:
    if is_secret(path, settings):
        return "files like this one may hold secrets and are never read"
    if language in settings.disabled_languages:
        return f"fills are switched off for {language} (disabledLanguages)"
    if _matches(path, settings.disabled_globs):
        return "fills are switched off for this file (disabledGlobs)"
    return None


def _matches(path: str, globs: tuple[str, ...]) -> bool:
    whole = "/" + path.lower().strip("/")
    return _pattern(globs).match(whole) is not None


@lru_cache(maxsize=64)
def _pattern(globs: tuple[str, ...]) -> re.Pattern[str]:
    """The pattern for a whole path; cached, because every keystroke asks."""
    return re.compile("|".join(_translated(glob.lower()) for glob in globs) or r"(?!)")


def _translated(glob: str) -> str:
    if "/" in glob:
        return translate(f"*/{glob.lstrip('/')}")
    return r"(?s:.*/)(?=[^/]*\Z)" + translate(glob)
