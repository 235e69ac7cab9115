"""Ruby, Lua and the shell, whose blocks end with a word."""

from lsp_server.syntax.language_table import NOT_FOR_OTHERS, TODO, UNWRITTEN, ImportRules, LanguageTable, kinds

RUBY = LanguageTable(
    ids=("ruby",),
    aliases=("rb", "enh-ruby", "rails", "ruby-on-rails"),
    extensions=(".rb", ".rake", ".gemspec", ".ru"),
    names=("Gemfile", "Rakefile"),
    grammar="tree_sitter_ruby:language",
    line_comment="#",
    strings=kinds("string regex string_array symbol_array"),
    interpolations=kinds("interpolation"),
    word_characters="@$",
    argument_lists=kinds("argument_list method_parameters"),
    operand_ends=kinds(", ; : => |"),
    blocks=kinds("program body_statement then else do block_body begin ensure block"),
    opening=(
        r"^\s*(?:def|class|module|if|elsif|else|unless|while|until|for|case|when|begin|rescue|ensure)\b"
        r"(?!.*\b(?:end|then)\b)[^;]*$|\b(?:do|then)\s*(?:\|[^|]*\|\s*)?$|=\s*(?:if|case|begin|unless)\b[^;]*$"
    ),
    closers=kinds("end"),
    by_indentation=True,
    indent="  ",
    functions=kinds("method singleton_method"),
    classes=kinds("class module"),
    empty=r"\bdef\b[^\n;]*\n\s*end\b",
    fillers=rf"raise[ (]+(?:\w+, *)?[\"']{TODO}[^\n]{{0,400}}",
    body_fillers=rf"raise[ (]+(?:NotImplementedError\b{NOT_FOR_OTHERS}|[^\n]{{0,400}}{UNWRITTEN})[^\n]{{0,400}}",
    imports=ImportRules(
        query="""
(call method: (identifier) @_method arguments: (argument_list (string (string_content) @module))
  (#any-of? @_method "require_relative" "require"))
""",
        suffixes=(".rb",),
        dot_relative=True,
        folders=("", "lib"),
    ),
)

LUA = LanguageTable(
    ids=("lua",),
    extensions=(".lua",),
    grammar="tree_sitter_lua:language",
    block_comments=(("--[[", "]]"),),
    line_comment="--",
    strings=kinds("string"),
    argument_lists=kinds("arguments parameters"),
    blocks=kinds("chunk block"),
    opening=r"\b(?:then|do|else|repeat)\s*$|\bfunction\b[^()]*\([^()]*\)\s*$",
    closers=kinds("end"),
    by_indentation=True,
    indent="  ",
    functions=kinds("function_declaration function_definition"),
    closures=kinds("function_definition"),
    empty=r"\)[ \t]*\n\s*end\b",
    fillers=rf"error\(\s*[\"']{TODO}.{{0,400}}\)",
    body_fillers=rf"error\(\s*[\"'].{{0,400}}{UNWRITTEN}.{{0,400}}\)",
    imports=ImportRules(
        query="""
(function_call name: (identifier) @_function arguments: (arguments (string (string_content) @module))
  (#eq? @_function "require"))
""",
        suffixes=(".lua", "/init.lua"),
        separator=".",
        folders=("", "lua", "src"),
    ),
)

BASH = LanguageTable(
    ids=("shellscript", "sh", "bash", "zsh"),
    aliases=("shell", "shell-script", "ksh", "dash"),
    extensions=(".sh", ".bash", ".zsh", ".ksh"),
    names=(".bashrc", ".bash_profile", ".profile", ".zshrc"),
    grammar="tree_sitter_bash:language",
    line_comment="#",
    not_before_comment="${&",  # `$#` and `${#name}` are expansions
    strings=kinds("string raw_string ansi_c_string heredoc_body"),
    interpolations=kinds("simple_expansion expansion command_substitution"),
    word_characters="$-",
    openers=kinds("{"),
    blocks=kinds("program compound_statement do_group if_statement else_clause case_item"),
    opening=r"\b(?:then|do|else)\s*$|\)\s*\{\s*$|^\s*function\b[^{]*\{\s*$",
    closers=kinds("} fi done esac"),
    by_indentation=True,
    indent="  ",
    functions=kinds("function_definition"),
    empty=r"\{\s*\}",
    body_fillers=r":|true|echo [\"']?TODO\b[^\n]{0,400}",
)
