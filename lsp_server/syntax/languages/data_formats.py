"""JSON, YAML and TOML."""

from lsp_server.syntax.languages.table import LanguageTable

JSON = LanguageTable(
    ids=("json", "jsonc", "json5"),
    extensions=(".json", ".jsonc", ".json5", ".webmanifest"),
    grammar="tree_sitter_json:language",
    comments=frozenset({"comment"}),
    block_comments=(("/*", "*/"),),
    line_comment="//",
    strings=frozenset({"string"}),
    name="0",
    openers=frozenset({"{", "["}),
    data=frozenset({"object", "array"}),
    blocks=frozenset({"document"}),
    opening=r"[\[{]\s*$",
    closers=frozenset({"}", "]"}),
    indent="  ",
)

YAML = LanguageTable(
    ids=("yaml", "dockercompose", "github-actions-workflow"),
    extensions=(".yaml", ".yml"),
    grammar="tree_sitter_yaml:language",
    comments=frozenset({"comment"}),
    line_comment="#",
    strings=frozenset({"double_quote_scalar", "single_quote_scalar"}),
    word_characters="-",
    blocks=frozenset({"block_mapping", "block_sequence"}),
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
    comments=frozenset({"comment"}),
    line_comment="#",
    strings=frozenset({"string"}),
    word_characters="-",
    name="0",
    openers=frozenset({"["}),
    data=frozenset({"array"}),
    blocks=frozenset({"document", "table", "table_array_element"}),
    closers=frozenset({"]"}),
)
