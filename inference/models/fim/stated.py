"""Checks what a fill-in-the-middle checkpoint states, before reading any of its weights."""

from pathlib import Path
from typing import Any

from inference.models.checkpoint import Checkpoint
from inference.models.properties import Properties
from inference.models.qwen2 import check_weights, qwen2_config, weight_shapes

MAX_PREFIX_TOKENS, SUFFIX_TOKENS = 1024, 256
"""Every token of both is read before the first one is written, on a laptop some 250 a second. The prefix stays known
from one line to the next; the suffix comes after it in the prompt and is read again.
"""


def default_properties(_place: Path, _config: dict[str, Any]) -> Properties:
    """The settings of a published checkpoint, which has no `infill.json`."""
    return Properties(max_prefix_tokens=MAX_PREFIX_TOKENS, suffix_tokens=SUFFIX_TOKENS, canvas_tokens=256)


def check(found: Checkpoint) -> None:
    """Raises ModelError if config or headers of the weights make no sense, or do not fit. Reads no weights."""
    check_weights(found, weight_shapes(qwen2_config(found)), found.shapes())
