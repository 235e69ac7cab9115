"""An unusable checkpoint gets a clear error before anything is loaded."""

import itertools
import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psutil
import pytest

from inference.models import registry
from inference.models.family import ModelError


def rewrite(folder: Path, **changes: object) -> None:
    file = folder / "config.json"
    file.write_text(json.dumps(json.loads(file.read_text()) | changes))


def text(folder: Path, **changes: object) -> None:
    rewrite(folder, text_config=json.loads((folder / "config.json").read_text())["text_config"] | changes)


def in_place_of(name: str, make: Callable[[Path], object]) -> Callable[[Path], None]:
    def replace(folder: Path) -> None:
        (folder / name).unlink(missing_ok=True)
        make(folder / name)

    return replace


def written(name: str, content: object) -> Callable[[Path], object]:
    return lambda folder: (folder / name).write_text(content if isinstance(content, str) else json.dumps(content))


def header(change: Callable[[dict[str, Any]], object], length: int | None = None) -> Callable[[Path], None]:
    """The safetensors file with another header; `length` is what it says of its length."""

    def replace(folder: Path) -> None:
        whole = (folder / "model.safetensors").read_bytes()
        end = 8 + int.from_bytes(whole[:8], "little")
        entries = json.loads(whole[8:end])
        change(entries)
        raw = json.dumps(entries).encode()
        said = len(raw) if length is None else length
        (folder / "model.safetensors").write_bytes(said.to_bytes(8, "little") + raw + whole[end:])

    return replace


def overlap(entries: dict[str, Any]) -> None:
    tensors = [entry for name, entry in entries.items() if name != "__metadata__"]
    one, same = next((a, b) for a, b in itertools.combinations(tensors, 2) if a["shape"] == b["shape"])
    same["data_offsets"] = one["data_offsets"]


def first(**changes: object) -> Callable[[dict[str, Any]], None]:
    def change(entries: dict[str, Any]) -> None:
        entries[next(name for name in entries if name != "__metadata__")].update(changes)

    return change


def index(name: str) -> Callable[[Path], None]:
    def replace(folder: Path) -> None:
        (folder / "model.safetensors").rename(folder / "model-00001-of-00001.safetensors")
        written("model.safetensors.index.json", {"weight_map": {"lm_head.weight": name}})(folder)

    return replace


def same_tensor_in_two_files(folder: Path) -> None:
    (folder / "model.safetensors").rename(folder / "a.safetensors")
    shutil.copy(folder / "a.safetensors", folder / "b.safetensors")
    written("model.safetensors.index.json", {"weight_map": {"x": "a.safetensors", "y": "b.safetensors"}})(folder)


def token_beyond(folder: Path) -> None:
    content = json.loads((folder / "tokenizer.json").read_text())
    content["model"]["vocab"]["beyond"] = 10**6
    (folder / "tokenizer.json").write_text(json.dumps(content))


def other_decoder(folder: Path) -> None:
    content = json.loads((folder / "tokenizer.json").read_text())
    content["decoder"] = {"type": "WordPiece", "prefix": "##", "cleanup": True}
    (folder / "tokenizer.json").write_text(json.dumps(content))


