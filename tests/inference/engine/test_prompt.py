"""The frame around the text of a file: nothing for a plain checkpoint, a conversation for one tuned on them."""

import pytest

from inference.engine import Engine, RequestError
from inference.engine.canvas import prompt
from inference.messages import InfillRequest, Snippet

CONTEXT = (Snippet("other.py", "OTHER = 1"),)
REQUEST = InfillRequest("r", (), path="sizes.py", context=CONTEXT, instruction="  Use pathlib. ")


def test_chat_model_reads_instruction_and_files(released: Engine) -> None:
    vocabulary = released.loaded.vocabulary
    frame = prompt.frame(vocabulary, released.loaded.properties, REQUEST)
    text = vocabulary.decode(list(frame.before))
    assert "File other.py:\nOTHER = 1" in text and "Use pathlib.\nWrite sizes.py in full" in text
    assert text.endswith("model\n")
    start, end = vocabulary.id_of("<|turn>"), vocabulary.id_of("<turn|>")
    assert [token for token in frame.before if token in (start, end)] == [start, end, start]
    assert frame.after[0] == end


def test_a_plain_checkpoint_reads_the_file_alone(embedded: Engine) -> None:
    frame = prompt.frame(embedded.loaded.vocabulary, embedded.loaded.properties, REQUEST)
    ids = prompt.prefix(embedded.loaded.vocabulary, embedded.loaded.properties, "x = 1\n", 256)
    assert ids[0] == embedded.loaded.vocabulary.id_of("<bos>"), "a short file is read from its start"
    assert (frame.before, frame.after) == ((), (embedded.loaded.vocabulary.id_of("<eos>"),))


def test_only_chat_models_read_other_files(embedded: Engine, released: Engine) -> None:
    assert embedded.context_tokens == 0
    properties = released.loaded.properties
    assert 0 < released.context_tokens < properties.max_prefix_tokens
    many = tuple(Snippet(f"file_{number}.py", f"OTHER_{number} = 1\n" * 200) for number in range(40))
    request = InfillRequest("r", (), path="sizes.py", context=many)
    frame = prompt.frame(released.loaded.vocabulary, properties, request)
    text = released.loaded.vocabulary.decode(list(frame.before))
    assert len(frame.before) <= released.context_tokens + 16
    assert "OTHER_0 = 1" in text and "OTHER_39 = 1" not in text


def test_instruction_without_room_for_the_file_is_refused(embedded: Engine, released: Engine) -> None:
    request = InfillRequest("r", (), instruction="Use pathlib. " * 100_000)
    with pytest.raises(RequestError, match="instruction of 1300000 characters is too long"):
        prompt.frame(released.loaded.vocabulary, released.loaded.properties, request)
    assert prompt.frame(embedded.loaded.vocabulary, embedded.loaded.properties, request).before == ()


def test_other_files_are_read_until_one_does_not_fit(released: Engine) -> None:
    context = (Snippet("first.py", "FIRST = 1"), Snippet("huge.py", "x" * 1_000_000), Snippet("last.py", "LAST = 1"))
    request = InfillRequest("r", (), path="folder/" * 100_000 + "sizes.py", context=context)
    frame = prompt.frame(released.loaded.vocabulary, released.loaded.properties, request)
    text = released.loaded.vocabulary.decode(list(frame.before))
    assert "FIRST = 1" in text and "huge.py" not in text
    assert "LAST" not in text and "sizes.py in full" in text
    assert len(text) < 2000
