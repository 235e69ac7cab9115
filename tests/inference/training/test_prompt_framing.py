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
from inference.training import gemma_tokenizer
from inference.training.batches import Batches, BatchShape, Mixture
from inference.training.holes import TrainingDocument
from inference.training.prompt_framing import ChatFraming, PlainFraming
from inference.training.tokenizer import BOS, own_tokens

_TOKENS = gemma_tokenizer.tokens(900)
_SHAPE = BatchShape(streams=6, prefix_tokens=224, canvases=2, canvas_tokens=64)


@pytest.fixture(scope="module")
def tokenizer_file(small_gemma_tokenizer: Tokenizer, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The small tokenizer on disk."""
    file = tmp_path_factory.mktemp("tokenizer") / "tokenizer.json"
    small_gemma_tokenizer.save(str(file))
    return file


def test_a_conversation_is_the_engines_own_prompt(tokenizer_file: Path) -> None:
    """With and without the path; of text for context there is some now and then, and it leaves room for the file."""
    document = TrainingDocument.of("x = 1\n" * 3000, "pkg/module.py")
    conversation, rng = ChatFraming(tokenizer_file, prefix_tokens=600), np.random.default_rng(0)
    seen = {conversation.before(document, 0, rng) for _ in range(200)}
    vocabulary, properties = Vocabulary(Tokenizer.from_file(str(tokenizer_file))), Properties(prompt="chat")
    for request in (InfillRequest("", ()), InfillRequest("", (), path="pkg/module.py")):
        frame = prompt.frame(vocabulary, properties, request)
        assert frame.before in seen
        assert frame.after == _TOKENS.ending
    texts = [vocabulary.decode(list(ids)) for ids in seen]
    assert any("File pkg/module.py:\nx = 1" in text for text in texts)
    assert any("pkg/module.py, further down:\nx = 1" in text for text in texts)
    assert max(map(len, seen)) < 400


def test_plain_file_begins_with_bos() -> None:
    """As small checkpoints of our own are prompted."""
    plain, document, rng = PlainFraming(own_tokens(600)), TrainingDocument.of("x = 1\n"), np.random.default_rng(0)
    assert plain.before(document, 0, rng) == (BOS,)
    assert plain.before(document, 5, rng) == ()


@pytest.fixture(scope="module")
def batches(documents: Sequence[TrainingDocument], small_gemma_tokenizer: Tokenizer, tokenizer_file: Path) -> Batches:
    """Batches in conversations, half of their canvases whole."""
    framing, mixture = ChatFraming(tokenizer_file, _SHAPE.prefix_tokens), Mixture(whole_canvases=0.5)
    return Batches(documents, small_gemma_tokenizer, _TOKENS, _SHAPE, 0, framing, mixture)


def test_losses_begin_with_the_file(batches: Batches) -> None:
    """The first token that counts is the first of the file; every canvas sees the turn's start at least."""
    batch = batches.draw(0)
    for b, start in enumerate(batch.text_starts):
        assert batch.stream[b, 0] == gemma_tokenizer.BOS
        assert (batch.stream[b, :start] == gemma_tokenizer.TURN).sum() == 2
        assert gemma_tokenizer.TURN not in batch.stream[b, start:]
        assert all(batch.splits[b] >= start)


def test_prefix_and_canvas_together_are_the_document(
    batches: Batches, documents: Sequence[TrainingDocument], small_gemma_tokenizer: Tokenizer
) -> None:
    """Whole canvases and such with holes; holes have no slack, and the end of the turn follows the end of the file."""
    for step in range(5):
        batch = batches.draw(step)
        assert not batch.has_slack.any()
        for b, k in np.ndindex(*batch.splits.shape):
            canvas = batch.canvas[b, k, : batch.lengths[b, k]]
            ids = [*batch.stream[b, batch.text_starts[b] : batch.splits[b, k]], *canvas]
            if gemma_tokenizer.TURN_END in ids:
                end = ids.index(gemma_tokenizer.TURN_END)
                assert set(ids[end + 1 :]) <= {gemma_tokenizer.EOS}
                ids = ids[:end]
            text = small_gemma_tokenizer.decode([int(id_) for id_ in ids])
            assert any(text.strip("\ufffd").rstrip("\n") in document.text for document in documents)


def test_a_whole_canvas_is_one_hole_as_wide_as_the_canvas(batches: Batches) -> None:
    """About as many as asked for; behind the end of the file its ending fills the rest."""
    drawn = [batches.draw(step) for step in range(10)]
    whole = [batch.hole[b, k].all() for batch in drawn for b, k in np.ndindex(*batch.splits.shape)]
    assert 0.3 < np.mean(whole) < 0.7
