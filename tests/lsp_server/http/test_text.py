"""What is sent of a text that grows never changes, and a text ends where it should."""

from lsp_server.http.text import TextSoFar

WHOLE = "one = 1\ntwo = 2\n\nthree = 3\nfour = 4\n"


def sent(before: str, drafts: list[str], whole: str, *stops: str) -> tuple[list[str], bool]:
    text = TextSoFar(before, stops)
    parts = []
    for draft in drafts:
        parts.append(text.more(draft, is_whole=False))
        if text.is_stopped:
            return [part for part in parts if part], True
    parts.append(text.more(whole, is_whole=True))
    return [part for part in parts if part], text.is_stopped


def test_lines_are_sent_once_two_others_follow() -> None:
    drafts = [WHOLE[:end] for end in range(len(WHOLE))]
    assert sent("", drafts, WHOLE)[0] == ["one = 1\n", WHOLE.removeprefix("one = 1\n")]


def test_lines_that_the_whole_text_drops_are_never_sent() -> None:
    parts, _ = sent("", [WHOLE[:end] for end in range(len(WHOLE))], "one = 1\ntwo = 2\n")
    assert "".join(parts) == "one = 1\ntwo = 2\n"


def test_a_stop_ends_a_text_while_it_is_written() -> None:
    assert sent("", ["one", "one two", "one two; thr"], "unseen", ";") == (["one two"], True)


def test_the_first_of_several_stops_counts() -> None:
    assert sent("", [], "a; b # c", "#", ";") == (["a"], True)


def test_a_line_that_leaves_the_block_ends_the_text() -> None:
    assert sent("def f():\n    ret", [], "urn 1\n\n\ndef g():\n    pass\n") == (["urn 1"], True)


def test_a_closing_bracket_leaves_no_block() -> None:
    assert sent("    f(", [], "\n        1,\n)\n    g()\n") == (["\n        1,\n)\n    g()\n"], False)
