"""Ends a parse that takes too long: tree-sitter needs minutes for some texts, such as long ones full of errors."""

import time
from collections.abc import Callable

from tree_sitter import Language, Parser, Tree

_CHUNK_BYTES = 16384


class Limit:
    """When to give up (`reached`): after `cpu_s` of processor time since the first question, or once told to."""

    def __init__(self, cpu_s: float) -> None:
        self.reached = False
        self._cpu_s = cpu_s
        self._began_s: float | None = None
        self._now_s = 0.0

    @property
    def spent_s(self) -> float:
        """The processor time between the first question and the last."""
        return 0.0 if self._began_s is None else self._now_s - self._began_s

    def stop(self) -> None:
        """Gives up at the next opportunity."""
        self.reached = True

    def is_reached(self) -> bool:
        """Whether to give up now. A tree-sitter parser asks every few hundred operations."""
        self._now_s = time.thread_time()
        if self._began_s is None:
            self._began_s = self._now_s
        self.reached = self.reached or self.spent_s >= self._cpu_s
        return self.reached


def parse_unless(give_up: Callable[[int], bool], language: Language, data: bytes, old_tree: Tree | None) -> Tree | None:
    """The tree of `data`, or None if `give_up` said so, given the bytes parsed. Other threads run meanwhile."""

    def read(byte: int, _: object) -> bytes:
        return data[byte : byte + _CHUNK_BYTES]

    def progress(byte: int, _: bool) -> bool:
        return give_up(byte)

    parser = Parser(language)
    try:
        if old_tree is None:
            return parser.parse(read, progress_callback=progress)
        return parser.parse(read, old_tree, progress_callback=progress)
    except ValueError:  # raised for a stopped parse
        return None