NESTED = "[" * 100_000
HOSTILE: list[tuple[Callable[[Path], object], str]] = [
    *(
        (in_place_of(name, make), f"{name} is not a regular file|{name} cannot be read: it is a folder")
        for name, make in (
            ("config.json", os.mkfifo),
            ("generation_config.json", Path.mkdir),
            ("infill.json", lambda file: file.symlink_to("/dev/zero")),
            ("tokenizer.json", os.mkfifo),
            ("model.safetensors", lambda file: file.symlink_to("/dev/zero")),
        )
    ),
    *(
        (written(name, content), f"{name} (cannot be read|is not a JSON object)")
        for name, content in (
            *(("config.json", content) for content in ("", "{", "\x00", NESTED, "1" * 10_000, "null", '{"a": 1}x')),
            ("generation_config.json", NESTED),
            ("infill.json", "null"),
        )
    ),
    *((written("tokenizer.json", it), "tokenizer.json cannot be used") for it in ("", NESTED, "{}", '{"model": 1}')),
    (lambda f: (f / "config.json").write_bytes(b"\xff\xfe{}"), "config.json cannot be read"),
    (lambda f: (f / "config.json").write_text(" " * (5 << 20) + "{}"), "config.json has 5242882 bytes"),
    (lambda f: text(f, num_hidden_layers=10**6), "config.json: text_config.num_hidden_layers: .*<= 512"),
    (lambda f: text(f, num_hidden_layers=400, layer_types=None), "num_hidden_layers: 400, the weights have 4"),
    (lambda f: text(f, num_hidden_layers="4"), "config.json: text_config.num_hidden_layers: Expected `int`"),
    (lambda f: text(f, layer_types=["full_attention"]), "config.json: text_config: layer_types: 1 kinds for 4"),
    (lambda f: text(f, hidden_size=10**9), "config.json: text_config.hidden_size: .*<= 1048576"),
    (lambda f: text(f, hidden_size=10**6), "config.json: text_config.vocab_size, hidden_size"),
    (lambda f: text(f, num_attention_heads=3), "config.json: text_config: num_key_value_heads: 2 does not divide"),
    (lambda f: text(f, top_k_experts=9), "config.json: text_config: top_k_experts: 9 of 4 experts"),
    (lambda f: text(f, pad_token_id=10**9), "config.json: text_config.pad_token_id: 1000000000 is not a token"),
    (lambda f: text(f, eos_token_id=[1, -1]), "config.json: text_config.eos_token_id: -1 is not a token"),
    (lambda f: rewrite(f, text_config=None), "config.json: text_config: Expected `object`"),
    (lambda f: rewrite(f, canvas_length=10**9), "config.json: canvas_length: .*<= 4096"),
    (lambda f: rewrite(f, quantization={"bits": 4}), "MLX packed its weights; give the original or a GGUF file such"),
    (lambda f: rewrite(f, dtype=["float32"]), "config.json: dtype: Expected `str"),
    (written("adapter_config.json", {"base_model_name_or_path": "/elsewhere"}), "adapter_config.json"),
    (written("generation_config.json", {"max_denoising_steps": 10**9}), "generation_config.json: max_denoising_steps"),
    (written("generation_config.json", {"sampler_config": 7}), "generation_config.json: sampler_config"),
    (written("infill.json", {"canvas_tokens": 0}), "infill.json: canvas_tokens: .*>= 4"),
    (written("infill.json", {"sampler": {"max_steps": 10**9}}), "infill.json: sampler.max_steps: .*<= 1000"),
    (written("infill.json", {"max_prefix_tokens": 0}), "infill.json: max_prefix_tokens"),
    (written("infill.json", {"slots": {"bodies": 9}}), "infill.json: slots"),
    (written("infill.json", {"prompt": "shout"}), "infill.json: prompt: .*'shout'"),
    (written("infill.json", {"corruption": "mask", "mask_token_id": 10**6}), "infill.json: mask_token_id: 1000000"),
    (written("infill.json", {"first_text_token_id": 321}), "infill.json: first_text_token_id: 321"),
    (token_beyond, "tokenizer.json: token 1000000 is not in the model's vocabulary of 320"),
    (header(lambda _: None, 1 << 60), "model.safetensors is damaged: .*header too large"),
    (header(lambda _: None, 10), "model.safetensors is damaged: .*invalid JSON in header"),
    (header(overlap), "model.safetensors is damaged: .*invalid offset for tensor"),
    (same_tensor_in_two_files, "b.safetensors: .* is in a.safetensors as well"),
    (header(first(shape=[1 << 40, 1 << 40])), "model.safetensors is damaged: .*overflow"),
    (header(first(data_offsets=[0, 1 << 50])), "model.safetensors is damaged: .*offset"),
    (header(first(shape="large")), "model.safetensors is damaged: .*invalid JSON in header"),
    (index("../model-00001-of-00001.safetensors"), "index.json: weight_map: '../model.* is not a .* of this folder"),
    (index("gone.safetensors"), "index.json: weight_map: gone.safetensors is missing"),
    (lambda f: (f / "model.safetensors").rename(f / "x.safetensors"), "neither model.safetensors nor"),
    (lambda f: (f / "config.json").unlink(), "config.json is missing"),
    (lambda f: rewrite(f, model_type="gemma"), "'gemma' model cannot fill holes"),
    (lambda f: (f / "tokenizer.json").unlink(), "tokenizer.json is missing"),
    (other_decoder, "tokenizer.json: neither a byte-level"),
    (lambda f: (f / "model.safetensors").rename(f / "pytorch_model.bin"), "no \\*.safetensors"),
    (lambda f: os.truncate(f / "model.safetensors", 1 << 42), "is damaged"),  # sparse: nothing on the disk
    (lambda f: os.truncate(f / "model.safetensors", 1000), "model.safetensors is damaged"),
    (lambda f: text(f, hidden_size=128), "weights are missing or of another shape"),
    (written("infill.json", {"corruption": "salt"}), "infill.json: corruption: .*'salt'"),
    (written("infill.json", {"corruption": "mask"}), "needs mask_token_id"),
    (written("infill.json", {"sampler": {"method": "entropy"}}), "'entropy' needs mask corruption"),
    (written("infill.json", {"colour": "red"}), "colour"),
]


