"""A slow parse to run in a thread while the user keeps editing the document."""

from dataclasses import dataclass, field

from tree_sitter import Tree

from lsp_server.syntax.limit import Limit
from lsp_server.syntax.parsing import MAX_PARSE_S, parse


@dataclass(eq=False)
class ParseJob:
    """The parse of one version of a document. `old_tree` must not be shared; `edited` is as for `parse`."""

    language_id: str
    text: str
    old_tree: Tree | None
    edited: int | None
    tree: Tree | None = None
    limit: Limit = field(default_factory=lambda: Limit(MAX_PARSE_S))

    def run(self) -> None:
        """Parses, in any thread; `limit.stop` ends it."""
        if not self.limit.reached:
            self.tree = parse(self.language_id, self.text, self.old_tree, self.edited, self.limit)
