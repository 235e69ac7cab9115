"""Generates texts that pack together everything hard about positions, line ends and trees."""

from hypothesis import strategies as st

PIECES = [
    *("a", "word", " ", "    ", "\t", "(", ")", "[", "]", "{", "}", ":", ",", ".", "=", "'", '"', '"""', "\\", "#"),
    *("\n", "\r\n", "\r", "\x0b", "\x0c", "\x1c", "\x85", "\u2028"),
    *("é", "e\u0301", "中", "😀", "👩\u200d💻", "\ud83d", "\u200b", "\ufeff"),
    *(
        "x = 1",
        "def f(a):\n    return a\n",
        "if x:\n",
        "else:\n",
        "f'{a}'",
        "# note\n",
        "???",
        "class A:\n    '''D.'''\n",
    ),
]
"""With every line end, every character that only Python takes for one, astral characters, and a lone surrogate."""

texts = st.lists(st.sampled_from(PIECES), max_size=30).map("".join)
short_texts = st.lists(st.sampled_from(PIECES), max_size=3).map("".join)
