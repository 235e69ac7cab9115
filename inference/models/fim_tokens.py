"""The fill-in-the-middle tokens of each model family, from fim_tokens.toml.

Code does not contain these texts, so a text that does is cut there: it would end the prompt.
"""

import re
import tomllib
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from inference.messages import Snippet

_MAX_PATH_CHARS = 200


@dataclass(frozen=True)
class FimTokens:
    """A family's prompt for a hole. `stop_tokens` end a fill, besides those of the prompt.

    `repository` begins a prompt with other files and `file` each file in it; empty: it has none. Without a
    `repository`, `file` names the file with the hole even if there are no others.
    """

    prefix: str
    suffix: str
    middle: str
    stop_tokens: tuple[str, ...]
    is_suffix_first: bool = False
    repository: str = ""
    file: str = ""
    names_file_inside: bool = False
    """Whether the name of the file with the hole follows the prefix token instead of preceding it."""
    space: str = ""
    """The text between the prefix token and the prefix."""

    @property
    def control_tokens(self) -> tuple[str, ...]:
        """All tokens forbidden in a prompt's code and in a fill."""
        own = (self.prefix, self.suffix, self.middle, self.repository, self.file, *self.stop_tokens)
        return tuple(token for token in own if token)

    def prompt(self, prefix: str, suffix: str, path: str, context: Sequence[Snippet]) -> str:
        """The prompt after which the fill is written. Leaves out other files that contain control tokens."""
        snippets = [snippet for snippet in context if not any(token in snippet.text for token in self.control_tokens)]
        head = ""
        if self.file and (snippets or (path and not self.repository)):
            files = (f"{self.file}{self._name(snippet.path)}\n{snippet.text.rstrip()}\n" for snippet in snippets)
            head = (f"{self.repository}project\n" if self.repository else "") + "".join(files) + self.file
            name = f"{self._name(path)}\n" if path else ""
            if self.names_file_inside:
                prefix = name + prefix
            else:
                head += name
        return head + "".join(text for _, text in self.prompt_parts(prefix, suffix))

    def prompt_parts(self, prefix: str, suffix: str) -> Iterator[tuple[bool, str]]:
        """The parts of a prompt without other files: (True, control token) or (False, text, even if it spells one)."""
        sides = [((True, self.prefix), (False, self.space + prefix)), ((True, self.suffix), (False, suffix))]
        for part in reversed(sides) if self.is_suffix_first else sides:
            yield from part
        if self.middle:
            yield True, self.middle

    def _name(self, path: str) -> str:
        """The end of a path, made safe for a prompt."""
        name = "".join(character if character.isprintable() else " " for character in path[-_MAX_PATH_CHARS:])
        for token in self.control_tokens:
            name = name.replace(token, " ")
        return name


_FILE: dict[str, dict[str, Any]] = tomllib.loads(Path(__file__).with_name("fim_tokens.toml").read_text("utf-8"))
_NAMES = {kind: re.compile(fields.pop("name")) for kind, fields in _FILE.items() if "name" in fields}
TABLE = {kind: FimTokens(**fields | {"stop_tokens": (*fields["stop_tokens"],)}) for kind, fields in _FILE.items()}
_GRANITE_4 = TABLE.pop("granite-4")
_IS_GRANITE_4 = re.compile(r"granite[-_. ]?[4-9](?![0-9]*b)", re.IGNORECASE)


def guess_fim_kind(model: str) -> str | None:
    """The FIM kind of a model, judging by its name; None if the name does not tell."""
    name = model.lower()
    return next((kind for kind, pattern in _NAMES.items() if pattern.search(name)), None)


def tokens_for_kind(kind: str, model: str) -> FimTokens:
    """The tokens of a family; those of Granite follow the version in the model's name."""
    return _GRANITE_4 if kind == "granite" and _IS_GRANITE_4.search(model) else TABLE[kind]


def detect_fim_tokens(tokens: Collection[str], name: str = "") -> FimTokens | None:
    """Detects a family by its vocabulary; without repository tokens if that lacks them. None if it is unknown.

    Granite's code models and Mellum have the same tokens, but not the same order: the model's `name` decides.
    """
    named = guess_fim_kind(name)
    if named and {(by_name := tokens_for_kind(named, name)).prefix, by_name.suffix, by_name.middle} <= {*tokens, ""}:
        has_files = {by_name.repository or by_name.file, by_name.file} <= set(tokens)
        return by_name if has_files else replace(by_name, repository="", file="")
    matching = [fim for fim in TABLE.values() if {fim.prefix, fim.suffix, fim.middle or fim.suffix} <= set(tokens)]
    if not matching:
        return None
    with_files = [fim for fim in matching if fim.file and {fim.repository or fim.file, fim.file} <= set(tokens)]
    return with_files[0] if with_files else replace(matching[0], repository="", file="")
