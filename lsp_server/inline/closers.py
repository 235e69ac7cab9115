"""Brackets and quotes that editors close by themselves."""

_CLOSERS = {"(": ")", "[": "]", "{": "}"}
_QUOTES = "\"'`"


def closers_of(typed: str) -> str:
    """What an editor that closes brackets and quotes has put behind the cursor after `typed`, innermost first."""
    stack: list[str] = []
    for character in typed:
        if stack and character == stack[-1]:
            stack.pop()
        elif stack and stack[-1] in _QUOTES:  # inside a string
            continue
        elif character in _CLOSERS:
            stack.append(_CLOSERS[character])
        elif character in _QUOTES:
            stack.append(character)
    return "".join(reversed(stack))


def are_closed_by_editor(typed: str, inserted: str) -> bool:
    """Whether `inserted`, behind the cursor, is nothing but what an editor may have closed of `typed`."""
    return closers_of(typed).startswith(inserted)
