"""`infill.json`: a checkpoint's settings for infilling, for which `config.json` has no place."""

from enum import StrEnum
from typing import Annotated, Final, Literal

import msgspec
from msgspec import Meta

from inference.messages import MAX_STEPS, HoleKind


class HoleNoise(StrEnum):
    """The content of an unknown hole row."""

    UNIFORM = "uniform"
    """A random token."""
    MASK = "mask"
    """The checkpoint's mask token."""


MIN_CANVAS_TOKENS = 4
MAX_CANVAS_TOKENS = 4096
MAX_CONTEXT_TOKENS = 1 << 20

TokenId = Annotated[int, Meta(ge=0)]
NumHoleTokens = Annotated[int, Meta(ge=1, le=MAX_CANVAS_TOKENS)]
CanvasTokens = Annotated[int, Meta(ge=MIN_CANVAS_TOKENS, le=MAX_CANVAS_TOKENS)]
Steps = Annotated[int, Meta(ge=1, le=MAX_STEPS)]
NotNegative = Annotated[float, Meta(ge=0, le=1e6)]
"""Limits for the values in a checkpoint's files. Beyond them, memory or time would run out."""


_SHARES = {HoleKind.BLOCK: 1 / 2, HoleKind.BODY: 3 / 4}
"""The share of the canvas for holes of several lines: 128 and 192 of 256 rows. The rest shows some of the suffix."""

ENTROPY_BOUND: Final = "entropy_bound"


class SamplerSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A checkpoint's sampling settings. The defaults are DiffusionGemma's published generation settings."""

    max_steps: Steps = 48
    entropy_bound: NotNegative = 0.1
    t_max: NotNegative = 0.8
    t_min: NotNegative = 0.4
    stability: Annotated[int, Meta(ge=0, le=MAX_STEPS)] = 1
    confidence: NotNegative = 0.005
    method: Literal["entropy_bound", "entropy", "confidence"] = ENTROPY_BOUND
    """How a step chooses rows. All but the first are methods of masked-diffusion models, where an unmasked row stays:
    rows of the lowest entropy, or of the likeliest token. The temperature falls from `t_max` to `t_min` (0: argmax).
    """
    schedule: Literal["linear", "rounded", "single"] = "linear"
    """How many rows such a step unmasks: as Dream's and Open-dLLM's samplers do, as MDLM's, or one, as DreamOn's."""
    top_p: Annotated[float, Meta(gt=0, le=1)] = 1.0
    """Nucleus sampling: the tokens that such a sampler draws from have this total probability."""
    total_entropy: NotNegative = 0.0
    """A canvas also counts as confident if the entropies of its hole rows sum to less than this, in nats. The published
    rule takes their mean, which is far stricter over the few rows of a line than over a whole canvas.
    """
    still_steps: Annotated[int, Meta(ge=0, le=MAX_STEPS)] = 0
    """A canvas also counts as done if its fills have not changed for this many steps, at any confidence. 0: never."""
    accept_floor: bool = False
    """Accept at least n/N of the rows after n of N steps: a mask checkpoint then ends with no row left masked."""


class MaxTokensByHoleKind(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The most tokens of a hole of each kind, unless the request says. None: a share of the canvas."""

    expression: NumHoleTokens = 16
    arguments: NumHoleTokens = 16
    line: NumHoleTokens = 24
    marker: NumHoleTokens = 24
    block: NumHoleTokens | None = None
    body: NumHoleTokens | None = None

    def for_kind(self, kind: HoleKind, canvas_tokens: int) -> int:
        """The most tokens of a hole of this kind on canvases of this width."""
        max_tokens: int | None = getattr(self, kind.value)
        return max_tokens or max(1, int(_SHARES[kind] * canvas_tokens))


class InfillConfig(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """`infill.json`: information for infilling that `config.json` lacks.

    `corruption` "mask" needs `mask_token_id`. Tokens below `first_text_token_id` never appear in
    a fill. `prompt` is "plain" or "chat" (see engine/canvas/prompt.py).
    """

    corruption: HoleNoise = HoleNoise.UNIFORM
    mask_token_id: TokenId | None = None
    first_text_token_id: TokenId = 0
    max_prefix_tokens: Annotated[int, Meta(ge=1, le=MAX_CONTEXT_TOKENS)] = 8192
    canvas_tokens: CanvasTokens = 256
    suffix_tokens: Annotated[int, Meta(ge=0, le=MAX_CANVAS_TOKENS)] = 256
    """How much of the last suffix goes on the canvas if every row takes time: see `ModelTraits.free_rows`."""
    slots: MaxTokensByHoleKind = MaxTokensByHoleKind()
    prompt: Literal["plain", "chat"] = "plain"
    quick_steps: Steps = 8
    """The most denoising steps of an automatic request."""
    line_steps: Steps | None = None
    """The most denoising steps if all holes are single-line; None: the sampler's."""
    shifted_logits: bool = False
    """Whether a row predicts the token of the next row, as in models adapted from causal ones."""
    expand_token_id: TokenId | None = None
    delete_token_id: TokenId | None = None
    """During denoising, these tokens double and delete the row that they are written to. No final fill has them."""
    bos_token_id: TokenId | None = None
    eos_token_id: TokenId | None = None
    """The tokens before and after a whole file; None: `<bos>` and `<eos>`, if the tokenizer has them."""
    sampler: SamplerSettings = SamplerSettings()

    def __post_init__(self) -> None:
        """Raises ValueError."""
        if self.corruption == HoleNoise.MASK and self.mask_token_id is None:
            raise ValueError("mask corruption needs mask_token_id")
        if self.corruption != HoleNoise.MASK and self.sampler.method != ENTROPY_BOUND:
            raise ValueError(f"sampler.method: '{self.sampler.method}' needs mask corruption")
