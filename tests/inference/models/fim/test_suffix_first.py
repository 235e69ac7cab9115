"""A model whose prompt shows the suffix first: what is read again at a new place, and what stays known."""

from pathlib import Path

import pytest

from inference.engine.canvas.plan import text_and_holes
from inference.engine.engine import Engine
from inference.engine.fim.prompt import PromptBuilder
from inference.models.fim.adapter import LlamaFimAdapter
from inference.models.fim_tokens import TABLE, detect_fim_tokens
from tests.inference.engine.filling import AFTER, BEFORE, fill, line, request
from tests.inference.models.fim.checkpoints import changed, loaded


def renamed(folder: Path, kind: str) -> LlamaFimAdapter:
    """The tests' checkpoint with the control tokens of another family."""
    theirs = TABLE[kind]
    names = {"prefix": theirs.prefix, "suffix": theirs.suffix, "middle": theirs.middle, "pad": theirs.file or "<pad>"}
    file = changed(folder) / "tokenizer.json"
    text = file.read_text()
    for name, token in names.items():
        text = text.replace(f"<|fim_{name}|>", token)
    file.write_text(text)
    return loaded(folder)


@pytest.fixture(scope="module")
def family(tmp_path_factory: pytest.TempPathFactory) -> LlamaFimAdapter:
    return renamed(tmp_path_factory.mktemp("seed"), "seed-coder")


def ids(engine: Engine, before: str) -> list[int]:
    one = request(before, line(), AFTER)
    return list(PromptBuilder(engine.loaded, one).build(text_and_holes(one), ("",), 0).ids)


def test_the_suffix_comes_first(family: LlamaFimAdapter) -> None:
    shown = family.tokenizer.decode(family.fim_prompt("a", "b"), skip_special_tokens=False)
    assert shown == "<[fim-suffix]>b<[fim-prefix]>a<[fim-middle]>"


def test_the_next_line_reads_only_what_was_typed(family: LlamaFimAdapter) -> None:
    engine = Engine(family)
    fill(engine, BEFORE, line(), AFTER)
    new = ids(engine, BEFORE + "name = 1\n        ")
    assert len(new) - family.cached_tokens(new) < 12


def test_shorter_prompts_show_less_of_both_sides(family: LlamaFimAdapter) -> None:
    engine = Engine(family)
    one = request("value = 1\n" * 900, line(), "other = 2\n" * 900)
    builder = PromptBuilder(engine.loaded, one)
    sizes = [len(builder.build(text_and_holes(one), ("",), 0, reach).ids) for reach in builder.windows]
    assert sizes == sorted(sizes, reverse=True)
    assert sizes[0] > 1.8 * sizes[1] > 3 * sizes[2]


@pytest.mark.parametrize(("name", "is_suffix_first"), [("granite-8b-code-base", False), ("Mellum-4b-base", True)])
def test_the_name_tells_equal_tokens_apart(name: str, is_suffix_first: bool) -> None:
    tokens = ("<fim_prefix>", "<fim_suffix>", "<fim_middle>", "<fim_pad>", "<filename>", "<reponame>", "<|endoftext|>")
    found = detect_fim_tokens(tokens, name)
    assert found is not None and found.is_suffix_first == is_suffix_first
