"""HTML, CSS and Markdown. Code embedded in them is plain text."""

from lsp_server.syntax.languages.table import LanguageTable, kinds

_VOID = "area|base|br|col|embed|hr|img|input|link|meta|source|track|wbr"

HTML = LanguageTable(
    ids=("html", "htm"),
    extensions=(".html", ".htm", ".xhtml"),
    grammar="tree_sitter_html:language",
    comments=kinds("comment"),
    block_comments=(("<!--", "-->"),),
    strings=kinds("quoted_attribute_value"),
    word_characters="-",
    blocks=kinds("document element"),
    opening=rf"(?i:<(?!(?:{_VOID})\b)[a-z][^<>]*(?<!/)>\s*$)",
    by_indentation=True,
    indent="  ",
)

CSS = LanguageTable(
    ids=("css",),
    extensions=(".css",),
    grammar="tree_sitter_css:language",
    comments=kinds("comment"),
    block_comments=(("/*", "*/"),),
    strings=kinds("string_value"),
    word_characters="-",
    argument_lists=kinds("arguments"),
    operand_ends=kinds(", ; : {"),
    openers=kinds("{"),
    blocks=kinds("stylesheet block keyframe_block_list"),
    opening=r"\{\s*$",
    closers=kinds("}"),
    indent="  ",
)

MARKDOWN = LanguageTable(
    ids=("markdown",),
    extensions=(".md", ".markdown"),
    grammar="tree_sitter_markdown:language",
    quoted=r"`[^`\n]*`",
    quotes="",
    blocks=kinds("document section"),
    indent="  ",
)
