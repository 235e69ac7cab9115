"""Text to tokens and back, byte for byte.

Decoding joins the tokens' bytes, so it never depends on neighbours: the text of two tokens is the text of the first
followed by the text of the second. Special tokens that stand in a document as text are encoded as the text they are.
"""

import bisect
import re
from collections.abc import Collection
from functools import cached_property

from tokenizers import AddedToken, Tokenizer

from inference.engine.canvas import cutting

_LINES_KEPT, _LONGEST_LINE_KEPT = 16_384, 400
"""How many lines' tokens are remembered, some thirty files, and how many characters such a line has at most."""


class Vocabulary:
    """A checkpoint's tokens as bytes."""

    def __init__(self, tokenizer: Tokenizer, control_ids: Collection[int] = ()) -> None:
        """`tokenizer`: byte-level, or with byte fallback. Special tokens that stand in a text are text from now on.

        `control_ids` are special whether the tokenizer says so or not: slack, mask.
        """
        self._tokenizer = tokenizer
        self._tokenizer.encode_special_tokens = True
        self._byte_level = "ByteLevel" in repr(tokenizer.decoder)
        self._make_special(control_ids)
        added = self._tokenizer.get_added_tokens_decoder()
        self._lines: dict[str, list[int]] = {}
        self.special_ids: tuple[int, ...] = tuple(id_ for id_, token in added.items() if token.special)

    def __len__(self) -> int:
        return self._tokenizer.get_vocab_size(with_added_tokens=True)

    def id_of(self, token: str) -> int | None:
        """The id of a token by its name, None where the vocabulary has no such token."""
        return self._tokenizer.token_to_id(token)

    def encode(self, text: str) -> list[int]:
        """The tokens of a text, no special tokens added. A long text is tokenised in pieces, which may break a word."""
        pieces = (self._tokenizer.encode(piece, add_special_tokens=False).ids for piece in cutting.pieces(text))
        return [id_ for ids in pieces for id_ in ids]

    def encode_lines(self, text: str) -> list[int]:
        """The tokens of a text, each line encoded by itself with the line breaks before it, and remembered."""
        lines = re.findall(r"\n*[^\n]+|\n+", text)
        if len(self._lines) > _LINES_KEPT:
            self._lines.clear()
        new = list({line for line in lines if line not in self._lines})
        encoded = self._tokenizer.encode_batch(new, add_special_tokens=False)
        ids = dict(zip(new, (each.ids for each in encoded), strict=True))
        found = [id_ for line in lines for id_ in (self._lines[line] if line in self._lines else ids[line])]
        self._lines.update((line, ids[line]) for line in new if len(line) <= _LONGEST_LINE_KEPT)
        return found

    def bytes_of(self, ids: list[int]) -> bytes:
        """The bytes these tokens stand for; special tokens stand for none."""
        return b"".join(self._bytes[id_] for id_ in ids)

    def decode(self, ids: list[int]) -> str:
        """The text of some tokens; bytes that are no UTF-8 (half a character) become U+FFFD."""
        return self.bytes_of(ids).decode("utf-8", errors="replace")

    def starting_with(self, start: bytes, *, single_line: bool = False) -> list[int]:
        """Every token whose bytes begin with `start` (token healing): `start`'s own token and all that extend it.

        `single_line`: without those that break the line behind `start`.
        """
        first = bisect.bisect_left(self._sorted, start, key=self._bytes.__getitem__)
        found = []
        for place in range(first, len(self._sorted)):
            id_ = self._sorted[place]
            value = self._bytes[id_]
            if not value.startswith(start):
                break
            if not (single_line and _breaks_line(value[len(start) :])):
                found.append(id_)
        return found

    def prepare(self) -> None:
        """Makes now what is made when it is first asked for otherwise, which takes a second for 262,144 tokens."""
        len(self._sorted)

    def _make_special(self, ids: Collection[int]) -> None:
        added = self._tokenizer.get_added_tokens_decoder()
        names = (self._tokenizer.id_to_token(id_) for id_ in ids if id_ not in added or not added[id_].special)
        self._tokenizer.add_special_tokens([AddedToken(name, special=True) for name in names if name is not None])

    @cached_property
    def line_break_ids(self) -> list[int]:
        """Every token that would end a line."""
        return [id_ for id_, value in enumerate(self._bytes) if _breaks_line(value)]

    @cached_property
    def _bytes(self) -> list[bytes]:
        special = set(self.special_ids)
        of = self._from_byte_level if self._byte_level else _from_byte_fallback
        tokens = (self._tokenizer.id_to_token(id_) for id_ in range(len(self)))
        return [b"" if token is None or id_ in special else of(token) for id_, token in enumerate(tokens)]

    @cached_property
    def _sorted(self) -> list[int]:
        """The ids of all tokens with text, in the order of that; ids alone, for a large vocabulary takes memory."""
        return sorted((id_ for id_, value in enumerate(self._bytes) if value), key=self._bytes.__getitem__)

    @staticmethod
    def _from_byte_level(token: str) -> bytes:
        return bytes(_BYTE_OF_CHARACTER[character] for character in token if character in _BYTE_OF_CHARACTER)


def _breaks_line(value: bytes) -> bool:
    return b"\n" in value or b"\r" in value


def _from_byte_fallback(token: str) -> bytes:
    """SentencePiece style: U+2581 stands for a space, `<0x0A>` for one byte."""
    if len(token) == 6 and token.startswith("<0x") and token.endswith(">"):
        return bytes([int(token[3:5], 16)])
    return token.replace("\u2581", " ").encode()


def _byte_of_character() -> dict[str, int]:
    """GPT-2's printable stand-ins: printable Latin-1 bytes are themselves, the others count up from U+0100."""
    printable = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    others = [byte for byte in range(0x100) if byte not in printable]
    return {chr(byte): byte for byte in printable} | {chr(0x100 + i): byte for i, byte in enumerate(others)}


_BYTE_OF_CHARACTER = _byte_of_character()
