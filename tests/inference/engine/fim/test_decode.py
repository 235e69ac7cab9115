"""One text: the model's likeliest, in fewer passes, independent of how its line was typed."""

from contextlib import closing

import pytest
import torch
from transformers import AutoModelForCausalLM

from inference.engine.engine import Engine
from inference.engine.fim.decode import Branch, Decoder, PromptLookup
from inference.engine.fim.prompt import FimPrompt
from tests.inference.engine.filling import AFTER, BEFORE, fill, line
from tests.inference.models.fim.checkpoints import FIM

ROOM = 40
PROMPTS = [
    (BEFORE, AFTER),
    ("", "\nx = 1\n"),
    ("def area(width, height):\n    ", ""),
    ("a = [1, 2, 3]\nb = [1, 2, 3]\nc = [1, 2, 3]\nd = ", "\n"),
    (
        "class Shape:\n    def __init__(self, size):\n        self.size = size\n\n    def area(self):\n",
        "\n\nprint(1)\n",
    ),
]


def asked(engine: Engine, prefix: str, suffix: str, given: str = "") -> FimPrompt:
    ids = tuple(engine.loaded.fim_adapter.fim_prompt(prefix, suffix))
    return FimPrompt(ids, given.encode(), 0, "", 0, ROOM, False)


def written(engine: Engine, one: FimPrompt, lookup: PromptLookup | None) -> tuple[Branch, Decoder]:
    branch = Branch.from_forced(engine.loaded.vocabulary, one)
    with closing(engine.loaded.adapter.open_prefix([*one.ids, *branch.ids])) as context:
        assert list(context.prefill())[-1:] in ([0], [])
        writer = Decoder(engine.loaded, context, branch.num_forced, lookup)
        for _ in writer.decode_branch(branch):
            pass
    return branch, writer


@pytest.fixture(scope="module")
def reference() -> torch.nn.Module:
    return AutoModelForCausalLM.from_pretrained(FIM, dtype=torch.float32).eval()


@pytest.mark.parametrize(("prefix", "suffix"), PROMPTS)
def test_greedy_text_equals_transformers(middle: Engine, reference: torch.nn.Module, prefix: str, suffix: str) -> None:
    one, ends = asked(middle, prefix, suffix), middle.loaded.fim_adapter.stop_ids
    prompt = torch.tensor([one.ids])
    more = {"max_new_tokens": ROOM, "do_sample": False, "eos_token_id": sorted(ends), "pad_token_id": 6}
    out = reference.generate(prompt, attention_mask=torch.ones_like(prompt), **more)  # type: ignore[operator]
    wanted = [id_ for id_ in out[0, len(one.ids) :].tolist() if id_ not in ends]
    plain, _ = written(middle, one, None)
    guessed, _ = written(middle, one, PromptLookup(one.ids))
    assert plain.ids == wanted
    assert guessed.ids == wanted
    chances = [choice.logprob for choice in plain.choices]
    assert [choice.logprob for choice in guessed.choices] == pytest.approx(chances, abs=1e-3)


def test_guesses_save_passes_where_the_text_repeats(middle: Engine) -> None:
    prefix = "".join(f"    self.first_value_{n} = first_value_{n}\n" for n in range(8))
    one = asked(middle, f"def f(self):\n{prefix}", "\n")
    plain, slow = written(middle, one, None)
    guessed, fast = written(middle, one, PromptLookup(one.ids))
    assert guessed.ids == plain.ids
    assert slow.passes == len(plain.choices)
    assert fast.passes < slow.passes


@pytest.mark.parametrize(("prefix", "suffix"), PROMPTS)
def test_what_was_written_before_is_confirmed_in_few_passes(middle: Engine, prefix: str, suffix: str) -> None:
    one = asked(middle, prefix, suffix)
    plain, slow = written(middle, one, PromptLookup(one.ids))
    before = middle.loaded.fim_adapter.cached_continuation(one.ids)
    assert before[: len(plain.ids)] == plain.ids[: len(before)]
    again, fast = written(middle, one, PromptLookup(one.ids, before))
    assert again.ids == plain.ids
    assert fast.passes <= slow.passes // 2 + 2
    wrong = [id_ + 1 for id_ in before]
    assert written(middle, one, PromptLookup(one.ids, wrong))[0].ids == plain.ids


def test_any_cut_of_a_line_goes_on_with_its_tokens(middle: Engine) -> None:
    same = 0
    for before, suffix in PROMPTS:
        prefix = before[: before.rfind("\n") + 1]
        whole, _ = written(middle, asked(middle, prefix, suffix), None)
        text = whole.data.decode()
        for place in range(1, 20, 2):
            branch, _ = written(middle, asked(middle, prefix, suffix, text[:place]), None)
            now = branch.data.decode()
            assert now.startswith(text[:place])
            if branch.ids[: branch.num_forced] == whole.ids[: branch.num_forced]:
                same += 1
                assert now.startswith(text) or text.startswith(now)
    assert same > 40, "half a word became another, such as `retularly`"


@pytest.mark.parametrize(
    "typed", ["# \U0001f980 crab", "# na\u00efve", "x\u0301 = ", "# \u2126", "\t\tif ", "        "]
)
def test_what_is_typed_stays_byte_for_byte(middle: Engine, typed: str) -> None:
    branch, _ = written(middle, asked(middle, BEFORE, AFTER, typed), None)
    assert branch.data.startswith(typed.encode())
    assert "\ufffd" not in fill(middle, "x = 1\n" + typed, line(), "\n").text


def test_half_a_character_at_the_end_is_left_out(middle: Engine) -> None:
    one = asked(middle, "", "")
    assert one.text("né".encode()[:-1]) == "n"
    assert one.text("n\U0001f980".encode()[:-2]) == "n"
    assert one.text(b"\xffn") == "\ufffdn"


@pytest.mark.parametrize(
    ("given", "written", "kept"),
    [
        ("", "self._client.rea", "self._client."),
        ("", "sum(numbers) / le", "sum(numbers) /"),
        ("", "numb", "numb"),
        ("names.app", "names.append(na", "names.append("),
        ("names.app", "names.appen", "names.appen"),
        ("", "\n    caf\u00e9 = pr\u00eat", "\n    caf\u00e9 ="),
    ],
)
def test_a_late_line_ends_with_a_whole_word(given: str, written: str, kept: str) -> None:
    line = FimPrompt((1,), given.encode(), 0, "", 0, ROOM, single_line=True)
    branch = Branch(line, [], 0, written.encode())
    branch.end_early(drops_word=True)
    assert branch.data.decode() == kept
