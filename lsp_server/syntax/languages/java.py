"""Java."""

from lsp_server.syntax.language_table import (
    NOT_FOR_OTHERS,
    TODO,
    UNWRITTEN,
    BindingRules,
    ImportRules,
    kinds,
    with_braces,
)

_CONSTRUCTORS = kinds("constructor_declaration compact_constructor_declaration")

_TYPES = kinds("class_declaration interface_declaration enum_declaration record_declaration")
_BINDING = BindingRules(
    names=kinds("identifier type_identifier"),
    scopes=_CONSTRUCTORS
    | _TYPES
    | kinds(
        "program method_declaration block constructor_body for_statement enhanced_for_statement lambda_expression",
        "catch_clause try_with_resources_statement switch_block_statement_group",
    ),
    binds=kinds(
        "variable_declarator.name catch_formal_parameter.name enhanced_for_statement.name resource.name",
        "instanceof_expression.name method_declaration.name enum_constant.name import_declaration. type_parameter.",
        *(f"{kind}.name" for kind in _TYPES),
    ),
    parameters=kinds("formal_parameter.name lambda_expression.parameters inferred_parameters. spread_parameter."),
    passes=kinds("scoped_identifier.name"),
    paths=kinds("import_declaration package_declaration"),
    fields=(("field_access.field", "object"), ("method_invocation.name", "object")),
    owners=tuple((kind, "name") for kind in sorted(_TYPES)),
    selves=kinds("this"),
    cases=kinds("switch_label."),
    calls=(("method_invocation", "name", "arguments"), ("object_creation_expression", "type", "arguments")),
    members_in_scope=True,
    shares_folder=True,
)

JAVA = with_braces(
    ids=("java",),
    harmful=("brackets", "angles", "arrows"),
    extensions=(".java",),
    grammar="tree_sitter_java:language",
    comments=kinds("line_comment block_comment"),
    strings=kinds("string_literal character_literal"),
    interpolations=kinds("string_interpolation"),
    statement_end=";",
    argument_lists=kinds("argument_list formal_parameters"),
    blocks=kinds(
        "program block constructor_body class_body interface_body enum_body enum_body_declarations",
        "annotation_type_body switch_block switch_block_statement_group",
    ),
    header_words="class interface enum record if else for while do switch try catch finally synchronized static",
    brace_below=True,
    functions=_CONSTRUCTORS | kinds("method_declaration lambda_expression"),
    may_be_empty=_CONSTRUCTORS,
    closures=kinds("lambda_expression"),
    classes=_TYPES,
    fillers=rf"throw new \w*(?:Exception|Error)\(\s*\"{TODO}.{{0,400}}\)",
    body_fillers=rf"throw new \w*(?:Exception|Error)\(\s*\"{NOT_FOR_OTHERS}.{{0,400}}{UNWRITTEN}.{{0,400}}\)",
    empty_on_purpose=r"\bdefault\b",
    binding=_BINDING,
    imports=ImportRules(
        query="(import_declaration (scoped_identifier) @module)",
        suffixes=(".java",),
        separator=".",
        folders=("", "src", "src/main/java", "src/test/java"),
    ),
)
