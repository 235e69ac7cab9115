"""The file's prediction of the next token: the one after the longest match, mixed with the model's."""

import torch

from inference.engine import Engine
from inference.engine.canvas.file_text import FileText
from inference.engine.search.rank import mixed, rescored

A, B, C, D, E = range(5)


def test_what_followed_the_longest_match_is_told() -> None:
    file = FileText([A, B, C, D, B, C, E], [])
    assert file.followers([C]).tokens == [D, E]
    assert file.followers([A, B, C]).tokens == [D]
    assert file.followers([E, E, D, B, C]).tokens == [E]
    assert file.followers([A, B, C]).share > file.followers([B, C]).share > file.followers([C]).share > 0


def test_both_sides_are_known_but_nothing_follows_an_end() -> None:
    file = FileText([A, B], [C, D])
    assert file.followers([C]).tokens == [D]
    for end in ([B], [D], [E], []):
        assert (file.followers(end).tokens, file.followers(end).share) == ([], 0)


def test_mixture_favours_what_the_file_says() -> None:
    file = FileText([A, B, C, D], [])
    logits = torch.randn(2, 5, generator=torch.Generator().manual_seed(1))
    both = mixed(file, logits, [[A, B], [E]])
    assert torch.allclose(both.exp().sum(-1), torch.ones(2))
    assert both[0, C] > logits[0].log_softmax(-1)[C]
    assert torch.allclose(both[1], logits[1].log_softmax(-1), atol=1e-6)


def test_tokens_are_scored_as_they_were_predicted() -> None:
    file = FileText([A, B, C, D, A, C], [B, B, E])
    ids, before = [B, C, D, E], [E, A]
    logits = torch.randn(4, 5, generator=torch.Generator().manual_seed(2))
    known = logits.log_softmax(-1)[range(4), ids]
    for behind, first in ((before, 0), ([], 1)):  # behind nothing, nothing is known of the first token
        tails = [[*behind, *ids[:number]] for number in range(4)]
        wanted = mixed(file, logits, tails)[range(4), ids][first:]
        assert torch.allclose(rescored(file, known[first:], behind, ids), wanted, atol=1e-5)


def test_file_is_read_near_the_hole(embedded: Engine) -> None:
    vocabulary = embedded.loaded.vocabulary
    text = "def size(path):\n\n    return 1\n"
    ids = vocabulary.encode_lines(text)
    assert vocabulary.bytes_of(ids).decode() == text
    assert vocabulary.encode_lines(text) == ids
    far = FileText.of(vocabulary, "zebra(quagga)\n" + "x = 1\n" * 10_000, "")
    start = vocabulary.encode("zebra(")
    assert far.followers(start).share < FileText.of(vocabulary, "zebra(quagga)\n", "").followers(start).share
    for odd in ("", "\n" * 5000, "é" * 50_000, "\r\n\t" * 5000, "\ud7ff\U0010ffff" * 100):
        FileText.of(vocabulary, odd, odd)
