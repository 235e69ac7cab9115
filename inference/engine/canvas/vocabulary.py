"""Text to tokens and back, byte for byte.

Decoding joins the tokens' bytes, so it never depends on neighbours. Special tokens written in a document are encoded as
plain text. No normaliser is used (NFC, Qwen2's), because it would change text.
"""

import bisect
from array import array
from collections.abc import Collection, Sequence
from functools import cached_property

from tokenizers import AddedToken, Tokenizer, normalizers

from inference.engine import text_window

LINE_BREAKS = (b"\n", b"\r")

_SPACE = "\u2581"
"""The character that stands for a space in the tokens of a tokenizer with byte fallback."""

_MAX_BLANK_TOKENS = 8
"""How many white space tokens before a hole token healing examines."""


class Vocabulary:
    """A tokenizer's tokens as bytes, and which of them may stand in a hole."""

    def __init__(self, tokenizer: Tokenizer, control_ids: Collection[int] = ()) -> None:
        """`tokenizer` is byte-level or has byte fallback; it is changed to encode special tokens in a text as text.

        `control_ids` are special even if the tokenizer does not say so, such as a mask.
        """
        self._tokenizer = tokenizer
        self._tokenizer.encode_special_tokens = True
        self._byte_level = "ByteLevel" in repr(tokenizer.decoder)
        if tokenizer.normalizer is not None:
            tokenizer.normalizer = None if self._byte_level else normalizers.Replace(" ", _SPACE)
        added = tokenizer.get_added_tokens_decoder()
        names = (tokenizer.id_to_token(id_) for id_ in control_ids if id_ not in added or not added[id_].special)
        tokenizer.add_special_tokens([AddedToken(name, special=True) for name in names if name is not None])
        added = tokenizer.get_added_tokens_decoder()
        self.special_ids: tuple[int, ...] = tuple(id_ for id_, token in added.items() if token.special)

    def __len__(self) -> int:
        return self._tokenizer.get_vocab_size(with_added_tokens=True)

    def id_of(self, token: str) -> int | None:
        return self._tokenizer.token_to_id(token)

    def encode(self, text: str) -> list[int]:
        """The tokens of a text, without special tokens. Tokenises a long text in pieces, which may split a word."""
        return [id_ for piece in text_window.split_for_tokenizer(text) for id_ in self._encoded(piece)]

    def bytes_of(self, ids: list[int]) -> bytes:
        """The bytes of these tokens; special tokens have none."""
        return b"".join(self._bytes[id_] for id_ in ids)

    def decode(self, ids: list[int]) -> str:
        """The text of some tokens; invalid UTF-8 (half a character) becomes U+FFFD."""
        return self.bytes_of(ids).decode("utf-8", errors="replace")

    def split_for_healing(self, ids: Sequence[int]) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """Splits off the tokens that the following text may change (token healing).

        That is the last one if it is whole characters, or for white space the one before a word, as it splits there:
        Qwen2 splits ` x` into three spaces and ` x`. Both parts together have the same bytes as `ids`.
        """
        end = len(ids)
        while end and len(ids) - end < _MAX_BLANK_TOKENS:
            value = self._bytes[ids[end - 1]]
            if not value or value.strip(b" \t\r\n"):
                break
            end -= 1
        blank = self.decode(list(ids[end:]))
        remaining = len(blank)
        for index, id_ in enumerate(word := self.encode(f"{blank}x") if blank else []):
            size = len(self._bytes[id_])
            if size >= remaining:
                return (*ids[:end], *word[:index]), tuple(self.encode(blank[-remaining:]))
            remaining -= size
        try:
            text = self.bytes_of(list(ids[-1:])).decode()
        except UnicodeDecodeError:
            return tuple(ids), ()
        return (tuple(ids[:-1]), tuple(ids[-1:])) if text else (tuple(ids), ())

    def ids_extending(self, start: bytes, *, single_line: bool = False) -> list[int]:
        """`start`'s own token and all that extend it (token healing); `single_line`: but not by a line break."""
        ids = self._range(start)
        if not single_line:
            return ids
        return [id_ for id_ in ids if not self._bytes[id_].startswith(LINE_BREAKS, len(start))]

    def ids_compatible_with(self, start: bytes) -> list[int]:
        """Every token that begins with `start` or that `start` begins with, for a place that requires `start`.

        White space splits as before a word, or a model that would rather indent less continues with single spaces.
        """
        if not start.strip(b" \t"):
            parts = [id_ for id_ in self.encode(f"{start.decode()}x")[:1] if start.startswith(self._bytes[id_])]
        else:
            parts = [id_ for end in range(1, len(start)) for id_ in self._range(start[:end], exact=True)]
        return list(dict.fromkeys(parts + self._range(start)))

    def line_breaking_ids(self, ids: Collection[int], skip: int, *, or_space: bool = False) -> list[int]:
        """The tokens that break the line before any other text, after their first `skip` bytes. `or_space`: or begin
        with white space there.
        """
        tails = ((id_, self._bytes[id_][skip:]) for id_ in ids)
        return [id_ for id_, tail in tails if (tail if or_space else tail.lstrip(b" \t"))[:1].isspace()]

    def build_indexes(self) -> None:
        """Builds the lazy indexes now, which takes a second for 262,144 tokens."""
        len(self._sorted)

    def _encoded(self, text: str) -> list[int]:
        """The tokens of a text. If U+2581 represents a space, the character itself becomes its three bytes."""
        if self._byte_level or _SPACE not in text:
            return self._tokenizer.encode_batch([text], add_special_tokens=False)[0].ids
        between = [self.id_of(f"<0x{byte:02X}>") for byte in _SPACE.encode()]
        first, *parts = self._tokenizer.encode_batch(text.split(_SPACE), add_special_tokens=False)
        return [*first.ids, *(id_ for part in parts for id_ in (*between, *part.ids) if id_ is not None)]

    @cached_property
    def line_break_ids(self) -> list[int]:
        """Every token that begins with a line break. One with text before the break also ends a line."""
        return [id_ for id_, value in enumerate(self._bytes) if value.startswith(LINE_BREAKS)]

    @cached_property
    def all_line_breaking_ids(self) -> dict[bool, list[int]]:
        """The `line_breaking_ids` of all tokens, by `or_space`."""
        return {space: self.line_breaking_ids(range(len(self)), 0, or_space=space) for space in (False, True)}

    @cached_property
    def _bytes(self) -> list[bytes]:
        special = set(self.special_ids)
        to_bytes = _from_byte_level if self._byte_level else _from_byte_fallback
        tokens = (self._tokenizer.id_to_token(id_) for id_ in range(len(self)))
        return [b"" if token is None or id_ in special else to_bytes(token) for id_, token in enumerate(tokens)]

    @cached_property
    def _sorted(self) -> "array[int]":
        """The ids of all tokens with text, sorted by that text; ids only, because a large vocabulary takes memory."""
        ids = (id_ for id_, value in enumerate(self._bytes) if value)
        return array("i", sorted(ids, key=self._bytes.__getitem__))

    def _range(self, start: bytes, *, exact: bool = False) -> list[int]:
        """The tokens that begin with `start`, including it, in the order of their bytes."""
        first = bisect.bisect_left(self._sorted, start, key=self._bytes.__getitem__)
        size = None if exact else len(start)
        end = bisect.bisect_right(self._sorted, start, lo=first, key=lambda id_: self._bytes[id_][:size])
        return self._sorted[first:end].tolist()


def _from_byte_level(token: str) -> bytes:
    return bytes(_BYTE_OF_CHARACTER[character] for character in token if character in _BYTE_OF_CHARACTER)


def _from_byte_fallback(token: str) -> bytes:
    """SentencePiece style: U+2581 is a space, `<0x0A>` one byte."""
    if len(token) == 6 and token.startswith("<0x") and token.endswith(">"):
        return bytes([int(token[3:5], 16)])
    return token.replace(_SPACE, " ").encode()


def _byte_of_character() -> dict[str, int]:
    """GPT-2's printable stand-ins: printable Latin-1 bytes are themselves, the others count up from U+0100."""
    printable = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    unprintable = [byte for byte in range(0x100) if byte not in printable]
    return {chr(byte): byte for byte in printable} | {chr(0x100 + i): byte for i, byte in enumerate(unprintable)}


_BYTE_OF_CHARACTER = _byte_of_character()