@pytest.mark.timeout(60)
@pytest.mark.parametrize("number", range(len(HOSTILE)))
def test_hostile_folder_is_checked_first(random_folder: Path, tmp_path: Path, number: int) -> None:
    folder = tmp_path / "hostile"
    shutil.copytree(random_folder, folder)
    breaks, message = HOSTILE[number]
    breaks(folder)
    before = psutil.Process().memory_info().rss
    with pytest.raises(ModelError, match=message) as caught:
        registry.load_model(str(folder), device="cpu")
    assert "hostile" in str(caught.value) and "\n" not in str(caught.value)
    assert psutil.Process().memory_info().rss - before < 500 << 20


@pytest.mark.parametrize("model", ["/no/such/folder", "nothing", "../..", ""])
def test_a_name_that_is_no_model_is_refused(model: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "a" / "b").mkdir(parents=True)
    monkeypatch.chdir(tmp_path / "a" / "b")
    with pytest.raises(ModelError, match="no such model|config.json is missing"):
        registry.open_checkpoint(model)


@pytest.mark.parametrize("name", ["owner/name", "name"])
def test_a_folder_of_a_checkout_never_takes_the_place_of_a_name(
    random_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    shutil.copytree(random_folder, tmp_path / name)
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ModelError, match=rf"for the folder of this name here write \./{name}"):
        registry.open_checkpoint(name)
    assert registry.open_checkpoint(f"./{name}").folder == tmp_path / name
    assert registry.open_checkpoint(f"{name}/").folder == tmp_path / name


@pytest.mark.parametrize(("options", "message"), [({"device": "abacus"}, "abacus"), ({"dtype": "int3"}, "int3")])
def test_a_device_or_dtype_that_is_not_there_is_named(options: dict[str, str], message: str) -> None:
    with pytest.raises(ModelError, match=message):
        registry.load_model(**options)  # type: ignore[arg-type]


def test_progress_runs_from_0_to_1(random_folder: Path) -> None:
    told: list[float] = []
    registry.load_model(str(random_folder), device="cpu", on_progress=lambda fraction, _: told.append(fraction))
    assert told == sorted(told)
    assert (told[0], told[-1]) == (0.0, 1.0)


def test_the_embedded_checkpoint_is_small() -> None:
    assert sum(file.stat().st_size for file in registry.open_checkpoint("embedded").folder.iterdir()) <= 20_000_000
