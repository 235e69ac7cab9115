"""What the engine asks of a model: token ids of canvases in, logits of their hole rows out.

This is the line between the engine and the models. Above it nothing is known of key-value caches, self-conditioning,
shifted logits or attention masks; below it nothing of holes, requests or text. The tensors that cross the line are
torch tensors on `Family.device`, whatever computes the model: models/mlx hands its arrays over as views of the same
memory. To add a family, write a folder beside this file and name it in registry.py.

Shapes: B canvases, W rows of each, N hole rows of all canvases together, V vocabulary size.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Protocol, runtime_checkable

from inference.messages import Snippet
from inference.models.properties import NoiseKind, Properties

if TYPE_CHECKING:  # a worker asks for ModelError before it can afford to import torch
    from tokenizers import Tokenizer
    from torch import Tensor, device


OnProgress = Callable[[float, str], None]
"""Told how far loading is, 0 to 1, and what is being done."""


class ModelError(Exception):
    """A checkpoint cannot be used. The message says which, why, and what to do next."""


class LengthSignal(StrEnum):
    """How a model says how many tokens a hole needs."""

    SLACK = "slack"
    """A token of its own fills the rows that a hole has too many."""
    EXPAND_DELETE = "expand/delete"
    """Two tokens add and remove rows in the middle of denoising, as in DreamOn."""
    NONE = "none"
    """Not at all: several lengths are denoised side by side."""


@dataclass(frozen=True)
class Traits:
    """What a loaded model can do. The engine chooses its search by these and never by a model's name."""

    noise: NoiseKind
    length_signal: LengthSignal
    vocabulary_size: int
    """V: rows of the logits. May be larger than the tokenizer's vocabulary."""
    can_score: bool
    """Whether `Context.log_probabilities` may be called."""
    continuable_tokens: int
    """`Context.continuation` may be called while prefix and canvas together are no longer than this; 0: never."""
    runs_on: str = ""
    """What the model is computed on, for users, where that is not `Family.device`: "mlx:gpu"."""
    free_rows: int = 0
    """A denoising step takes about the same time for up to so many rows of all its canvases, and a pass of a model
    without canvases for so many rows, since what it does in any case takes longer, such as reading the weights.
    0: every row costs time."""
    fills_middle: bool = False
    """The family is a `MiddleFamily`: it writes from left to right behind a prompt that shows it both sides of the
    hole. `Context.predict` and `Context.feedback` may then not be called: there is no canvas."""


class Family(Protocol):
    """One loaded model. Not thread-safe: one thread drives it and all its contexts."""

    @property
    def name(self) -> str:
        """What the user called the model."""

    @property
    def properties(self) -> Properties:
        """What the checkpoint says of itself."""

    @property
    def traits(self) -> Traits:
        """What the model can do."""

    @property
    def tokenizer(self) -> "Tokenizer":
        """The checkpoint's own, byte-level or with byte fallback."""

    @property
    def device(self) -> "device":
        """Where the tensors are that it takes and returns."""

    @property
    def dtype(self) -> str:
        """What it computes in, such as "bfloat16"; "4bit" where most weights are packed."""

    def open(self, prefix_ids: Sequence[int]) -> "Context":
        """The prefix that conditions what follows, as far as it is known from earlier. The caller closes it."""


@runtime_checkable
class PreparingFamily(Protocol):
    """A family that can set up passes before they are needed, as by recording them for a GPU."""

    def prepare(self) -> bool:
        """Sets up one of the passes that earlier requests could have used; whether there may be more.

        Takes long: to be called while nobody waits.
        """


class MiddleFamily(Family, Protocol):
    """A causal model that was trained to fill the middle. Only where `Traits.fills_middle`.

    Text that spells a control token stays text: no prompt has a control token that the family did not put there.
    """

    @property
    def end_ids(self) -> frozenset[int]:
        """The tokens that end a fill: end of text or turn, and all that belong to a prompt. No fill holds one."""

    def middle_prompt(self, prefix: str, suffix: str, *, path: str = "", files: Sequence[Snippet] = ()) -> list[int]:
        """The tokens behind which the model writes what stands between `prefix` and `suffix`.

        `files` are shown first, in the form that the model knows for a repository, and `path` names the file with the
        hole there; a model that knows none leaves both out. Never empty.
        """

    def chat_prompt(self, message: str, answer: str = "") -> list[int] | None:
        """The tokens of a chat turn in which a user says `message` and the model's `answer` has begun.

        None where the model was not trained to chat.
        """

    @property
    def token_ms(self) -> float:
        """How long a pass that writes one token has taken lately; 0: there was none."""

    @property
    def prompt_token_ms(self) -> float:
        """How long the model has taken lately to read one token of a prompt; 0: none was read."""


class Context(Protocol):
    """A prefix of tokens, and what the model says of what may follow it. Nothing may be asked after `close`."""

    @property
    def reused_tokens(self) -> int:
        """How many tokens of the prefix were known already when it was opened."""

    def encode(self) -> Iterator[int]:
        """Reads what is not known yet, at most one forward pass at each `next`, which returns how many tokens are left.

        To be exhausted before all below. What was read before it is given up is known to later contexts.
        """

    def predict(
        self, ids: "Tensor", rows: "Tensor", *, valid: "Tensor | None" = None, feedback: "Tensor | None" = None
    ) -> "Tensor":
        """One denoising pass over canvases that follow the prefix: float32 logits (N, V) of some of their rows.

        `ids` (B, W) are the canvases as they stand; `rows` (N,) are numbers of rows in the flattened (B * W). `valid`
        (B, W) is False at rows that only pad the shorter canvases; None: there are none. `feedback` (N, ...) is what
        `feedback` made of the prediction before this one, a row for each of `rows`; None at the first step.
        """

    def feedback(self, logits: "Tensor", probabilities: "Tensor") -> "Tensor | None":
        """What a prediction hands on to the next: (N, V) logits and their softmax -> (N, ...), or None if nothing.

        The engine selects and merges its rows as it does those of the canvases; it does not look inside.
        """

    def log_probabilities(self, continuations: "Sequence[Sequence[int]]") -> "list[Tensor]":
        """For each continuation of the prefix the exact causal log-probability of each of its tokens, float32 (n,).

        Behind an empty prefix nothing is said of the first token: (n - 1,). Only where `Traits.can_score`.
        """

    def continuation(self, count: int, room_tokens: int) -> "Continuation":
        """Continues the prefix `count` times side by side, each by up to `room_tokens`.

        Only where `Traits.continuable_tokens` allows it, and behind a prefix that is not empty or with a first token
        to feed.
        """

    def close(self) -> None:
        """Frees what the context holds. May be called twice."""


class Continuation(Protocol):
    """Several continuations of one prefix that grow token by token."""

    def feed(self, ids: "Tensor") -> "Tensor":
        """Appends (K, n) tokens, n may be 0 at first; the float32 logits (K, V) of the token that follows each."""

    def feed_rows(self, ids: "Tensor") -> "Tensor":
        """Appends (K, n) tokens in one causal pass; the float32 logits (K, n, V) of what follows each of them.

        The first call has one row more, (K, n + 1, V), at the front: what follows the prefix itself.
        """

    def trim(self, count: int) -> None:
        """Forgets the last `count` fed tokens of every continuation, as if they had never been fed."""

    def keep(self, parents: "Tensor") -> None:
        """(K,) numbers of continuations: each goes on as a copy of the one named at its place."""
