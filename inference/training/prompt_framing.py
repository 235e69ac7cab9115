"""The tokens before the text of a file in a training stream: only <bos>, or a conversation.

A conversation is the engine's own prompt, so that a checkpoint is trained on its exact input.
"""

from collections.abc import Callable
from pathlib import Path

import msgspec
import numpy as np
from tokenizers import Tokenizer

from inference.engine.canvas import further, prompt
from inference.engine.canvas.vocabulary import Vocabulary
from inference.messages import InfillRequest, Snippet
from inference.models.properties import Properties
from inference.training.holes import TrainingDocument

_PATH_SHARE = 0.5
_CONTEXT_SHARE = 0.15
_FURTHER_SHARE = 0.5
"""The share of the context shown as text further down the same file; the rest is shown as another file's."""
_CONTEXT_CHARACTERS = (100, 500)
_FAR_CHARACTERS = 3000
"""Context is at least this far behind the stream's start, so that neither stream nor canvas shows it."""


Framing = Callable[[TrainingDocument, int, np.random.Generator], tuple[int, ...]]
"""The tokens before the text of a stream that begins at this character of a file."""


def plain(bos: int, _document: TrainingDocument, start: int, _rng: np.random.Generator) -> tuple[int, ...]:
    """The file alone: <bos> at its start, otherwise nothing."""
    return (bos,) if start == 0 else ()


class ChatFraming:
    """The user asks for a file, by its name or not, sometimes with other text for context; the model writes it."""

    def __init__(self, tokenizer_file: Path, prefix_tokens: int) -> None:
        self._vocabulary = Vocabulary(Tokenizer.from_file(str(tokenizer_file)))
        self._properties = Properties(prompt="chat", max_prefix_tokens=prefix_tokens)

    def __call__(self, document: TrainingDocument, start: int, rng: np.random.Generator) -> tuple[int, ...]:
        """See Framing."""
        request, behind = InfillRequest("", ()), ""
        if rng.random() < _PATH_SHARE:
            request = msgspec.structs.replace(request, path=document.path)
        if rng.random() < _CONTEXT_SHARE and (snippet := _far_from(document, start, rng)) is not None:
            if rng.random() < _FURTHER_SHARE:
                most = prompt.further_tokens(self._vocabulary, self._properties)
                behind = further.cut(self._vocabulary, snippet.text, most)
            else:
                request = msgspec.structs.replace(request, context=(snippet,))
        return prompt.frame(self._vocabulary, self._properties, request, behind).before


def _far_from(document: TrainingDocument, start: int, rng: np.random.Generator) -> Snippet | None:
    """Some lines of the same file that the stream does not reach; None if there are none."""
    text, first = document.text, start + _FAR_CHARACTERS
    if first >= len(text):
        return None
    at = text.rfind("\n", 0, int(rng.integers(first, len(text)))) + 1
    end = text.find("\n", at + int(rng.integers(*_CONTEXT_CHARACTERS)))
    found = text[at : end if end >= 0 else None][: 2 * _CONTEXT_CHARACTERS[1]]
    return Snippet(document.path or "other.py", found) if found.strip() else None
