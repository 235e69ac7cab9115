"""C#."""

from lsp_server.syntax.language_table import BindingRules, kinds, with_braces

_SPECIAL = kinds(
    "constructor_declaration destructor_declaration accessor_declaration lambda_expression",
    "anonymous_method_expression",
)

_TYPES = ("class_declaration", "struct_declaration", "interface_declaration", "record_declaration", "enum_declaration")
_BINDING = BindingRules(
    names=kinds("identifier implicit_parameter"),
    scopes=kinds(
        "compilation_unit namespace_declaration method_declaration constructor_declaration block",
        "local_function_statement lambda_expression for_statement foreach_statement catch_clause",
        "property_declaration accessor_declaration using_statement query_expression",
        *_TYPES,
    ),
    binds=kinds(
        "variable_declarator.name foreach_statement.left catch_declaration.name property_declaration.name",
        "method_declaration.name local_function_statement.name enum_member_declaration.name",
        "declaration_pattern.name declaration_expression.name type_parameter.name event_declaration.name",
        "tuple_pattern.name from_clause.name",
        *(f"{kind}.name" for kind in _TYPES),
    ),
    parameters=kinds("parameter.name lambda_expression.parameters implicit_parameter_list."),
    paths=kinds("using_directive"),
    fields=(("member_access_expression.name", "expression"), ("conditional_access_expression.", "condition")),
    owners=tuple((kind, "name") for kind in _TYPES),
    selves=kinds("this base"),
    keywords=kinds("argument.name"),
    foreign=kinds(
        "initializer_expression/assignment_expression.left with_initializer.",
        "anonymous_object_creation_expression. subpattern. attribute_argument.name",
    ),
    calls=(
        ("invocation_expression", "function", "arguments"),
        ("object_creation_expression", "type", "arguments"),
    ),
    awaits="await_expression",
    waiters=r"\b(?:WhenAll|WhenAny|Run|WaitAll)$",
    members_in_scope=True,
    shares_folder=True,
)

CSHARP = with_braces(
    ids=("csharp", "c-sharp", "cs"),
    aliases=("c#",),
    extensions=(".cs", ".csx"),
    grammar="tree_sitter_c_sharp:language",
    harmful=("brackets", "angles"),
    strings=kinds(
        "string_literal verbatim_string_literal raw_string_literal character_literal", "interpolated_string_expression"
    ),
    interpolations=kinds("interpolation"),
    word_characters="@",
    statement_end=";",
    argument_lists=kinds("argument_list parameter_list attribute_argument_list"),
    blocks=kinds(
        "compilation_unit block declaration_list enum_member_declaration_list accessor_list switch_body",
        "switch_section",
    ),
    header_words=(
        "namespace class struct interface enum record if else for foreach while do switch try catch finally using "
        "lock get set init unsafe checked"
    ),
    brace_below=True,
    functions=_SPECIAL | kinds("method_declaration local_function_statement operator_declaration"),
    may_be_empty=_SPECIAL,
    body_arrows=kinds("=>"),
    closures=kinds("lambda_expression anonymous_method_expression"),
    classes=kinds("class_declaration struct_declaration interface_declaration record_declaration"),
    fillers=r"throw new (?:System\.)?NotImplementedException\(.{0,400}\)",
    binding=_BINDING,
    empty_on_purpose=r"\bvirtual\b",  # a hook for subclasses
)
