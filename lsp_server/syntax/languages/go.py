"""Go."""

from lsp_server.syntax.languages.table import BRACES, TODO, UNWRITTEN, LanguageTable, braces

GO = LanguageTable(
    ids=("go",),
    extensions=(".go",),
    grammar="tree_sitter_go:language",
    comments=frozenset({"comment"}),
    block_comments=(("/*", "*/"),),
    line_comment="//",
    strings=frozenset({"interpreted_string_literal", "raw_string_literal", "rune_literal"}),
    argument_lists=frozenset({"argument_list", "parameter_list"}),
    openers=frozenset({"{"}),
    headers=frozenset({"expression_switch_statement", "type_switch_statement", "select_statement", "interface_type"}),
    blocks=frozenset(
        {
            *("source_file", "block", "statement_list", "field_declaration_list"),
            *("expression_case", "default_case", "type_case", "communication_case"),
        }
    ),
    opening=braces("func", "type", "if", "else", "for", "switch", "select", "case", "default"),
    closers=frozenset({"}"}),
    statements=frozenset({"expression_statement"}),
    indent="\t",
    functions=frozenset({"function_declaration", "method_declaration", "func_literal"}),
    may_be_empty=frozenset({"func_literal"}),
    closures=frozenset({"func_literal"}),
    empty=BRACES,
    fillers=rf"panic\(\s*[\"`]{TODO}.{{0,400}}\)",
    body_fillers=rf"panic\(\s*[\"`].{{0,400}}{UNWRITTEN}.{{0,400}}\)",
    empty_on_purpose=r"^func\s*\(\s*\*?\w+\s*\)",  # a receiver without a name: the method only satisfies an interface
)
