"""PHP."""

from lsp_server.syntax.language_table import NOT_FOR_OTHERS, TODO, UNWRITTEN, kinds, with_braces

_THROW = r"throw new [\w\\]*(?:Exception|Error)\(\s*[\"']"

PHP = with_braces(
    ids=("php",),
    aliases=("php5", "php7", "php8"),
    extensions=(".php", ".phtml"),
    grammar="tree_sitter_php:language_php",
    strings=kinds("string encapsed_string"),
    interpolations=kinds("variable_name"),
    word_characters="$",
    statement_end=";",
    argument_lists=kinds("arguments formal_parameters"),
    blocks=kinds(
        "program compound_statement declaration_list enum_declaration_list switch_block case_statement",
        "default_statement match_block",
    ),
    header_words=(
        "function class interface trait enum namespace if else elseif for foreach while do switch try catch finally"
    ),
    brace_below=True,
    functions=kinds("function_definition method_declaration anonymous_function arrow_function"),
    closures=kinds("anonymous_function arrow_function"),
    classes=kinds("class_declaration interface_declaration trait_declaration enum_declaration"),
    fillers=rf"{_THROW}{TODO}.{{0,400}}\)",
    body_fillers=rf"{_THROW}{NOT_FOR_OTHERS}.{{0,400}}{UNWRITTEN}.{{0,400}}\)",
    empty_on_purpose=r"\bfunction\s+__(?:construct|destruct)\b",
)
