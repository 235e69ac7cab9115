"""C#."""

from lsp_server.syntax.languages.table import ON_ITS_LINE, UNCLOSED, UNCLOSED_ANGLES, braces, kinds, with_braces

_SPECIAL = kinds(
    "constructor_declaration destructor_declaration accessor_declaration lambda_expression",
    "anonymous_method_expression",
)

CSHARP = with_braces(
    ids=("csharp", "c-sharp", "cs"),
    extensions=(".cs", ".csx"),
    grammar="tree_sitter_c_sharp:language",
    harmful=(UNCLOSED, UNCLOSED_ANGLES),
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
    opening=braces(
        "namespace class struct interface enum record if else for foreach while do switch try catch finally",
        "using lock get set init unsafe checked",
    )
    + ON_ITS_LINE,
    functions=_SPECIAL | kinds("method_declaration local_function_statement operator_declaration"),
    may_be_empty=_SPECIAL,
    body_arrows=kinds("=>"),
    closures=kinds("lambda_expression anonymous_method_expression"),
    classes=kinds("class_declaration struct_declaration interface_declaration record_declaration"),
    fillers=r"throw new (?:System\.)?NotImplementedException\(.{0,400}\)",
    empty_on_purpose=r"\bvirtual\b",  # a hook for subclasses
)
