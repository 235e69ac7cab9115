"""What the model is shown: the room of a hole, the text around it, the frame around that, the same during typing."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from inference.engine import text_window
from inference.engine.canvas import prompt
from inference.engine.canvas.layout import CanvasPlan, ComposedCanvas
from inference.engine.denoising.prune import TRIAL_SUFFIX_TOKENS, trial_canvases
from inference.engine.engine import Engine
from inference.engine.errors import RequestError
from inference.messages import Hole, HoleKind, InfillRequest, PinnedText, Snippet
from tests.inference.engine.filling import fill
from tests.inference.loaded import planned

TEXTS = st.text(st.sampled_from("ab_ ;{}.é漢\n\t"), max_size=60).map(lambda text: text * 40)
MINIFIED = "value=foo(bar,baz[12]);"
CONTEXT = (Snippet("other.py", "OTHER = 1"),)
REQUEST = InfillRequest("r", (), path="sizes.py", context=CONTEXT, instruction="  Use pathlib. ")


def test_chat_model_reads_instruction_and_files(released: Engine) -> None:
    vocabulary = released.loaded.vocabulary
    frame = prompt.build_prompt_frame(vocabulary, released.loaded.infill_config, REQUEST)
    text = vocabulary.decode(list(frame.leading_ids))
    assert "File other.py:\nOTHER = 1" in text and "Use pathlib.\nWrite sizes.py in full" in text
    assert text.endswith("model\n")
    start, end = vocabulary.id_of("<|turn>"), vocabulary.id_of("<turn|>")
    assert [token for token in frame.leading_ids if token in (start, end)] == [start, end, start]
    assert frame.trailing_ids[0] == end


def test_a_plain_checkpoint_reads_the_file_alone(embedded: Engine) -> None:
    frame = prompt.build_prompt_frame(embedded.loaded.vocabulary, embedded.loaded.infill_config, REQUEST)
    ids = prompt.tokenise_prefix(embedded.loaded.vocabulary, embedded.loaded.infill_config, "x = 1\n", 256)
    assert ids[0] == embedded.loaded.vocabulary.id_of("<bos>"), "a short file is read from its start"
    assert (frame.leading_ids, frame.trailing_ids) == ((), (embedded.loaded.vocabulary.id_of("<eos>"),))


def test_only_chat_models_read_other_files(embedded: Engine, released: Engine) -> None:
    assert embedded.context_tokens == 0
    infill_config = released.loaded.infill_config
    assert 0 < released.context_tokens < infill_config.max_prefix_tokens
    many = tuple(Snippet(f"file_{number}.py", f"OTHER_{number} = 1\n" * 200) for number in range(40))
    request = InfillRequest("r", (), path="sizes.py", context=many)
    frame = prompt.build_prompt_frame(released.loaded.vocabulary, infill_config, request)
    text = released.loaded.vocabulary.decode(list(frame.leading_ids))
    assert len(frame.leading_ids) <= released.context_tokens + 16
    assert "OTHER_0 = 1" in text and "OTHER_39 = 1" not in text


def test_instruction_without_room_for_the_file_is_refused(embedded: Engine, released: Engine) -> None:
    request = InfillRequest("r", (), instruction="Use pathlib. " * 100_000)
    with pytest.raises(RequestError, match="instruction of 1300000 characters is too long"):
        prompt.build_prompt_frame(released.loaded.vocabulary, released.loaded.infill_config, request)
    assert (
        prompt.build_prompt_frame(embedded.loaded.vocabulary, embedded.loaded.infill_config, request).leading_ids == ()
    )


def test_other_files_are_read_until_one_does_not_fit(released: Engine) -> None:
    context = (Snippet("first.py", "FIRST = 1"), Snippet("huge.py", "x" * 1_000_000), Snippet("last.py", "LAST = 1"))
    request = InfillRequest("r", (), path="folder/" * 100_000 + "sizes.py", context=context)
    frame = prompt.build_prompt_frame(released.loaded.vocabulary, released.loaded.infill_config, request)
    text = released.loaded.vocabulary.decode(list(frame.leading_ids))
    assert "FIRST = 1" in text and "huge.py" not in text
    assert "LAST" not in text and "sizes.py in full" in text
    assert len(text) < 2000


@given(TEXTS, st.integers(1, 300))
def test_a_window_is_bounded_and_ends_with_the_text(text: str, size: int) -> None:
    assert 0 <= len(text) - text_window.window_start(text, size) <= 2 * size


@given(TEXTS, st.integers(8, 300))
def test_the_start_of_a_window_moves_only_now_and_then(text: str, size: int) -> None:
    starts = [text_window.window_start(text + "x" * typed, size) for typed in range(size // 4 + 1)]
    assert len(set(starts)) <= 2
    assert starts == sorted(starts)


def test_a_window_over_a_line_of_statements_begins_with_one() -> None:
    text = MINIFIED * 1000
    assert text[text_window.window_start(text, 1000) :].startswith("value")
    assert text[text_window.window_start("x" * 700 + text, 1000) - 700 - 1] == ";"


def test_pieces_are_the_text_and_none_is_long() -> None:
    for unit in (MINIFIED, "x", "é ", "line\n", "\n", MINIFIED * 900 + "\n"):
        text = (unit * (100_000 // len(unit) + 1))[:100_000]
        found = list(text_window.split_for_tokenizer(text))
        assert "".join(found) == text
        assert all(0 < len(piece) <= 16_384 for piece in found)
    assert list(text_window.split_for_tokenizer("")) == [""]


def test_keystroke_keeps_tokens_in_a_one_line_file(embedded: Engine) -> None:
    vocabulary, infill_config = embedded.loaded.vocabulary, embedded.loaded.infill_config
    text = MINIFIED * 300
    windows = [
        prompt.tokenise_prefix(vocabulary, infill_config, text + "value=foo("[:typed], 256) for typed in range(11)
    ]
    assert len({window[:100] for window in windows}) <= 2  # it moves once in many keystrokes
    assert all(128 < len(window) <= 256 for window in windows)
    assert all(vocabulary.decode(list(window)) in text + "value=foo(" for window in windows)


LINE = Hole(single_line=True)
BEFORE = "import os\n\n\ndef size(path):\n    result = "
AFTER = "\n    return result\n\n\n" + "".join(f"value_{number} = {number}\n" for number in range(900))
FREE_ROWS = 512


def shown(engine: Engine, plan: CanvasPlan) -> str:
    return engine.loaded.vocabulary.decode(list(plan.prefix_ids))


@pytest.mark.parametrize(
    ("name", "kind", "tokens"),
    [
        ("twin", HoleKind.LINE, 24),
        ("twin", HoleKind.BLOCK, 128),
        ("twin", HoleKind.BODY, 192),
        ("embedded", HoleKind.LINE, 24),
        ("embedded", HoleKind.BLOCK, 64),
        ("embedded", HoleKind.BODY, 64),
    ],
)
def test_hole_has_the_room_of_its_kind(name: str, kind: HoleKind, tokens: int, request: pytest.FixtureRequest) -> None:
    (hole,) = planned(request.getfixturevalue(name), PinnedText(BEFORE), Hole(kind), PinnedText(AFTER)).holes
    assert hole.max_rows == tokens


def test_where_rows_are_free_a_canvas_is_as_wide_as_in_training(twin: Engine) -> None:
    model = twin.loaded
    wide = Engine(replace(model, traits=replace(model.traits, free_rows=FREE_ROWS)))
    for after, last in (("\n", model.vocabulary.id_of("<eos>")), (AFTER, None)):
        row = planned(wide, PinnedText(BEFORE), LINE, PinnedText(after)).compose([4])
        assert len(row.ids) == model.infill_config.canvas_tokens
        assert last is None or row.ids[-1] == last
    assert len(planned(twin, PinnedText(BEFORE), LINE, PinnedText("\n")).compose([4]).ids) < 32
    assert fill(wide, BEFORE, LINE, "\n", max_steps=2, seed=1).text


def test_canvases_that_are_tried_share_the_rows_that_are_free() -> None:
    rows = [ComposedCanvas((*range(length), *range(200)), ((0, 0, length),)) for length in (2, 4, 6, 8)]
    assert [len(row.ids) - row.spans[-1][2] for row in trial_canvases(rows, 1)] == [TRIAL_SUFFIX_TOKENS] * 4
    wide = trial_canvases(rows, 1, FREE_ROWS)
    assert len(wide) * max(len(row.ids) for row in wide) == FREE_ROWS


def test_far_suffix_is_read_before_the_file(twin: Engine) -> None:
    plan = planned(twin, PinnedText(BEFORE), LINE, PinnedText(AFTER), path="size.py")
    text, canvas = shown(twin, plan), twin.loaded.vocabulary.decode(list(plan.suffix))
    _, said, rest = text.partition("size.py, further down:\n")
    further = rest[: rest.index("Write size.py in full")].strip("\n").split("\n")
    assert said
    assert len(further) > 50
    assert "\n".join(further) in AFTER
    assert not set(further) & set(canvas.splitlines())
    assert text.endswith("def size(path):\n    result =")
    tokens = len(twin.loaded.vocabulary.encode("\n".join(further)))
    assert tokens <= twin.loaded.infill_config.max_prefix_tokens // 8


def test_late_requests_and_plain_models_read_no_far_suffix(twin: Engine, embedded: Engine) -> None:
    short = planned(twin, PinnedText(BEFORE), LINE, PinnedText(AFTER), path="size.py", short=True)
    assert "further down" not in shown(twin, short)
    assert shown(embedded, planned(embedded, PinnedText(BEFORE), LINE, PinnedText(AFTER))).startswith("import os")


def test_prefix_stays_encoded_while_typing(twin: Engine) -> None:
    options = {"path": "size.py", "max_steps": 1, "seed": 1}
    fill(twin, BEFORE, LINE, AFTER, **options)
    moved = AFTER.index("value_3 ")
    for before, after in (
        (BEFORE + "os.pa", AFTER),
        (BEFORE + "os.path(", ")" + AFTER),
        (BEFORE + "1\n    result = result + ", AFTER),
        (BEFORE + AFTER[: moved + len("value_3 =")], AFTER[AFTER.index("\n", moved) :]),
    ):
        stats = fill(twin, before, LINE, after, **options).done.stats
        new = len(twin.loaded.vocabulary.encode(before[len(BEFORE) :]))
        assert stats.prefix_tokens > 500
        assert stats.reused_tokens >= stats.prefix_tokens - new - 2
