"""Rust."""

from lsp_server.syntax.languages.table import BRACES, TODO, UNCLOSED, UNWRITTEN, ImportRules, LanguageTable, braces

RUST = LanguageTable(
    ids=("rust",),
    extensions=(".rs",),
    grammar="tree_sitter_rust:language",
    harmful=(UNCLOSED,),
    comments=frozenset({"line_comment", "block_comment"}),
    block_comments=(("/*", "*/"),),
    line_comment="//",
    strings=frozenset({"string_literal", "raw_string_literal", "char_literal"}),
    quoted=r'r#+"(?s:.*?)"#+|"(?s:\\.|[^"\\])*"|\'(?:\\[^\'\n]+|\\\'|[^\'\\\n])\'',  # a lifetime has one quote
    quotes='"',
    statement_end=";",
    argument_lists=frozenset({"arguments", "parameters", "token_tree"}),
    operand_ends=frozenset({",", ";", ":", "=>"}),
    openers=frozenset({"{"}),
    blocks=frozenset(
        {
            *("source_file", "block", "declaration_list", "match_block"),
            *("field_declaration_list", "enum_variant_list"),
        }
    ),
    opening=braces(
        *("fn", "impl", "trait", "mod", "struct", "enum", "union"),
        *("if", "else", "match", "loop", "while", "for", "unsafe", "async", "extern"),
    ),
    closers=frozenset({"}"}),
    statements=frozenset({"expression_statement"}),
    functions=frozenset({"function_item", "closure_expression"}),
    may_be_empty=frozenset({"closure_expression"}),
    closures=frozenset({"closure_expression"}),
    classes=frozenset({"impl_item", "trait_item"}),
    empty=BRACES,
    fillers=r"todo!\s*[(\[{].{0,400}?[)\]}]|unimplemented!\(\s*\)",
    body_fillers=rf"unimplemented!\(.{{0,400}}\)|panic!\(\s*\"(?:{TODO}|{UNWRITTEN}).{{0,400}}\)",
    abstract=r"^(?:pub(?:\([^)]*\))?\s+)?(?:unsafe\s+)?trait\b",  # a default method may be empty on purpose
    imports=ImportRules(
        query="""
(mod_item name: (identifier) @module !body)
(use_declaration argument: (scoped_identifier path: (_) @module name: (identifier) @name))
(use_declaration argument: (scoped_use_list path: (_) @module list: (use_list (identifier) @name)))
""",
        suffixes=(".rs", "/mod.rs"),
        separator="::",
        submodules=True,
        roots=("crate", "self", "super"),
    ),
)
