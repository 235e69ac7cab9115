"""JavaScript and TypeScript, with and without markup in them."""

from dataclasses import replace

from lsp_server.syntax.languages.table import (
    BRACES,
    NOT_FOR_OTHERS,
    TODO,
    UNCLOSED_ANGLES,
    UNWRITTEN,
    ImportRules,
    LanguageTable,
    braces,
)

_IMPORTS = ImportRules(
    query="""
(import_statement source: (string (string_fragment) @module))
(import_statement (import_clause (named_imports (import_specifier name: (identifier) @name)))
  source: (string (string_fragment) @module))
(import_statement (import_clause (identifier) @name) source: (string (string_fragment) @module))
(export_statement source: (string (string_fragment) @module))
(export_statement (export_clause (export_specifier name: (identifier) @name))
  source: (string (string_fragment) @module))
(variable_declarator value: (call_expression function: (identifier) @_function
  arguments: (arguments . (string (string_fragment) @module) .)) (#eq? @_function "require"))
""",
    suffixes=(
        *(".ts", ".tsx", ".js", ".jsx", ".mts", ".mjs", ".cjs", ".d.ts", ""),
        *("/index.ts", "/index.tsx", "/index.js", "/src/index.ts", "/src/index.js"),
    ),
    dot_relative=True,
    roots=("@", "~"),
    replaced=(".js", ".jsx", ".mjs", ".cjs"),
    folders=("", "src", "node_modules", "packages"),
)

JAVASCRIPT = LanguageTable(
    ids=("javascript", "javascriptreact", "jsx"),
    extensions=(".js", ".mjs", ".cjs", ".jsx"),
    grammar="tree_sitter_javascript:language",
    comments=frozenset({"comment"}),
    block_comments=(("/*", "*/"),),
    line_comment="//",
    strings=frozenset({"string", "template_string", "regex"}),
    interpolations=frozenset({"template_substitution"}),
    word_characters="$",
    argument_lists=frozenset({"arguments", "formal_parameters"}),
    openers=frozenset({"{"}),
    blocks=frozenset({"program", "statement_block", "class_body", "switch_body", "switch_case", "switch_default"}),
    opening=braces("class", "if", "else", "for", "while", "do", "switch", "try", "finally", "function"),
    closers=frozenset({"}"}),
    statements=frozenset({"expression_statement"}),
    indent="  ",
    functions=frozenset(
        {
            *("function_declaration", "generator_function_declaration", "method_definition"),
            *("function_expression", "generator_function", "arrow_function"),
        }
    ),
    may_be_empty=frozenset({"function_expression", "generator_function", "arrow_function", "object"}),
    closures=frozenset({"function_expression", "generator_function", "arrow_function"}),
    classes=frozenset({"class_declaration", "class"}),
    empty=BRACES,
    fillers=rf"throw new \w*Error\(\s*[\"'`]{TODO}.{{0,400}}\)",
    body_fillers=rf"throw new \w*Error\(\s*[\"'`]{NOT_FOR_OTHERS}.{{0,400}}{UNWRITTEN}.{{0,400}}\)",
    empty_on_purpose=r"^(?:(?:public|private|protected)\s+)?constructor\b",
    imports=_IMPORTS,
)

TYPESCRIPT = replace(
    JAVASCRIPT,
    ids=("typescript",),
    extensions=(".ts", ".mts", ".cts"),
    grammar="tree_sitter_typescript:language_typescript",
    blocks=JAVASCRIPT.blocks | {"interface_body", "enum_body", "object_type"},
    opening=braces(
        *("class", "if", "else", "for", "while", "do", "switch", "try", "finally", "function"),
        *("interface", "enum", "namespace", "module"),
    ),
    classes=frozenset({"class_declaration", "class", "abstract_class_declaration"}),
    declarations=(".d.ts", ".d.mts", ".d.cts"),
    harmful=((r"\?\?\?", 1000), UNCLOSED_ANGLES),  # many markers, too, take memory by the square of their number
)

TSX = replace(
    TYPESCRIPT,
    ids=("typescriptreact", "tsx"),
    extensions=(".tsx",),
    grammar="tree_sitter_typescript:language_tsx",
    declarations=(),
)
