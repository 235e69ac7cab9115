"""Training puts the same tokens before the text as the engine."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
from tokenizers import Tokenizer

from inference.engine.canvas import prompt
from inference.engine.canvas.vocabulary import Vocabulary
from inference.messages import InfillRequest
from inference.models.properties import Properties
from inference.training import tokenizer
from inference.training.batches import Batches, BatchShape, plain
from inference.training.holes import TrainingDocument
from inference.training.tokenizer import BOS

pytest.importorskip("peft")
from inference.training.lora import chat_framing, tokens_of

_TOKENIZER = Path(__file__).parents[2] / "data" / "twin" / "tokenizer.json"
_PROPERTIES = Properties(prompt="chat")
_TOKENS = tokens_of(tokenizer.load(_TOKENIZER), "<unused60>", _PROPERTIES)
_EOS, _BOS, _TURN, _TURN_END = 1, 2, 105, 106
_SHAPE = BatchShape(streams=6, prefix_tokens=224, canvases=2, canvas_tokens=64)


def test_a_conversation_is_the_engines_own_prompt() -> None:
    document = TrainingDocument.of("x = 1\n" * 3000, "pkg/module.py")
    conversation, rng = chat_framing(_TOKENIZER), np.random.default_rng(0)
    seen = {conversation(document, 0, rng) for _ in range(200)}
    vocabulary = Vocabulary(Tokenizer.from_file(str(_TOKENIZER)))
    for request in (InfillRequest("", ()), InfillRequest("", (), path="pkg/module.py")):
        frame = prompt.frame(vocabulary, _PROPERTIES, request)
        assert frame.before in seen
        assert frame.after == _TOKENS.ending
    assert len(seen) == 2


def test_plain_file_begins_with_bos() -> None:
    document, rng = TrainingDocument.of("x = 1\n"), np.random.default_rng(0)
    assert plain(BOS, document, 0, rng) == (BOS,)
    assert plain(BOS, document, 5, rng) == ()


@pytest.fixture(scope="module")
def batches(documents: Sequence[TrainingDocument]) -> Batches:
    return Batches(documents, tokenizer.load(_TOKENIZER), _TOKENS, _SHAPE, 0, chat_framing(_TOKENIZER))


def test_losses_begin_with_the_file(batches: Batches) -> None:
    """The first token that counts is the first of the file; every canvas sees the turn's start at least."""
    batch = batches.draw(0)
    for b, start in enumerate(batch.text_starts):
        assert batch.stream[b, 0] == _BOS
        assert (batch.stream[b, :start] == _TURN).sum() == 2
        assert _TURN not in batch.stream[b, start:]
        assert all(batch.splits[b] >= start)


def test_prefix_and_canvas_together_are_the_document(batches: Batches, documents: Sequence[TrainingDocument]) -> None:
    read = tokenizer.load(_TOKENIZER)
    for step in range(5):
        batch = batches.draw(step)
        for b, k in zip(*np.nonzero(~batch.has_slack), strict=True):
            canvas = batch.canvas[b, k, : batch.lengths[b, k]]
            ids = [*batch.stream[b, batch.text_starts[b] : batch.splits[b, k]], *canvas]
            if _TURN_END in ids:
                end = ids.index(_TURN_END)
                assert set(ids[end + 1 :]) <= {_EOS}
                ids = ids[:end]
            text = read.decode([int(id_) for id_ in ids])
            assert any(text.strip("\ufffd").rstrip("\n") in document.text for document in documents)
