"""Python."""

import builtins

from lsp_server.syntax.language_table import NOT_FOR_OTHERS, BindingRules, ImportRules, LanguageTable, kinds

_BINDING = BindingRules(
    names=kinds("identifier"),
    scopes=kinds(
        "module function_definition class_definition lambda",
        "list_comprehension set_comprehension dictionary_comprehension generator_expression",
    ),
    binds=kinds(
        "function_definition.name class_definition.name assignment.left for_statement.left for_in_clause.left",
        "named_expression.name as_pattern.alias import_statement.name import_from_statement.name",
        "aliased_import.alias case_pattern. splat_pattern. keyword_pattern.",
    ),
    parameters=kinds("parameters. lambda_parameters."),
    passes=kinds(
        "default_parameter.name typed_parameter. typed_default_parameter.name list_splat_pattern.",
        "dictionary_splat_pattern. pattern_list. tuple_pattern. list_pattern. as_pattern_target. tuple.",
        "dotted_name.",
    ),
    outside=kinds(
        "default_parameter.value typed_default_parameter.value typed_default_parameter.type typed_parameter.type",
        "function_definition.return_type class_definition.superclasses",
    ),
    outward=kinds("global_statement nonlocal_statement"),
    paths=kinds("import_statement import_from_statement future_import_statement"),
    fields=(("attribute.attribute", "object"),),
    owners=(("class_definition", "name"),),
    selves=kinds("self cls"),
    assigned=kinds("assignment.left"),
    keywords=kinds("keyword_argument.name"),
    calls=(("call", "function", "arguments"),),
    quoted=True,
    builtins=frozenset({*dir(builtins), "__file__", "__path__"}),
    awaits="await",
    async_result="",
    waiters=r"\b(?:\w*gather|create_task|ensure_future|\w*run\w*|wait\w*|shield|as_completed|\w*submit|start_soon|spawn)$",
)

PYTHON = LanguageTable(
    ids=("python",),
    aliases=("py", "python2", "python3", "ipython"),
    extensions=(".py", ".pyi", ".pyw"),
    grammar="tree_sitter_python:language",
    line_comment="#",
    ignored=kinds("line_continuation"),
    strings=kinds("string"),
    multiline_quotes=('"""', "'''"),
    interpolations=kinds("interpolation"),
    openers=kinds(":"),
    headers=kinds(
        "function_definition class_definition with_statement for_statement while_statement if_statement",
        "elif_clause else_clause match_statement case_clause try_statement except_clause finally_clause",
    ),
    opening=r"^\s*(?:def|class|async|with|for|while|if|elif|else|match|case|try|except|finally)\b.*:\s*$",
    blocks=kinds("block module"),
    statements=kinds("expression_statement"),
    documented=kinds("function_definition class_definition"),
    argument_lists=kinds("argument_list parameters"),
    operand_ends=kinds(", ; : for in if else async as"),
    by_indentation=True,
    functions=kinds("function_definition"),
    classes=kinds("class_definition"),
    wrappers=kinds("decorated_definition"),
    body_fillers=rf"\.\.\.|pass\b|raise NotImplementedError\b{NOT_FOR_OTHERS}.{{0,400}}",
    meant_inline=kinds("pass"),
    empty_on_purpose=r"@(?:\w+\.)*(?:abstract\w*|overload)\b|#.*(?:pragma: no cover|(?i:\babstract))",
    abstract=r"\b(?:Protocol|ABC|ABCMeta)\b",
    declarations=(".pyi",),
    binding=_BINDING,
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
