"""HTML, CSS and Markdown. Code embedded in them is plain text."""

from lsp_server.syntax.languages.table import LanguageTable

_VOID = "area|base|br|col|embed|hr|img|input|link|meta|source|track|wbr"

HTML = LanguageTable(
    ids=("html", "htm"),
    extensions=(".html", ".htm", ".xhtml"),
    grammar="tree_sitter_html:language",
    comments=frozenset({"comment"}),
    block_comments=(("<!--", "-->"),),
    strings=frozenset({"quoted_attribute_value"}),
    word_characters="-",
    blocks=frozenset({"document", "element"}),
    opening=rf"(?i:<(?!(?:{_VOID})\b)[a-z][^<>]*(?<!/)>\s*$)",
    by_indentation=True,
    indent="  ",
)

CSS = LanguageTable(
    ids=("css",),
    extensions=(".css",),
    grammar="tree_sitter_css:language",
    comments=frozenset({"comment"}),
    block_comments=(("/*", "*/"),),
    strings=frozenset({"string_value"}),
    word_characters="-",
    argument_lists=frozenset({"arguments"}),
    operand_ends=frozenset({",", ";", ":", "{"}),
    openers=frozenset({"{"}),
    blocks=frozenset({"stylesheet", "block", "keyframe_block_list"}),
    opening=r"\{\s*$",
    closers=frozenset({"}"}),
    indent="  ",
)

MARKDOWN = LanguageTable(
    ids=("markdown",),
    extensions=(".md", ".markdown"),
    grammar="tree_sitter_markdown:language",
    quoted=r"`[^`\n]*`",
    quotes="",
    blocks=frozenset({"document", "section"}),
    indent="  ",
)
