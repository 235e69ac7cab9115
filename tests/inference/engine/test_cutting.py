"""Long texts, with line breaks and without: little is tokenised, and the prefix stays the same during typing."""

from hypothesis import given
from hypothesis import strategies as st

from inference.engine import Engine
from inference.engine.canvas import cutting, prompt

TEXTS = st.text(st.sampled_from("ab_ ;{}.é漢\n\t"), max_size=60).map(lambda text: text * 40)
MINIFIED = "value=foo(bar,baz[12]);"


@given(TEXTS, st.integers(1, 300))
def test_a_window_is_bounded_and_ends_with_the_text(text: str, size: int) -> None:
    assert 0 <= len(text) - cutting.window_start(text, size) <= 2 * size


@given(TEXTS, st.integers(8, 300))
def test_the_start_of_a_window_moves_only_now_and_then(text: str, size: int) -> None:
    starts = [cutting.window_start(text + "x" * typed, size) for typed in range(size // 4 + 1)]
    assert len(set(starts)) <= 2
    assert starts == sorted(starts)


def test_a_window_over_a_line_of_statements_begins_with_one() -> None:
    text = MINIFIED * 1000
    assert text[cutting.window_start(text, 1000) :].startswith("value")
    assert text[cutting.window_start("x" * 700 + text, 1000) - 700 - 1] == ";"


def test_pieces_are_the_text_and_none_is_long() -> None:
    for unit in (MINIFIED, "x", "é ", "line\n", "\n", MINIFIED * 900 + "\n"):
        text = (unit * (100_000 // len(unit) + 1))[:100_000]
        found = list(cutting.pieces(text))
        assert "".join(found) == text
        assert all(0 < len(piece) <= 16_384 for piece in found)
    assert list(cutting.pieces("")) == [""]


def test_keystroke_keeps_tokens_in_a_one_line_file(embedded: Engine) -> None:
    vocabulary, properties = embedded.loaded.vocabulary, embedded.loaded.properties
    text = MINIFIED * 300
    windows = [prompt.prefix(vocabulary, properties, text + "value=foo("[:typed], 256) for typed in range(11)]
    assert len({window[:100] for window in windows}) <= 2  # it moves once in many keystrokes
    assert all(128 < len(window) <= 256 for window in windows)
    assert all(vocabulary.decode(list(window)) in text + "value=foo(" for window in windows)
