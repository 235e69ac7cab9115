"""A run with the conventions `fim`, in miniature: what it writes is a causal Qwen2 with Qwen2.5-Coder's tokens."""

import json
from pathlib import Path

import msgspec
import pytest
import torch
from tokenizers import Tokenizer
from transformers import AutoTokenizer, Qwen2ForCausalLM

from inference.training import fim_tokenizer, run
from inference.training.batches import BatchShape
from inference.training.config import ConfigError, RunConfig, read
from inference.training.fim_examples import FimExamples, FimExampleSource
from inference.training.fim_tokenizer import END, MIDDLE, NAMES, PAD, PREFIX, SUFFIX
from inference.training.holes import TrainingDocument

CONFIGS = Path(run.__file__).parent / "configs"
EMBEDDED = Path(run.__file__).parents[1] / "embedded"


@pytest.fixture(scope="module")
def config() -> RunConfig:
    """The miniature configuration that comes with the package."""
    return read(CONFIGS / "miniature-fim.toml")


@pytest.fixture(scope="module")
def tokenizer(texts: list[str]) -> Tokenizer:
    """600 entries, of this kind."""
    return fim_tokenizer.train(texts, 600)


@pytest.fixture(scope="module")
def drawn(documents: list[TrainingDocument], tokenizer: Tokenizer) -> FimExamples:
    """A hundred examples of at most 200 rows."""
    return FimExampleSource(documents, tokenizer, BatchShape(100, 80, 1, 200), 5, 200).draw(3)


def parts_of(row: list[int]) -> tuple[list[int], list[int], list[int]]:
    """Prefix, suffix and middle with what follows it."""
    suffix, middle = row.index(SUFFIX), row.index(MIDDLE)
    return row[1:suffix], row[suffix + 1 : middle], row[middle + 1 :]


def test_examples_hold_a_text_in_the_order_that_servers_ask_in(
    drawn: FimExamples, documents: list[TrainingDocument], tokenizer: Tokenizer
) -> None:
    """Prefix, middle and suffix, put together again, stand in a file; the middle ends with the end token."""
    arranged = [[int(one) for one in row if one != PAD] for row in drawn.ids if row[0] == PREFIX]
    assert 70 < len(arranged) < 100
    for row in arranged:
        prefix, suffix, middle = parts_of(row)
        assert middle[-1] == END
        assert END not in middle[:-1]
        text = tokenizer.decode(prefix) + tokenizer.decode(middle[:-1]) + tokenizer.decode(suffix)
        assert any(text in document.text for document in documents)


def test_only_text_is_predicted(drawn: FimExamples) -> None:
    """No padding, nothing that arranges; of the middle all, and the end that follows it."""
    assert not set(drawn.ids[drawn.text].tolist()) & {PAD, PREFIX, SUFFIX, MIDDLE}
    for row, text, middle in zip(drawn.ids.tolist(), drawn.text, drawn.middle, strict=True):
        if row[0] == PREFIX:
            begin = row.index(MIDDLE) + 1
            assert middle[begin : row.index(END) + 1].all()
            assert not middle[:begin].any()
            assert not text[row.index(END) + 1 :].any()
        else:
            assert not middle.any()


def test_the_same_seed_and_step_draw_the_same(
    drawn: FimExamples, documents: list[TrainingDocument], tokenizer: Tokenizer
) -> None:
    source = FimExampleSource(documents, tokenizer, BatchShape(100, 80, 1, 200), 5, 200)
    assert (source.draw(3).ids == drawn.ids).all()
    assert (source.draw(4).ids != drawn.ids).any()


def test_the_loss_falls(finished: Path) -> None:
    """On what is trained on, and on files the model never sees."""
    lines = [json.loads(line) for line in (finished / "log.jsonl").read_text().splitlines()]
    training = [line for line in lines if line["kind"] == "train"]
    held_out = [line for line in lines if str(line["kind"]).startswith("held-out")]
    for name in ("hole", "causal"):
        assert training[-1][name] < training[0][name] - 0.2
        assert held_out[-1][name] < held_out[0][name] - 0.2


def test_the_folder_is_a_causal_qwen2_with_the_tokens_of_such_models(finished: Path) -> None:
    """transformers and servers read it: each special token is one id, and it says how a text ends."""
    folder = finished / "final"
    stated = json.loads((folder / "config.json").read_text())
    assert (stated["architectures"], stated["model_type"]) == (["Qwen2ForCausalLM"], "qwen2")
    assert json.loads((folder / "generation_config.json").read_text())["eos_token_id"] == [END]
    assert not (folder / "infill.json").exists()
    tokenizer = AutoTokenizer.from_pretrained(folder)
    ids = tokenizer("<|fim_prefix|>a = <|fim_suffix|>\n<|fim_middle|>").input_ids
    assert (ids[0], ids[-1], ids.count(SUFFIX)) == (PREFIX, MIDDLE, 1)
    assert tokenizer.convert_ids_to_tokens(range(len(NAMES))) == list(NAMES)
    loaded = Qwen2ForCausalLM.from_pretrained(folder)
    with torch.no_grad():
        both = loaded(input_ids=torch.tensor([ids, [*ids[:-1], 40]])).logits
    assert torch.equal(both[0, :-1], both[1, :-1])  # what comes later changes nothing before it


def test_it_can_be_asked_in_a_chat(finished: Path) -> None:
    """What was said is all that it is given."""
    tokenizer = AutoTokenizer.from_pretrained(finished / "final")
    said = [{"role": "user", "content": "import os"}, {"role": "user", "content": "os."}]
    assert tokenizer.apply_chat_template(said, tokenize=False) == "import os\nos.\n"


def test_a_run_goes_on_where_it_stopped_and_another_starts_from_its_end(
    config: RunConfig, finished: Path, tmp_path: Path
) -> None:
    assert run.prepare(config, finished).state.step == 60
    trainer = run.prepare(config, tmp_path, finished / "final")
    assert (tmp_path / "tokenizer.json").read_bytes() == (finished / "final" / "tokenizer.json").read_bytes()
    assert trainer.evaluate(averaged=False).hole < 6.3  # nothing learnt: 6.4


def test_a_run_can_start_from_a_diffusion_gemma_of_its_shape(finished: Path, tmp_path: Path) -> None:
    """What the embedded checkpoint's encoder knows is of use, though the tokenizer is another one."""
    config = read(CONFIGS / "fim.toml")
    config = msgspec.structs.replace(
        config,
        training=msgspec.structs.replace(config.training, compile=False),
        report=msgspec.structs.replace(config.report, evaluate_batches=1),
    )
    (tmp_path / "corpus.msgpack").write_bytes((finished / "corpus.msgpack").read_bytes())
    assert run.prepare(config, tmp_path, EMBEDDED).evaluate(averaged=False).causal < 7.5  # at random: 8.3
    with pytest.raises(ConfigError, match=r"no checkpoint of the shape.*model\.layers must be 6"):
        run.prepare(read(CONFIGS / "miniature-fim.toml"), tmp_path / "other", EMBEDDED)
