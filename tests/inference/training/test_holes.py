"""Holes: their places, their layout on a canvas, and nothing else changes."""

from collections.abc import Sequence

import numpy as np
import pytest
from tokenizers import Tokenizer

from inference.messages import HoleKind
from inference.training import corruption, holes
from inference.training.batches import Batch, Batches, BatchShape
from inference.training.composer import DEFAULT_SHARE, MOST_SLOTS, SLOTS, Composer
from inference.training.corruption import Feed
from inference.training.holes import TrainingDocument, TrainingHole
from inference.training.tokenizer import BOS, EOS, FIRST_TEXT_TOKEN, MASK, SLACK, own_tokens

_TOKENS = own_tokens(600)
_SHAPE = BatchShape(streams=6, prefix_tokens=64, canvases=2, canvas_tokens=64)


def test_spans_are_characters_of_the_text() -> None:
    """Brackets without their brackets, expressions and blocks, behind characters of several bytes too."""
    text = "é = '😀'\ndef f(a, b):\n    if a:\n        return g(b)\n"
    found = {(int(kind), text[start:end]) for start, end, kind in holes.spans(text)[0]}
    assert (holes.BRACKETS, "a, b") in found and (holes.EXPRESSION, "g(b)") in found
    assert (holes.EXPRESSION, "'😀'") in found and (holes.BLOCK, "return g(b)") in found


def test_prose_is_passed_over() -> None:
    """Comments, one after the other too, and documentation strings; an anchor in code stays."""
    text = (
        'def f():\n    """Says.\n\n    More.\n    """\n    # one\n    # two\n    x = "no prose"  # three\n    y = 1\n'
    )
    document = TrainingDocument.of(text)
    assert document.code(text.index("x")) == text.index("x")
    assert document.code(text.index("prose")) == text.index("prose")
    for word, following in (("Says", "x ="), ("More", "x ="), ("one", "x ="), ("two", "x ="), ("three", "y =")):
        assert text[document.code(text.index(word)) :].lstrip().startswith(following), word


def test_a_hole_begins_after_its_anchor_and_has_content(documents: Sequence[TrainingDocument]) -> None:
    """A hole of a line stays in it, and only what stands between brackets may end with a line break."""
    rng = np.random.default_rng(0)
    for _ in range(500):
        document = documents[rng.integers(len(documents))]
        anchor = int(rng.integers(len(document.text)))
        hole = holes.choose(document, anchor, rng)
        if hole is not None:
            cursor, end, kind = hole
            assert anchor <= cursor <= end <= len(document.text)
            assert kind is not HoleKind.LINE or "\n" not in document.text[cursor:end]
            assert not document.text[cursor:end].endswith("\n") or document.text[end : end + 1] in ")]}"


@pytest.fixture(scope="module")
def batch(documents: Sequence[TrainingDocument], small_tokenizer: Tokenizer) -> Batch:
    return Batches(documents, small_tokenizer, _TOKENS, _SHAPE, seed=0).draw(0)


def test_seed_and_step_alone_make_a_batch(documents: Sequence[TrainingDocument], small_tokenizer: Tokenizer) -> None:
    """So a resumed run goes on as if it had not stopped."""
    first, second = (Batches(documents, small_tokenizer, _TOKENS, _SHAPE, seed=1) for _ in range(2))
    first.draw(4)
    assert np.array_equal(first.draw(5).canvas, second.draw(5).canvas)
    assert not np.array_equal(first.draw(6).canvas, second.draw(5).canvas)


def test_prefix_and_canvas_without_slack_are_the_document(
    batch: Batch, documents: Sequence[TrainingDocument], small_tokenizer: Tokenizer
) -> None:
    """Nothing is lost or doubled where a hole begins, between holes, and where the last one ends."""
    for b in range(_SHAPE.streams):
        for k in range(_SHAPE.canvases):
            ids = [*batch.stream[b, : batch.splits[b, k]], *batch.canvas[b, k, : batch.lengths[b, k]]]
            early = EOS in ids
            text = small_tokenizer.decode([int(id_) for id_ in ids if id_ >= FIRST_TEXT_TOKEN])
            if early:  # the file may be cut off there, a line break added
                text = text.rstrip("\n")
            assert any(text.strip("\ufffd") in document.text for document in documents)


def test_a_stream_begins_with_bos_only_at_the_start_of_a_file(
    documents: Sequence[TrainingDocument], small_tokenizer: Tokenizer
) -> None:
    batches = Batches(documents, small_tokenizer, _TOKENS, _SHAPE, seed=2)
    starts = {document.text[:10] for document in documents}
    for step in range(20):
        for stream in batches.draw(step).stream:
            assert BOS not in stream[1:]
            if stream[0] == BOS:
                assert small_tokenizer.decode(stream[1:].tolist())[:10] in starts


def test_holes_have_their_slack_at_the_end(batch: Batch) -> None:
    """A canvas either has slack or its holes fit exactly; outside of holes there is none."""
    slack = batch.canvas == SLACK
    assert not (slack & ~batch.hole).any()
    assert not slack[~batch.has_slack].any()
    after = slack[..., :-1] & batch.hole[..., 1:] & ~slack[..., 1:]
    assert np.all(~after | batch.hole[..., 1:])


