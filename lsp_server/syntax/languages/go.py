"""Go."""

from lsp_server.syntax.language_table import TODO, UNWRITTEN, BindingRules, kinds, with_braces

_BINDING = BindingRules(
    names=kinds("identifier type_identifier field_identifier package_identifier"),
    scopes=kinds(
        "source_file function_declaration method_declaration func_literal block if_statement for_statement",
        "expression_case type_case communication_case type_switch_statement expression_switch_statement",
        "default_case type_spec function_type method_elem",
    ),
    binds=kinds(
        "short_var_declaration.left var_spec.name const_spec.name function_declaration.name type_spec.name",
        "type_alias.name range_clause.left import_spec.name type_switch_statement.alias",
        "type_parameter_declaration.name receive_statement.left",
    ),
    parameters=kinds("parameter_declaration.name variadic_parameter_declaration.name"),
    passes=kinds("expression_list."),
    paths=kinds("import_spec package_clause"),
    fields=(("selector_expression.field", "operand"),),
    members=kinds("field_declaration.name method_declaration.name method_elem.name"),
    owners=(("type_spec", "name"), ("method_declaration", "receiver")),
    keywords=kinds("keyed_element.key"),
    calls=(("call_expression", "function", "arguments"), ("composite_literal", "type", "body")),
    shares_folder=True,
)

GO = with_braces(
    ids=("go",),
    aliases=("golang",),
    extensions=(".go",),
    grammar="tree_sitter_go:language",
    strings=kinds("interpreted_string_literal raw_string_literal rune_literal"),
    argument_lists=kinds("argument_list parameter_list"),
    headers=kinds("expression_switch_statement type_switch_statement select_statement interface_type"),
    blocks=kinds(
        "source_file block statement_list field_declaration_list expression_case default_case type_case",
        "communication_case",
    ),
    header_words="func type if else for switch select case default",
    indent="\t",
    binding=_BINDING,
    functions=kinds("function_declaration method_declaration func_literal"),
    closures=kinds("func_literal"),
    fillers=rf"panic\(\s*[\"`]{TODO}.{{0,400}}\)",
    body_fillers=rf"panic\(\s*[\"`].{{0,400}}{UNWRITTEN}.{{0,400}}\)",
    empty_on_purpose=r"^func\s*\(\s*\*?\w+\s*\)",  # a receiver without a name: the method only satisfies an interface
)
