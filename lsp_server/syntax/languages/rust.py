"""Rust."""

from lsp_server.syntax.language_table import TODO, UNWRITTEN, BindingRules, ImportRules, kinds, with_braces

_BINDING = BindingRules(
    names=kinds("identifier type_identifier field_identifier shorthand_field_identifier"),
    scopes=kinds(
        "source_file function_item closure_expression block match_arm for_expression declaration_list",
        "if_expression while_expression impl_item trait_item struct_item function_signature_item enum_item",
    ),
    binds=kinds(
        "let_declaration.pattern let_condition.pattern for_expression.pattern match_pattern. function_item.name",
        "struct_item.name enum_item.name const_item.name static_item.name mod_item.name type_item.name",
        "trait_item.name use_declaration.argument use_as_clause.alias use_list. scoped_use_list.list",
        "type_parameter.name union_item.name macro_definition.name",
    ),
    parameters=kinds("parameter.pattern closure_parameters."),
    passes=kinds(
        "tuple_pattern. mut_pattern. ref_pattern. reference_pattern. tuple_struct_pattern. slice_pattern.",
        "field_pattern.pattern captured_pattern. or_pattern. struct_pattern. scoped_identifier.name",
    ),
    paths=kinds("use_declaration"),
    fields=(
        ("field_expression.field", "value"),
        ("scoped_identifier.name", "path"),
        ("scoped_type_identifier.name", "path"),
    ),
    members=kinds("field_declaration.name enum_variant.name"),
    owners=(("impl_item", "type"), ("struct_item", "name"), ("trait_item", "name"), ("enum_item", "name")),
    selves=kinds("self Self"),
    shorthand=(("shorthand_field_initializer.", ": "),),
    keywords=kinds("field_initializer.field"),
    unparsed=kinds("token_tree"),
    calls=(("call_expression", "function", "arguments"), ("struct_expression", "name", "body")),
    awaits="await_expression",
    async_result="",
    await_before="",
    await_after=".await",
    waiters=r"\b(?:spawn\w*|block_on|timeout|join_all|select)$",
)

RUST = with_braces(
    ids=("rust",),
    aliases=("rs", "rustic"),
    extensions=(".rs",),
    grammar="tree_sitter_rust:language",
    harmful=("brackets",),
    comments=kinds("line_comment block_comment"),
    strings=kinds("string_literal raw_string_literal char_literal"),
    quoted=r'r#+"(?s:.*?)"#+|"(?s:\\.|[^"\\])*"|\'(?:\\[^\'\n]+|\\\'|[^\'\\\n])\'',  # a lifetime has one quote
    quotes='"',
    statement_end=";",
    argument_lists=kinds("arguments parameters token_tree"),
    operand_ends=kinds(", ; : =>"),
    blocks=kinds("source_file block declaration_list match_block field_declaration_list enum_variant_list"),
    header_words="fn impl trait mod struct enum union if else match loop while for unsafe async extern",
    functions=kinds("function_item closure_expression"),
    closures=kinds("closure_expression"),
    classes=kinds("impl_item trait_item"),
    fillers=r"todo!\s*[(\[{].{0,400}?[)\]}]|unimplemented!\(\s*\)",
    body_fillers=rf"unimplemented!\(.{{0,400}}\)|panic!\(\s*\"(?:{TODO}|{UNWRITTEN}).{{0,400}}\)",
    abstract=r"^(?:pub(?:\([^)]*\))?\s+)?(?:unsafe\s+)?trait\b",  # a default method may be empty on purpose
    binding=_BINDING,
    imports=ImportRules(
        query="""
(mod_item name: (identifier) @module !body)
(use_declaration argument: (scoped_identifier path: (_) @module name: (identifier) @name))
(use_declaration argument: (scoped_use_list path: (_) @module list: (use_list (identifier) @name)))
""",
        suffixes=(".rs", "/mod.rs"),
        separator="::",
        submodules=True,
        roots=("crate", "self", "super"),
    ),
)
