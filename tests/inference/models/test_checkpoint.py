"""A checkpoint that cannot be used gets a clear error before anything is loaded."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from inference.models import registry
from inference.models.family import ModelError


def rewrite(folder: Path, **changes: object) -> None:
    file = folder / "config.json"
    file.write_text(json.dumps(json.loads(file.read_text()) | changes))


def only_pickles(folder: Path) -> None:
    (folder / "model.safetensors").rename(folder / "pytorch_model.bin")


def too_large(folder: Path) -> None:
    with (folder / "model.safetensors").open("r+b") as stream:
        stream.truncate(1 << 42)  # sparse: four terabytes by its size, nothing on the disk


def cut_off(folder: Path) -> None:
    with (folder / "model.safetensors").open("r+b") as stream:
        stream.truncate(1000)


def other_shape(folder: Path) -> None:
    config = json.loads((folder / "config.json").read_text())
    rewrite(folder, text_config=config["text_config"] | {"hidden_size": 128})


BROKEN: list[tuple[Callable[[Path], object], str]] = [
    (lambda f: (f / "config.json").unlink(), "config.json is missing"),
    (lambda f: (f / "config.json").write_text("{"), "cannot be read"),
    (lambda f: (f / "config.json").write_text("[]"), "not a JSON object"),
    (lambda f: rewrite(f, model_type="llama"), "'llama' model cannot fill holes"),
    (lambda f: (f / "tokenizer.json").unlink(), "tokenizer.json is missing"),
    (only_pickles, "no \\*.safetensors"),
    (too_large, "GB free"),
    (cut_off, "cannot be loaded"),
    (other_shape, "weights are missing or of another shape|cannot be loaded"),
    (lambda f: (f / "infill.json").write_text('{"corruption": "salt"}'), "'mask' or 'uniform'"),
    (lambda f: (f / "infill.json").write_text('{"corruption": "mask"}'), "needs mask_token_id"),
    (lambda f: (f / "infill.json").write_text('{"colour": "red"}'), "colour"),
]


@pytest.mark.parametrize("index", range(len(BROKEN)), ids=[message for _, message in BROKEN])
def test_a_broken_checkpoint_is_named_and_explained(random_folder: Path, tmp_path: Path, index: int) -> None:
    folder = tmp_path / "broken"
    shutil.copytree(random_folder, folder)
    breaks, message = BROKEN[index]
    breaks(folder)
    with pytest.raises(ModelError, match=message) as caught:
        registry.load(str(folder), device="cpu")
    assert "broken" in str(caught.value)


@pytest.mark.parametrize("model", ["/no/such/folder", "nothing", "../..", ""])
def test_a_name_that_is_no_model_is_refused(model: str) -> None:
    with pytest.raises(ModelError, match="no such model|config.json is missing"):
        registry.find(model)


def test_a_hub_model_that_is_not_here_is_not_fetched_unasked() -> None:
    with pytest.raises(ModelError, match="not on this machine.*--allow-download"):
        registry.find("google/no-such-diffusion-checkpoint")


@pytest.mark.parametrize(("options", "message"), [({"device": "abacus"}, "abacus"), ({"dtype": "int3"}, "int3")])
def test_a_device_or_dtype_that_is_not_there_is_named(options: dict[str, str], message: str) -> None:
    with pytest.raises(ModelError, match=message):
        registry.load(**options)  # type: ignore[arg-type]


def test_progress_runs_from_0_to_1(random_folder: Path) -> None:
    told: list[float] = []
    registry.load(str(random_folder), device="cpu", on_progress=lambda fraction, _: told.append(fraction))
    assert told == sorted(told)
    assert told[0] == 0.0
    assert told[-1] == 1.0


def test_a_folder_without_infill_json_is_taken_for_a_released_checkpoint(random_folder: Path) -> None:
    properties = registry.find(str(random_folder)).properties
    assert properties.corruption == "uniform"
    assert properties.slack_token_id is None
    assert properties.prompt == "chat"
    assert properties.canvas_tokens == 64


def test_the_embedded_checkpoint_is_small() -> None:
    assert registry.find("embedded").weight_bytes <= 20_000_000


def test_a_file_that_is_no_tokenizer_is_refused(random_folder: Path, tmp_path: Path) -> None:
    folder = tmp_path / "broken"
    shutil.copytree(random_folder, folder)
    unknown = {"type": "WordPiece", "prefix": "##", "cleanup": True}
    other_decoder = json.dumps(json.loads((folder / "tokenizer.json").read_text()) | {"decoder": unknown})
    for content in ("", "{}", '{"model": 1}', other_decoder):
        (folder / "tokenizer.json").write_text(content)
        with pytest.raises(ModelError, match="tokenizer"):
            registry.load(str(folder), device="cpu")
