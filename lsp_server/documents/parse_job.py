"""The parse of a text that takes long, to be run in a thread while the document goes on being edited."""

from dataclasses import dataclass, field

from tree_sitter import Tree

from lsp_server.syntax.limit import Limit
from lsp_server.syntax.parsing import MAX_PARSE_S, parse


@dataclass(eq=False)
class ParseJob:
    """The parse of one version of a document. `old_tree` must be nobody else's; `edited` is as for `parse`."""

    language_id: str
    text: str
    old_tree: Tree | None
    edited: int | None
    tree: Tree | None = None
    limit: Limit = field(default_factory=lambda: Limit(MAX_PARSE_S))

    def run(self) -> None:
        """Parse, in any thread; `limit.stop` ends it."""
        if not self.limit.reached:
            self.tree = parse(self.language_id, self.text, self.old_tree, self.edited, self.limit)
