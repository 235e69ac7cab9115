"""JavaScript and TypeScript, with and without markup in them."""

from dataclasses import replace

from lsp_server.syntax.language_table import (
    NOT_FOR_OTHERS,
    TODO,
    UNWRITTEN,
    BindingRules,
    ImportRules,
    kinds,
    with_braces,
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

_BINDING = BindingRules(
    names=kinds(
        "identifier type_identifier property_identifier private_property_identifier shorthand_property_identifier",
        "shorthand_property_identifier_pattern",
    ),
    scopes=kinds(
        "program function_declaration generator_function_declaration method_definition class function_expression",
        "generator_function arrow_function class_declaration catch_clause statement_block for_statement",
        "for_in_statement abstract_class_declaration type_alias_declaration interface_declaration",
        "function_signature method_signature",
    ),
    binds=kinds(
        "function_declaration.name generator_function_declaration.name class_declaration.name",
        "variable_declarator.name catch_clause.parameter for_in_statement.left import_clause. namespace_import.",
        "import_specifier.name import_specifier.alias enum_declaration.name interface_declaration.name",
        "type_alias_declaration.name type_parameter.name abstract_class_declaration.name function_signature.name",
    ),
    parameters=kinds(
        "formal_parameters. required_parameter.pattern optional_parameter.pattern arrow_function.parameter"
    ),
    passes=kinds(
        "object_pattern. array_pattern. pair_pattern.value rest_pattern. assignment_pattern.left",
        "object_assignment_pattern.left",
    ),
    hoisted=kinds("variable_declaration"),
    paths=kinds("import_statement"),
    fields=(("member_expression.property", "object"),),
    members=kinds(
        "method_definition.name public_field_definition.name field_definition.property property_signature.name",
        "method_signature.name abstract_method_signature.name enum_body.name enum_assignment.name",
    ),
    owners=(
        *(("class_declaration", "name"), ("class", "name"), ("abstract_class_declaration", "name")),
        *(("interface_declaration", "name"), ("enum_declaration", "name"), ("type_alias_declaration", "name")),
    ),
    keys=kinds("pair.key"),
    keywords=kinds("jsx_attribute."),
    foreign=kinds("export_specifier.alias"),
    elements=kinds("jsx_opening_element jsx_self_closing_element"),
    selves=kinds("this"),
    assigned=kinds("assignment_expression.left"),
    shorthand=(("shorthand_property_identifier", ": "), ("export_specifier.name", " as ")),
    calls=(("call_expression", "function", "arguments"), ("new_expression", "constructor", "arguments")),
    awaits="await_expression",
    async_result="Promise",
    waiters=r"\b(?:all|race|any|allSettled|resolve|waitUntil|expect)$",
)

JAVASCRIPT = with_braces(
    ids=("javascript", "javascriptreact", "jsx"),
    aliases=("js", "js2", "js3", "js-jsx", "js2-jsx", "rjsx", "mjs", "cjs", "node", "ecmascript", "babel"),
    extensions=(".js", ".mjs", ".cjs", ".jsx"),
    grammar="tree_sitter_javascript:language",
    strings=kinds("string template_string regex"),
    interpolations=kinds("template_substitution"),
    word_characters="$",
    argument_lists=kinds("arguments formal_parameters"),
    blocks=kinds("program statement_block class_body switch_body switch_case switch_default"),
    header_words="class if else for while do switch try finally function",
    indent="  ",
    functions=kinds(
        "function_declaration generator_function_declaration method_definition function_expression",
        "generator_function arrow_function",
    ),
    may_be_empty=kinds("object"),
    closures=kinds("function_expression generator_function arrow_function"),
    classes=kinds("class_declaration class"),
    fillers=rf"throw new \w*Error\(\s*[\"'`]{TODO}.{{0,400}}\)",
    body_fillers=rf"throw new \w*Error\(\s*[\"'`]{NOT_FOR_OTHERS}.{{0,400}}{UNWRITTEN}.{{0,400}}\)",
    empty_on_purpose=r"^(?:(?:public|private|protected)\s+)?constructor\b",
    binding=_BINDING,
    imports=_IMPORTS,
)

TYPESCRIPT = replace(
    JAVASCRIPT,
    ids=("typescript",),
    aliases=("ts", "mts", "cts"),
    extensions=(".ts", ".mts", ".cts"),
    grammar="tree_sitter_typescript:language_typescript",
    blocks=JAVASCRIPT.blocks | kinds("interface_body enum_body object_type"),
    header_words=f"{JAVASCRIPT.header_words} interface enum namespace module",
    classes=kinds("class_declaration class abstract_class_declaration"),
    declarations=(".d.ts", ".d.mts", ".d.cts"),
    harmful=("markers", "angles"),
)

TSX = replace(
    TYPESCRIPT,
    ids=("typescriptreact", "tsx"),
    aliases=("typescript-tsx", "typescript-react"),
    extensions=(".tsx",),
    grammar="tree_sitter_typescript:language_tsx",
    declarations=(),
)
