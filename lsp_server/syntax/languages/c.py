"""C and C++."""

from dataclasses import replace

from lsp_server.syntax.language_table import TODO, UNWRITTEN, BindingRules, ImportRules, kinds, with_braces

_CLASSES = ("struct_specifier", "union_specifier", "class_specifier")
_BINDING = BindingRules(
    names=kinds("identifier field_identifier type_identifier namespace_identifier"),
    scopes=kinds(
        "translation_unit function_definition compound_statement for_statement for_range_loop",
        "namespace_definition lambda_expression catch_clause template_declaration",
        *_CLASSES,
    ),
    binds=kinds(
        "declaration.declarator init_declarator.declarator function_definition.declarator",
        "field_declaration.declarator type_definition.declarator enumerator.name enum_specifier.name",
        "preproc_def.name preproc_function_def.name alias_declaration.name for_range_loop.declarator",
        "structured_binding_declarator. type_parameter_declaration. namespace_definition.name",
        *(f"{kind}.name" for kind in _CLASSES),
    ),
    parameters=kinds("parameter_declaration.declarator optional_parameter_declaration.declarator"),
    passes=kinds(
        "pointer_declarator.declarator array_declarator.declarator function_declarator.declarator",
        "parenthesized_declarator. reference_declarator.",
    ),
    redeclared=kinds("function_declarator"),
    typed=kinds("declaration field_declaration function_definition"),
    fields=(("field_expression.field", "argument"), ("qualified_identifier.name", "scope")),
    owners=tuple((kind, "name") for kind in _CLASSES),
    selves=kinds("this"),
    keywords=kinds("field_designator."),
    calls=(("call_expression", "function", "arguments"),),
    members_in_scope=True,
)

C = with_braces(
    ids=("c",),
    extensions=(".c", ".h"),
    grammar="tree_sitter_c:language",
    harmful=("brackets", "arrows"),
    strings=kinds("string_literal char_literal system_lib_string"),
    statement_end=";",
    argument_lists=kinds("argument_list parameter_list preproc_params"),
    blocks=kinds(
        "translation_unit compound_statement field_declaration_list enumerator_list case_statement", "declaration_list"
    ),
    header_words="struct union enum extern if else for while do switch",
    brace_below=True,
    functions=kinds("function_definition"),
    fillers=rf"assert\(\s*(?:0|false)\s*&&\s*\"{TODO}.{{0,400}}\)",
    body_fillers=rf"assert\(\s*(?:0|false)\s*&&\s*\".{{0,400}}{UNWRITTEN}.{{0,400}}\)",
    binding=_BINDING,
    imports=ImportRules(
        query="(preproc_include path: (string_literal (string_content) @module))",
        suffixes=("",),
        folders=("", "include", "src"),
    ),
)

CPP = replace(
    C,
    ids=("cpp", "c++", "cuda-cpp"),
    aliases=("c-cpp", "cc", "cxx", "cuda", "arduino"),
    extensions=(".cpp", ".cc", ".cxx", ".hpp", ".hh", ".hxx", ".ipp", ".cu", ".cuh"),
    grammar="tree_sitter_cpp:language",
    strings=C.strings | kinds("raw_string_literal"),
    header_words=f"{C.header_words} class namespace try catch",
    functions=C.functions | kinds("lambda_expression"),
    closures=kinds("lambda_expression"),
    fillers=rf"{C.fillers}|throw std::\w+\(\s*\"{TODO}.{{0,400}}\)",
    body_fillers=rf"{C.body_fillers}|throw std::\w+\(\s*\".{{0,400}}{UNWRITTEN}.{{0,400}}\)",
    # a destructor, or a constructor: with an initializer list, inside its class, outside it
    empty_on_purpose=r"~\w|\)\s*(?:noexcept\s*)?:|^(?:(?:explicit|inline|constexpr|virtual)\s+)*\w+\s*\(|\b(\w+)::\1\s*\(",
)
