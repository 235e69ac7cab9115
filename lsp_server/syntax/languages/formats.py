"""JSON, YAML, TOML, HTML, CSS and Markdown. Code embedded in markup is plain text."""

from lsp_server.syntax.language_table import LanguageTable, kinds

_VOID = "area|base|br|col|embed|hr|img|input|link|meta|source|track|wbr"

JSON = LanguageTable(
    ids=("json", "jsonc", "json5"),
    aliases=("js-json", "geojson", "json-with-comments"),
    extensions=(".json", ".jsonc", ".json5", ".webmanifest"),
    grammar="tree_sitter_json:language",
    block_comments=(("/*", "*/"),),
    line_comment="//",
    strings=kinds("string"),
    name="1",
    openers=kinds("{ ["),
    data=kinds("object array"),
    blocks=kinds("document"),
    opening=r"[\[{]\s*$",
    closers=kinds("} ]"),
    indent="  ",
)

YAML = LanguageTable(
    ids=("yaml", "dockercompose", "github-actions-workflow"),
    aliases=("yml", "ansible", "docker-compose", "azure-pipelines", "home-assistant", "esphome"),
    extensions=(".yaml", ".yml"),
    grammar="tree_sitter_yaml:language",
    line_comment="#",
    strings=kinds("double_quote_scalar single_quote_scalar"),
    word_characters="-",
    blocks=kinds("block_mapping block_sequence"),
    harmful=("levels",),
    opening=r"[:-]\s*?[\r\n]\s*$",  # a value may follow on the line itself
    by_indentation=True,
    indent="  ",
)

TOML = LanguageTable(
    ids=("toml",),
    aliases=("conf-toml",),
    extensions=(".toml",),
    names=("Cargo.lock", "poetry.lock", "uv.lock"),
    grammar="tree_sitter_toml:language",
    line_comment="#",
    strings=kinds("string"),
    word_characters="-",
    name="1",
    openers=kinds("["),
    data=kinds("array"),
    blocks=kinds("document table table_array_element"),
    closers=kinds("]"),
)

HTML = LanguageTable(
    ids=("html", "htm"),
    aliases=("mhtml", "html5", "xhtml"),
    extensions=(".html", ".htm", ".xhtml"),
    grammar="tree_sitter_html:language",
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
    aliases=("gfm", "md", "pandoc", "github-markdown"),
    extensions=(".md", ".markdown"),
    grammar="tree_sitter_markdown:language",
    comments=frozenset(),
    quoted=r"`[^`\n]*`",
    quotes="",
    blocks=kinds("document section"),
    indent="  ",
)