def test_pinned_rows_are_never_corrupted(batch: Batch) -> None:
    """Whatever the noise; and a canvas with slack is often nothing but noise."""
    for seed in range(20):
        noised = corruption.corrupt(batch, _TOKENS, 96, np.random.default_rng(seed))
        assert np.array_equal(noised.noisy[~batch.hole], batch.canvas[~batch.hole])
        assert (noised.noisy[batch.hole] == MASK).any()


def test_loss_rows_are_hole_rows_with_their_targets(batch: Batch) -> None:
    """Each at most once; hidden are those of text that do not show their token."""
    noised = corruption.corrupt(batch, _TOKENS, 40, np.random.default_rng(0))
    holes_of, clean = (table.reshape(_SHAPE.streams, -1) for table in (batch.hole, batch.canvas))
    for b in range(_SHAPE.streams):
        real = noised.weights[b] > 0
        rows = noised.rows[b][real]
        assert len(set(rows.tolist())) == len(rows)
        assert holes_of[b, rows].all()
        assert np.array_equal(clean[b, rows], noised.targets[b][real])
    assert not (noised.hidden & (noised.targets == SLACK)).any()


def test_a_hole_starts_one_token_early_as_the_engine_lets_it(small_tokenizer: Tokenizer) -> None:
    """The token before each hole is part of it; what follows is tokenized by itself."""
    text = "value = first(one)\nother = second(two)\n"
    document = TrainingDocument.of(text)
    line = TrainingHole(text.index("first"), text.index("\n"), HoleKind.LINE)
    argument = TrainingHole(text.index("two"), text.index("two") + 3, HoleKind.ARGUMENTS)
    start = text.index(" =")
    composer, rng = Composer(small_tokenizer, _TOKENS, 64), np.random.default_rng(3)
    canvas = composer.compose(document, start, [line, argument], rng, has_slack=False)
    pieces: list[str] = []
    for number, (id_, hole) in enumerate(zip(canvas.ids, canvas.hole, strict=True)):
        if number and canvas.hole[number - 1] == hole:
            pieces[-1] += small_tokenizer.decode([id_], skip_special_tokens=True)
        else:
            pieces.append(small_tokenizer.decode([id_], skip_special_tokens=True))
    assert pieces[0] == " = first(one)"
    assert pieces[1].startswith("\nother = second")
    assert pieces[2].endswith("two")


def test_slots_tell_the_kind_and_nothing_of_the_length(small_tokenizer: Tokenizer) -> None:
    """P(slack) has to be an honest estimate of the length, given the kind and that it fits. A cut hole has no slack."""
    text = "a\n" + "word = other\n" * 60
    document, rng = TrainingDocument.of(text), np.random.default_rng(5)
    composer, draws = Composer(small_tokenizer, _TOKENS, 128), 400
    middle = next(end for end in range(3, len(text)) if len(small_tokenizer.encode(text[1:end]).ids) == 20)

    def sizes(end: int, kind: HoleKind) -> list[int]:
        hole = TrainingHole(2, end, kind)
        return [sum(composer.compose(document, 1, [hole], rng, has_slack=True).hole) for _ in range(draws)]

    for kind in (HoleKind.ARGUMENTS, HoleKind.LINE, HoleKind.BLOCK):
        usual = SLOTS.of(kind, 128)
        of_short, of_middle, of_long = (sizes(end, kind) for end in (6, middle, len(text) - 1))
        assert abs(of_short.count(usual) / draws - DEFAULT_SHARE) < 0.1
        assert min(of_short) < usual / 2
        assert max(of_short) > MOST_SLOTS / 2
        assert set(of_long) == {0}, "longer than any slots"
        assert min(size for size in of_middle if size) >= 20
        if usual >= 20:
            assert abs(of_middle.count(usual) - of_short.count(usual)) / draws < 0.1
        else:
            assert of_middle.count(0) / draws > DEFAULT_SHARE - 0.1, "samples it does not fit into are not redrawn"


def test_noise_in_order_hides_the_end_of_each_hole() -> None:
    """From some row of the hole on; the last row of a hole is always hidden, and rows outside of holes never."""
    hole = np.array([[[False, True, True, True, False, True, True, False]]] * 50)
    later = corruption.later_rows(hole, np.random.default_rng(0))
    assert not (later & ~hole).any()
    assert later[..., 3].all()
    assert later[..., 6].all()
    assert not (later[..., 1] & ~later[..., 2]).any()
    assert 0 < later[..., 1].mean() < 1


def test_other_processes_draw_the_same(documents: Sequence[TrainingDocument], small_tokenizer: Tokenizer) -> None:
    feed = Feed(Batches(documents, small_tokenizer, _TOKENS, _SHAPE, seed=3), _TOKENS, 40, seed=3)
    here, there = feed.since(7, workers=0), feed.since(7, workers=2)
    for _ in range(3):
        (batch, corrupted), (other, other_corrupted) = next(here), next(there)
        assert np.array_equal(batch.stream, other.stream)
        assert np.array_equal(corrupted.noisy, other_corrupted.noisy)
