"""JSON, YAML and TOML."""

from lsp_server.syntax.languages.table import LanguageTable, kinds

JSON = LanguageTable(
    ids=("json", "jsonc", "json5"),
    extensions=(".json", ".jsonc", ".json5", ".webmanifest"),
    grammar="tree_sitter_json:language",
    comments=kinds("comment"),
    block_comments=(("/*", "*/"),),
    line_comment="//",
    strings=kinds("string"),
    name="0",
    openers=kinds("{ ["),
    data=kinds("object array"),
    blocks=kinds("document"),
    opening=r"[\[{]\s*$",
    closers=kinds("} ]"),
    indent="  ",
)

YAML = LanguageTable(
    ids=("yaml", "dockercompose", "github-actions-workflow"),
    extensions=(".yaml", ".yml"),
    grammar="tree_sitter_yaml:language",
    comments=kinds("comment"),
    line_comment="#",
    strings=kinds("double_quote_scalar single_quote_scalar"),
    word_characters="-",
    blocks=kinds("block_mapping block_sequence"),
    harmful=((r"^[ \t?:-]{200}", 0),),  # 256 levels, which need as many columns, crash it
    opening=r"[:-]\s*?[\r\n]\s*$",  # a value may follow on the line itself
    by_indentation=True,
    indent="  ",
)

TOML = LanguageTable(
    ids=("toml",),
    extensions=(".toml",),
    names=("Cargo.lock", "poetry.lock", "uv.lock"),
    grammar="tree_sitter_toml:language",
    comments=kinds("comment"),
    line_comment="#",
    strings=kinds("string"),
    word_characters="-",
    name="0",
    openers=kinds("["),
    data=kinds("array"),
    blocks=kinds("document table table_array_element"),
    closers=kinds("]"),
)
