"""How many tokens a text is, as near as can be told without the model's tokenizer; rather too many than too few."""

from collections.abc import Iterable, Iterator

from inference.messages import Snippet

BYTES_PER_TOKEN = 3
"""Code has 3 to 4 bytes of UTF-8 to a token with the tokenizers we know; other scripts about one character, 3 bytes."""


def tokens(text: str) -> int:
    """An estimate for `text`."""
    return -(-len(text.encode("utf-8", "replace")) // BYTES_PER_TOKEN)


def within(snippets: Iterable[Snippet], max_tokens: int) -> Iterator[Snippet]:
    """The snippets that fit into the budget, the first ones first; one that does not fit is passed over."""
    left = max_tokens
    for snippet in snippets:
        need = tokens(snippet.path) + tokens(snippet.text)
        if need <= left:
            left -= need
            yield snippet
