"""What the engine needs from a model: token ids of canvases in, logits of their hole rows out.

Key-value caches, self-conditioning, shifted logits and attention masks are below this boundary; holes, requests and
text are above it. Torch tensors on `ModelAdapter.device` cross it, whatever computes the model. To add a family, write
a folder beside this file and name it in registry.py. Shapes: B canvases, W rows of each, N hole rows of all canvases
together, V vocabulary size.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from inference.models.infill_config import HoleNoise, InfillConfig

if TYPE_CHECKING:  # a worker needs ModelError before it can afford to import torch
    from tokenizers import Tokenizer
    from torch import Tensor, device

    from inference.models.fim.prompt_handle import PromptContinuation


OnProgress = Callable[[float, str], None]
"""Receives loading progress, 0 to 1, and the current activity."""


class ModelError(Exception):
    """A checkpoint is unusable. The message says which, why, and what to do next."""


@dataclass(frozen=True)
class ModelTraits:
    """A loaded model's abilities. The engine chooses its search by these and never by a model's name."""

    noise: HoleNoise
    vocabulary_size: int
    """V: rows of the logits. May be larger than the tokenizer's vocabulary."""
    can_score: bool
    """Whether `PrefixHandle.log_probabilities` may be called."""
    can_resize: bool = False
    """Whether two of its tokens add and remove rows during denoising, as DreamOn's do. Otherwise several lengths are
    denoised side by side.
    """
    continuable_tokens: int = 0
    """The most tokens of a `FimAdapter`'s prompt and text together."""
    runs_on: str = ""
    """The compute device, for users, if it differs from `ModelAdapter.device`: "Apple GPU"."""
    free_rows: int = 0
    """Up to this many rows a pass takes about the same time, because its fixed work takes longer, such as reading the
    weights. A denoising step counts the rows of all canvases. 0: every row takes time.
    """
    is_fim: bool = False
    """The family is a `FimAdapter`: it writes from left to right after a prompt that shows it both sides of the
    hole. Then `PrefixHandle.predict` and `PrefixHandle.self_conditioning` may not be called: there is no canvas.
    """


class ModelAdapter(Protocol):
    """One loaded model. Not thread-safe: one thread drives it and all its contexts."""

    name: str
    infill_config: InfillConfig
    traits: ModelTraits
    tokenizer: "Tokenizer"
    """The checkpoint's tokenizer, byte-level or with byte fallback."""
    device: "device"
    """The device of the tensors that it takes and returns."""
    dtype: str
    """Its number format, such as "bfloat16"; "4bit" if most weights are packed."""
    note: str = ""
    """A message for users about how the model runs now, if there is one."""

    def open_prefix(self, prefix_ids: Sequence[int]) -> "PrefixHandle":
        """Opens a prefix, reusing the part that is cached. The caller closes it."""

    def prefill_when_idle(self, *prefixes: Sequence[int]) -> None:
        """Has `run_idle_task` prefill prefixes for later requests, in order, instead of the previous ones."""
        return

    @property
    def prefill_counts(self) -> tuple[int, int]:
        """How many tokens were prefilled when idle, and how many requests used them."""
        return 0, 0

    @property
    def is_prefill_pending(self) -> bool:
        """Whether the next `run_idle_task` prefills."""
        return False

    def run_idle_task(self) -> bool:
        """Runs one unit of idle-time work: some tokens of a prefix, or a graph capture. True if there may be more."""
        return False

    @property
    def seconds_per_row(self) -> float:
        """The latest time per row of a pass over many rows, for a family that reads a prefix in the uninterruptible
        pass of its first canvas; inf before the first pass. 0 for families that prefill.
        """
        return 0.0


