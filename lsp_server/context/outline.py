"""Outlines of files: the names, signatures and texts of their top-level definitions, read from the tree."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache

from tree_sitter import Node

from lsp_server.context.imports import text_of
from lsp_server.syntax.languages import LanguageTable, table_of
from lsp_server.syntax.parsing import parse

SHORT_LINES = 12
"""Show a definition with fewer line ends whole."""
_HEAD_CHARACTERS = 400
_MAX_MEMBERS = 40
_WRAPPED_IN = ("definition", "declaration")
_IMPORTED_FROM = ("module_name", "source", "path")
"""A node with one of these fields defines nothing, even if it has names."""
_NAMED_BY = ("name", "left", "declarator", "pattern")


@dataclass(frozen=True)
class Definition:
    """One definition: its names, its head (all but the body), the heads of its members, and its whole text."""

    names: tuple[str, ...]
    head: str
    members: tuple[str, ...]
    whole: str

    def shown(self) -> str:
        """The part that the model sees: all of a short one, otherwise its head and those of its members."""
        return self.whole if self.whole.count("\n") < SHORT_LINES else "\n".join((self.head, *self.members))


@lru_cache(maxsize=64)
def definitions(language_id: str, text: str) -> tuple[Definition, ...]:
    """The definitions at the top level of a text, in order; none if there is no grammar."""
    tree = parse(language_id, text)
    return tuple(_definitions(tree.root_node, table_of(language_id))) if tree else ()


def _definitions(root: Node, table: LanguageTable) -> Iterator[Definition]:
    for node in root.named_children:
        if any(node.child_by_field_name(field) for field in _IMPORTED_FROM):
            continue
        inner = _unwrapped(node)
        if names := tuple(_names(inner)):
            body = inner.child_by_field_name("body")
            yield Definition(names, _head(node, body, table), tuple(_members(body, table)), text_of(node))


def outline(found: Sequence[Definition], names: Sequence[str]) -> str:
    """The definitions with these names; without names, the heads of all, or the only one as a whole."""
    if not names:
        return found[0].shown() if len(found) == 1 else "\n".join(definition.head for definition in found)
    wanted = [definition for name in names for definition in found if name in definition.names]
    return "\n".join(dict.fromkeys(definition.shown() for definition in wanted))


def _unwrapped(node: Node) -> Node:
    """The definition inside its decorators or its `export`."""
    for _ in range(3):
        inner = next((child for field in _WRAPPED_IN if (child := node.child_by_field_name(field))), None)
        if inner is None:
            break
        node = inner
    return node


def _names(node: Node) -> Iterator[str]:
    named = _name(node)
    for candidate in [named] if named is not None else [_name(child) for child in node.named_children]:
        if candidate is not None and len(text := text_of(candidate)) < 100:
            yield text


def _name(node: Node) -> Node | None:
    """The node of a definition's name; declarators may be nested, as in `int *f(void)`."""
    found = None
    for _ in range(5):
        inner = next((child for field in _NAMED_BY if (child := node.child_by_field_name(field))), None)
        if inner is None:
            return found
        found = node = inner
    return found


def _head(node: Node, body: Node | None, table: LanguageTable) -> str:
    """The text before the body, or the first line of a definition without one."""
    whole = node.text or b""
    if body is None:
        lines = whole.decode("utf-8", "replace").splitlines() or [""]
        return lines[0][:_HEAD_CHARACTERS]
    head = whole[: body.start_byte - node.start_byte].decode("utf-8", "replace").rstrip()
    return f"{head} {table.omitted_body}" if table.omitted_body and head.endswith(tuple(table.openers)) else head


def _members(body: Node | None, table: LanguageTable) -> Iterator[str]:
    """The heads of a class's members, indented as in the text. Functions have statements, and no members."""
    for node in body.named_children[:_MAX_MEMBERS] if body else ():
        inner = _unwrapped(node)
        if (inside := inner.child_by_field_name("body")) is not None and inner.child_by_field_name("name"):
            yield " " * node.start_point.column + _head(node, inside, table)
