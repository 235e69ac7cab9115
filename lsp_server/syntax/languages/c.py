"""C and C++."""

from dataclasses import replace

from lsp_server.syntax.languages.table import (
    ARROWS,
    ON_ITS_LINE,
    TODO,
    UNCLOSED,
    UNWRITTEN,
    ImportRules,
    braces,
    kinds,
    with_braces,
)

_WORDS = "struct union enum extern if else for while do switch"

C = with_braces(
    ids=("c",),
    extensions=(".c", ".h"),
    grammar="tree_sitter_c:language",
    harmful=(UNCLOSED, ARROWS),
    strings=kinds("string_literal char_literal system_lib_string"),
    statement_end=";",
    argument_lists=kinds("argument_list parameter_list preproc_params"),
    blocks=kinds(
        "translation_unit compound_statement field_declaration_list enumerator_list case_statement", "declaration_list"
    ),
    opening=braces(_WORDS) + ON_ITS_LINE,
    functions=kinds("function_definition"),
    fillers=rf"assert\(\s*(?:0|false)\s*&&\s*\"{TODO}.{{0,400}}\)",
    body_fillers=rf"assert\(\s*(?:0|false)\s*&&\s*\".{{0,400}}{UNWRITTEN}.{{0,400}}\)",
    imports=ImportRules(
        query="(preproc_include path: (string_literal (string_content) @module))",
        suffixes=("",),
        folders=("", "include", "src"),
    ),
)

CPP = replace(
    C,
    ids=("cpp", "c++", "cuda-cpp"),
    extensions=(".cpp", ".cc", ".cxx", ".hpp", ".hh", ".hxx", ".ipp", ".cu", ".cuh"),
    grammar="tree_sitter_cpp:language",
    strings=C.strings | kinds("raw_string_literal"),
    opening=braces(_WORDS, "class namespace try catch") + ON_ITS_LINE,
    functions=C.functions | kinds("lambda_expression"),
    may_be_empty=kinds("lambda_expression"),
    closures=kinds("lambda_expression"),
    fillers=rf"{C.fillers}|throw std::\w+\(\s*\"{TODO}.{{0,400}}\)",
    body_fillers=rf"{C.body_fillers}|throw std::\w+\(\s*\".{{0,400}}{UNWRITTEN}.{{0,400}}\)",
    # a destructor, or a constructor: with an initializer list, inside its class, outside it
    empty_on_purpose=r"~\w|\)\s*(?:noexcept\s*)?:|^(?:(?:explicit|inline|constexpr|virtual)\s+)*\w+\s*\(|\b(\w+)::\1\s*\(",
)
