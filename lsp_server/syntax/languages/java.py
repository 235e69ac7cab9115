"""Java."""

from lsp_server.syntax.languages.table import (
    ARROWS,
    BRACES,
    NOT_FOR_OTHERS,
    ON_ITS_LINE,
    TODO,
    UNCLOSED,
    UNCLOSED_ANGLES,
    UNWRITTEN,
    ImportRules,
    LanguageTable,
    braces,
)

_CONSTRUCTORS = frozenset({"constructor_declaration", "compact_constructor_declaration"})

JAVA = LanguageTable(
    ids=("java",),
    harmful=(UNCLOSED, UNCLOSED_ANGLES, ARROWS),
    extensions=(".java",),
    grammar="tree_sitter_java:language",
    comments=frozenset({"line_comment", "block_comment"}),
    block_comments=(("/*", "*/"),),
    line_comment="//",
    strings=frozenset({"string_literal", "character_literal"}),
    interpolations=frozenset({"string_interpolation"}),
    statement_end=";",
    argument_lists=frozenset({"argument_list", "formal_parameters"}),
    openers=frozenset({"{"}),
    blocks=frozenset(
        {
            *("program", "block", "constructor_body", "class_body", "interface_body", "enum_body"),
            *("enum_body_declarations", "annotation_type_body", "switch_block", "switch_block_statement_group"),
        }
    ),
    opening=braces(
        *("class", "interface", "enum", "record", "if", "else", "for", "while", "do", "switch"),
        *("try", "catch", "finally", "synchronized", "static"),
    )
    + ON_ITS_LINE,
    closers=frozenset({"}"}),
    statements=frozenset({"expression_statement"}),
    functions=_CONSTRUCTORS | {"method_declaration", "lambda_expression"},
    may_be_empty=_CONSTRUCTORS | {"lambda_expression"},
    closures=frozenset({"lambda_expression"}),
    classes=frozenset({"class_declaration", "interface_declaration", "enum_declaration", "record_declaration"}),
    empty=BRACES,
    fillers=rf"throw new \w*(?:Exception|Error)\(\s*\"{TODO}.{{0,400}}\)",
    body_fillers=rf"throw new \w*(?:Exception|Error)\(\s*\"{NOT_FOR_OTHERS}.{{0,400}}{UNWRITTEN}.{{0,400}}\)",
    empty_on_purpose=r"\bdefault\b",
    imports=ImportRules(
        query="(import_declaration (scoped_identifier) @module)",
        suffixes=(".java",),
        separator=".",
        folders=("", "src", "src/main/java", "src/test/java"),
    ),
)