class FimAdapter(ModelAdapter, Protocol):
    """A causal model that was trained to fill the middle. Only with `ModelTraits.is_fim`.

    Text that spells a control token stays text: only the family itself puts control tokens into a prompt.
    """

    def open_prefix(self, prefix_ids: Sequence[int]) -> "FimPrefixHandle":
        """See `ModelAdapter`."""

    stop_ids: frozenset[int]
    """The tokens that end a fill: end of text or turn, and all control tokens of prompts. No fill contains one."""
    begin_ids: tuple[int, ...]
    """The tokens that every prompt begins with."""
    why_no_fills: str
    """Why the model cannot fill holes, and what to do; "" if it can. Edit models need not fill holes."""
    is_suffix_first: bool
    """Whether a prompt has the suffix before the prefix: it then grows at its end while the user types."""

    def fim_prompt(self, prefix: str, suffix: str, name: str = "") -> list[int]:
        """The prompt for the text between `prefix` and `suffix`, never empty. `name`: the file's, if it has a place."""

    def chat_prompt(self, message: str, answer: str = "") -> list[int] | None:
        """A user's `message` and the model's begun `answer` as tokens; None if it was not trained to chat."""

    def cached_tokens(self, ids: Sequence[int], *, exact: bool = False) -> int:
        """How many tokens of this prefix are cached, so that `open_prefix` need not read them."""

    def cached_continuation(self, ids: Sequence[int]) -> list[int]:
        """The cached tokens that the model last wrote after this whole prefix; empty if there are none."""

    token_ms: float
    """The recent time of a pass that decodes one token; 0 before the first."""
    prompt_token_ms: float
    """The recent time to prefill one token of a prompt; 0 before the first."""


class PrefixHandle(Protocol):
    """A prefix of tokens, and the model's predictions after it. Must not be used after `close`."""

    reused_tokens: int
    """How many tokens of the prefix were cached when it was opened."""

    def prefill(self) -> Iterator[int]:
        """Reads the part that is not cached. Each `next` makes at most one forward pass and returns the number of
        tokens left. Exhaust it before calling anything below. If it is abandoned, the part already read stays cached.
        """
        return iter(())

    def predict(
        self, ids: "Tensor", rows: "Tensor", *, valid: "Tensor | None" = None, feedback: "Tensor | None" = None
    ) -> "Tensor":
        """One denoising pass over canvases that follow the prefix: float32 logits (N, V) of some of their rows.

        `ids` (B, W) are the current canvases; `rows` (N,) number the flattened (B * W). `valid` (B, W) is False at
        padding; None: there is none. `feedback` (N, ...) is what `self_conditioning` made of the previous
        prediction; None at first.
        """
        raise AssertionError("its traits say that it cannot")

    def self_conditioning(self, logits: "Tensor", probabilities: "Tensor") -> "Tensor | None":
        """The feedback of a prediction to the next one: (N, V) logits and their softmax -> (N, ...), or None.

        The engine selects and merges its rows like those of the canvases, and does not interpret them.
        """
        return None

    def log_probabilities(self, continuations: "Sequence[Sequence[int]]") -> "list[Tensor]":
        """The exact causal log-probability of each token of each continuation of the prefix, float32 (n,).

        After an empty prefix, the first token has none: (n - 1,). Only with `ModelTraits.can_score`.
        """
        raise AssertionError("its traits say that it cannot")

    def close(self) -> None:
        """Frees the context's memory. May be called twice."""


class FimPrefixHandle(PrefixHandle, Protocol):
    """A prompt, and what a `FimAdapter` writes after it."""

    def continuation(self, room_tokens: int) -> "PromptContinuation":
        """Continues the prompt by up to `room_tokens`.

        Only within `ModelTraits.continuable_tokens`, and after a non-empty prompt or with a first token to feed.
        """


def common_prefix_length(a: Sequence[object], b: Sequence[object]) -> int:
    """The length of the common prefix of two texts or lists. A binary search: Python compares slices fast."""
    if not (isinstance(a, str) and isinstance(b, str)):
        a, b = list(a), list(b)
    low, high = 0, min(len(a), len(b))
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if a[low:middle] == b[low:middle] else (low, middle - 1)
    return low


def common_prefix_and_suffix_lengths(a: Sequence[object], b: Sequence[object]) -> tuple[int, int]:
    """The lengths of the common prefix, and of the common suffix after that."""
    lead = common_prefix_length(a, b)
    return lead, common_prefix_length(a[lead:][::-1], b[lead:][::-1])
