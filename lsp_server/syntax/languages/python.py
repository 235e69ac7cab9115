"""Python."""

from lsp_server.syntax.languages.table import NOT_FOR_OTHERS, ImportRules, LanguageTable

PYTHON = LanguageTable(
    ids=("python",),
    extensions=(".py", ".pyi", ".pyw"),
    grammar="tree_sitter_python:language",
    comments=frozenset({"comment"}),
    line_comment="#",
    ignored=frozenset({"line_continuation"}),
    strings=frozenset({"string"}),
    multiline_quotes=('"""', "'''"),
    interpolations=frozenset({"interpolation"}),
    openers=frozenset({":"}),
    headers=frozenset(
        {
            *("function_definition", "class_definition", "with_statement", "for_statement", "while_statement"),
            *("if_statement", "elif_clause", "else_clause", "match_statement", "case_clause"),
            *("try_statement", "except_clause", "finally_clause"),
        }
    ),
    opening=r"^\s*(?:def|class|async|with|for|while|if|elif|else|match|case|try|except|finally)\b.*:\s*$",
    blocks=frozenset({"block", "module"}),
    statements=frozenset({"expression_statement"}),
    documented=frozenset({"function_definition", "class_definition"}),
    argument_lists=frozenset({"argument_list", "parameters"}),
    operand_ends=frozenset({",", ";", ":", "for", "in", "if", "else", "async", "as"}),
    by_indentation=True,
    omitted_body="...",
    functions=frozenset({"function_definition"}),
    classes=frozenset({"class_definition"}),
    wrappers=frozenset({"decorated_definition"}),
    body_fillers=rf"\.\.\.|pass\b|raise NotImplementedError\b{NOT_FOR_OTHERS}.{{0,400}}",
    meant_inline=frozenset({"pass"}),
    empty_on_purpose=r"@(?:\w+\.)*(?:abstract\w*|overload)\b|#.*(?:pragma: no cover|(?i:\babstract))",
    abstract=r"\b(?:Protocol|ABC|ABCMeta)\b",
    declarations=(".pyi",),
    imports=ImportRules(
        query="""
(import_statement name: (dotted_name) @module)
(import_statement name: (aliased_import name: (dotted_name) @module))
(import_from_statement module_name: (_) @module)
(import_from_statement module_name: (_) @module name: (dotted_name) @name)
(import_from_statement module_name: (_) @module name: (aliased_import name: (dotted_name) @name))
""",
        suffixes=(".py", "/__init__.py", ".pyi"),
        separator=".",
        dots_up=True,
        submodules=True,
    ),
)
