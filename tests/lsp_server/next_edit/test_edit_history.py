"""Recent edits: earlier texts are correct, and a growing edit stays one edit."""

from hypothesis import given
from hypothesis import strategies as st

from lsp_server.documents.change import TextChange
from lsp_server.next_edit.edit_history import EditHistory
from lsp_server.next_edit.text_diff import TextDiff

Batches = list[list[tuple[int, int, str]]]
replacements = st.tuples(st.integers(0, 30), st.integers(0, 4), st.text("ab\n", max_size=3))
batches = st.lists(st.lists(replacements, min_size=1, max_size=3), max_size=6)


def changed(history: EditHistory, text: str, batch: list[tuple[int, int, str]]) -> str:
    """The text after a batch of replacements, each of the text that the one before it left."""
    changes = []
    for start, length, added in batch:
        at = min(start, len(text))
        changes.append(TextChange(at, text[at : at + length], added))
        text = changes[-1].apply_to(text)
    history.changed(changes)
    return text


@given(st.text("abc \n", max_size=30), batches)
def test_undoing_every_edit_leads_to_the_first_text(text: str, batches: Batches) -> None:
    history, now = EditHistory(), text
    for batch in batches:
        now = changed(history, now, batch)
    assert [now, *history.old_texts(now)][-1] == text


def test_a_word_typed_by_letters_is_one_edit_until_undone() -> None:
    history = EditHistory()
    text = changed(history, "x = 1", [(0, 1, "")])
    for at, letter in enumerate("total"):
        text = changed(history, text, [(at, 0, letter)])
    assert list(history.old_texts(text)) == ["x = 1"]
    assert list(history.old_texts(changed(history, text, [(0, 5, "x")]))) == []


def test_typing_at_several_cursors_is_one_edit_each() -> None:
    history = EditHistory()
    text = changed(history, "a b", [(0, 0, "x"), (3, 0, "x")])
    text = changed(history, text, [(1, 0, "y"), (5, 0, "y")])
    assert text == "xya xyb"
    assert list(history.old_texts(text)) == ["xya b", "a b"]


def test_an_edit_of_half_the_file_is_not_followed() -> None:
    history = EditHistory()
    assert list(history.old_texts(changed(history, "", [(0, 0, "x" * 30_000)]))) == []


@given(st.text("ab\n", max_size=40), st.text("ab\n", max_size=40))
def test_hunks_lead_from_one_text_to_the_other(old: str, new: str) -> None:
    texts = TextDiff(old, new)
    made = old
    for hunk in reversed(texts.changed_words):
        made = made[: hunk.old_start] + new[hunk.start : hunk.end] + made[hunk.old_end :]
    assert "".join(made.split()) == "".join(new.split())
