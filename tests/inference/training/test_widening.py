"""A run can start from a checkpoint with narrower MLPs, and computes the same at first."""

from pathlib import Path

import msgspec
import torch
from safetensors.torch import load_file

import inference.training
from inference.training import run
from inference.training.config import RunConfig, read
from inference.training.corpus import SourceFile

_EMBEDDED = Path(inference.training.__file__).parents[1] / "embedded"


def _wider(config: RunConfig, units: int) -> RunConfig:
    assert config.model is not None
    return msgspec.structs.replace(config, model=msgspec.structs.replace(config.model, mlp_size=units))


def test_a_wider_network_starts_as_the_checkpoint_it_was_widened_from(tmp_path: Path) -> None:
    config = _wider(read(Path(inference.training.__file__).parent / "configs" / "embedded-cpu.toml"), 800)
    text = (Path(inference.training.__file__).parent / "run.py").read_text("utf-8")
    files = [SourceFile("own", f"{hidden}.py", text, hidden) for hidden in (False, True)]
    (tmp_path / "corpus.msgpack").write_bytes(msgspec.msgpack.encode(files))
    trainer = run.prepare(config, tmp_path, _EMBEDDED)
    narrow = run.prepare(_wider(config, 576), _folder_with(tmp_path / "narrow", files), _EMBEDDED)
    assert trainer.model.config.text_config.intermediate_size == 800
    ids = torch.randint(5, 4096, (1, 40))
    with torch.no_grad():
        logits = [each.model(input_ids=ids, decoder_input_ids=ids[:, :16]).logits for each in (trainer, narrow)]
    torch.testing.assert_close(*logits, rtol=1e-4, atol=1e-4)
    old = load_file(_EMBEDDED / "model.safetensors")["model.decoder.layers.0.mlp.up_proj.weight"].float()
    wide = trainer.model.get_parameter("model.decoder.layers.0.mlp.up_proj.weight")
    assert torch.equal(wide[:576], old)
    assert bool(wide[576:].any())


def _folder_with(folder: Path, files: list[SourceFile]) -> Path:
    folder.mkdir()
    (folder / "corpus.msgpack").write_bytes(msgspec.msgpack.encode(files))
    return folder
