"""A model to be trained, on its device, with all that training has to know of it."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from tokenizers import Tokenizer

from inference.training.prompt_framing import Framing
from inference.training.tokenizer import Tokens


@dataclass(frozen=True)
class TrainableModel:
    """A model on its device, its tokenizer, and `write`, which makes a `--model` folder of it as it then is."""

    model: Any
    tokenizer: Tokenizer
    tokens: Tokens
    framing: Framing
    write: Callable[[Path], None]


def device() -> torch.device:
    """CUDA where there is one, else the CPU."""
    return torch.device("cuda" if torch.cuda.is_available() else "cpu")
