"""Packed weights: the predictions of the unpacked ones, in a third of the memory, and never more while they load."""

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file

from inference.engine.engine import Engine
from inference.messages import FilledHoles, Hole, InfillRequest, PinnedText
from inference.models import catalogue, devices, packed, registry
from inference.models.diffusion_gemma import weights
from inference.models.diffusion_gemma.encoded_prefix import EncodedPrefix, new_prefix_cache
from inference.models.diffusion_gemma.network import DiffusionGemmaNetwork
from inference.models.family import ModelError
from inference.models.packed import PackedLinear, PackedWeight
from inference.models.tensor_readers import QuantisedCacheReader
from tests.full_shape import made_up
from tests.full_shape.made_up import TWIN
from tests.inference.models.random_model import save_random_checkpoint
from tests.inference.models.test_checkpoint import rewrite
from tests.inference.models.test_diffusion_gguf import write_diffusion_gguf

CPU = torch.device("cpu")
CODE = "import os\n\n\ndef size(path):\n    if not os.path.exists(path):\n        return 0\n    return os.stat(path)\n"


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path / "cache"


@pytest.fixture
def copied(random_folder: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(random_folder, tmp_path / "copied"))


def rows(network: DiffusionGemmaNetwork, ids: Sequence[int] = range(7, 47)) -> torch.Tensor:
    prefix = EncodedPrefix(network, new_prefix_cache(network, 1 << 30), ids)
    for _ in prefix.prefill():
        pass
    canvas = torch.tensor([ids[-8:]])
    soft = network.certain_embeddings(canvas.flip(1))
    return network.logits(network.decode(canvas, soft, prefix.view())[0])


def loaded(folder: Path, dtype: str) -> Any:
    found = registry.open_checkpoint(str(folder))
    return weights.load_model(found, weights.open_weights(found, dtype), CPU, dtype, lambda _fraction, _what: None)


def stock(folder: Path) -> Any:
    """As transformers reads it."""
    from transformers import DiffusionGemmaForBlockDiffusion

    return DiffusionGemmaForBlockDiffusion.from_pretrained(folder, dtype=torch.bfloat16, attn_implementation="sdpa")


def unpacked(model: Any) -> Any:
    """The same weights in plain numbers."""
    for stack in (model.model.decoder, model.model.encoder.language_model):
        for path, module in list(stack.named_modules()):
            for name, weight in [item for item in vars(module).items() if isinstance(item[1], PackedWeight)]:
                plain = torch.nn.Parameter(weight.weights(model.lm_head.weight.dtype), requires_grad=False)
                if isinstance(module, PackedLinear):
                    layer = torch.nn.Linear(*weight.shape[::-1], bias=False, device="meta")
                    layer.weight = plain
                    stack.set_submodule(path, layer)
                else:
                    delattr(module, name)
                    setattr(module, name, plain)
                    vars(module).pop("forward", None)
    model.set_experts_implementation("grouped_mm")
    return model


@pytest.mark.parametrize(
    ("kind", "dtype"),
    [("BF16", "4bit"), ("Q8_0", "8bit"), ("Q5_0", "5bit"), ("Q4_1", "4bit"), ("safetensors", "4bit")],
)
def test_it_writes_what_its_unpacked_weights_write(kind: str, dtype: str, tmp_path: Path) -> None:
    """A quantised file's own bits are what the file holds in bfloat16."""
    place = tmp_path
    save_random_checkpoint(place)
    if kind != "safetensors":
        place = tmp_path / f"{kind}.gguf"
        write_diffusion_gguf(tmp_path, place, kind)
    models = [registry.load_model(str(place), device="cpu", dtype=each) for each in (dtype, dtype, "bfloat16")]
    assert [model.dtype for model in models] == [dtype, dtype, "bfloat16"]
    assert weights.candidate_dtypes(torch.device("cuda"), None, dtype) == [dtype]
    unpacked(models[1].network.model)
    request = InfillRequest("1", (PinnedText("def f(x):\n    return "), Hole(), PinnedText("\n")), seed=1)
    found = [
        [(event.pieces, event.confidences) for event in Engine(model).infill(request) if isinstance(event, FilledHoles)]
        for model in models
    ]
    logits = [rows(model.network) for model in models]
    assert found[0] == found[1] != []
    assert torch.equal(logits[0], logits[1])
    assert torch.equal(logits[0], logits[2]) == (kind not in ("BF16", "safetensors"))


def test_a_layer_unpacked_at_once_gives_the_same() -> None:
    """As on CUDA. Some experts have no rows, or one has all."""
    torch.manual_seed(0)
    matrices = packed.quantise(torch.randn(4 * 24, 64), 5).with_rows(lambda part: part.view(4, 24, -1))
    for ends in ([0, 3, 3, 10], [0, 0, 10, 10]):
        rows = torch.randn(10, 64, dtype=torch.bfloat16), matrices, torch.tensor(ends)
        assert torch.equal(packed.product_of_all_experts(*rows), packed.product_by_expert(*rows))


def test_unpacked_it_reads_as_in_transformers(random_folder: Path) -> None:
    assert torch.equal(
        *(rows(DiffusionGemmaNetwork(one)) for one in (loaded(random_folder, "bfloat16"), stock(random_folder)))
    )


def test_a_vision_tower_takes_no_memory(random_folder: Path, copied: Path) -> None:
    rewrite(copied, vision_config={"model_type": "gemma4_vision", "hidden_size": 10**5, "num_hidden_layers": 10**6})
    assert torch.equal(*(rows(DiffusionGemmaNetwork(loaded(one, "bfloat16"))) for one in (copied, random_folder)))


def test_trained_predictions_are_close_to_bfloat16() -> None:
    ids = registry.open_checkpoint(str(TWIN)).tokenizer().encode(CODE).ids
    half, packed = (rows(DiffusionGemmaNetwork(loaded(TWIN, dtype)), ids) for dtype in ("bfloat16", "4bit"))
    assert torch.cosine_similarity(half, packed, dim=-1).mean() >= 0.995
    assert not torch.equal(half, packed)


def test_file_with_encoder_names_is_read_alike(random_folder: Path, copied: Path) -> None:
    file, renamed = copied / "model.safetensors", {}
    for name, tensor in load_file(file).items():
        encoder = name.replace("model.decoder.", "model.encoder.language_model.")
        own = "self_conditioning" in name or name.endswith("layer_scalar")
        renamed[name if own else encoder] = tensor
    save_file(renamed, file, {"format": "pt"})
    assert torch.equal(
        rows(DiffusionGemmaNetwork(loaded(copied, "4bit"))), rows(DiffusionGemmaNetwork(loaded(random_folder, "4bit")))
    )


@pytest.mark.parametrize(
    ("name", "drop"), [("layers.1.experts.down_proj", False), ("layers.0.layer_scalar", True), ("norm.weight", False)]
)
def test_a_missing_or_misshapen_weight_is_named(copied: Path, name: str, drop: bool) -> None:
    file = copied / "model.safetensors"
    tensors = load_file(file)
    tensor = tensors.pop(f"model.decoder.{name}")
    tensors |= {} if drop else {f"model.decoder.{name}": tensor[:-1].clone()}
    save_file(tensors, file, {"format": "pt"})
    with pytest.raises(ModelError, match=f"{name} is (missing|of shape).*download the checkpoint again"):
        registry.load_model(str(copied), device="cpu", dtype="4bit")


LIMITED = """
import resource, signal, sys
from inference.models import registry
signal.signal(signal.SIGXFSZ, getattr(signal, sys.argv[2]))
resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
resource.setrlimit(resource.RLIMIT_FSIZE, (10_000, 10_000))
print(registry.load_model(sys.argv[1], device="cpu", dtype="4bit").note)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="other systems have other limits and another place of the cache")
def test_what_the_first_load_quantised_later_ones_read(copied: Path, cache: Path) -> None:
    """Also after one that was killed while it wrote or could not write, and after damage. Other weights it reads."""

    def found() -> tuple[list[float], dict[Path, str]]:
        logits = rows(DiffusionGemmaNetwork(loaded(copied, "4bit"))).flatten().tolist()
        return logits, {file: str(load_file(file)) for file in cache.rglob("*.*")}

    expected = found()
    cut, changed, *others = expected[1]
    for signals, returned, parts in (("SIG_DFL", -25, 1), ("SIG_IGN", 0, 0)):
        shutil.rmtree(cache)
        command = [sys.executable, "-B", "-c", LIMITED, str(copied), signals]  # bytecode would be cut off
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        assert (done.returncode, "each start quantises its weights" in done.stdout) == (returned, not parts)
        assert len([*cache.rglob("*.part")]) == parts < len([*cache.rglob("*.safetensors")]) < len(others)
        assert found() == expected
    cut.write_bytes(cut.read_bytes()[:-1])
    changed.write_bytes(changed.read_bytes()[:-1] + bytes([changed.read_bytes()[-1] ^ 1]))
    assert found() == expected
    times = (file := copied / "model.safetensors").stat()
    kept = {file.name.rsplit(".", 2)[0] for file in expected[1]}
    save_file({name: tensor * (name not in kept) for name, tensor in load_file(file).items()}, file, {"format": "pt"})
    os.utime(file, ns=(times.st_atime_ns, times.st_mtime_ns))
    assert found() == expected, "an original was read"
    os.utime(file)
    assert found() != expected
    too_large = QuantisedCacheReader(registry.open_checkpoint(str(copied)), 1e18)
    too_large.read_quantised("model.decoder.layers.0.experts.down_proj", (4, 64, 32), 8)
    assert "1000000000.0 GB do not fit" in too_large.note
    file.unlink()
    with pytest.raises(ModelError, match="cannot be loaded: .*No such file"):
        too_large.read_quantised("model.decoder.layers.0.experts.down_proj", (4, 64, 32), 8)


LAYERS = 4
EXPERTS_BYTES = 64 * 3 * 512 * 256 * 2
"""What the experts of one layer take in bfloat16: 50 MB."""
PEAK = """
import json, sys
import psutil
from tests.full_shape.dry_run import peak_bytes
from tests.inference.models.test_four_bit import Path, loaded, packed

loaded(Path(sys.argv[1]), "4bit")  # what torch and the libraries take is there now
Path("/proc/self/clear_refs").write_text("5")
before = psutil.Process().memory_info().rss
model = loaded(Path(sys.argv[2]), "4bit")
result = sum(packed.weight_bytes_by_name(model.model.decoder).values())
print(json.dumps({"result": result, "peak": peak_bytes(psutil.Process()) - before}))
"""


@pytest.mark.skipif(not Path("/proc/self/clear_refs").exists(), reason="only Linux tells a process its peak memory")
def test_loading_takes_little_more_than_the_result(random_folder: Path, tmp_path: Path) -> None:
    made_up.write(tmp_path, LAYERS, dense=False, **made_up.SMALL)
    command = [sys.executable, "-c", PEAK, str(random_folder), str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    found = json.loads(done.stdout.splitlines()[-1])
    assert found["result"] < LAYERS * EXPERTS_BYTES / 2, "it is not kept in 4 bits"
    assert found["peak"] <= found["result"] + 2 * EXPERTS_BYTES, found  # a layer at a time, and what malloc keeps


def test_four_bits_are_chosen_where_nothing_else_fits(random_folder: Path) -> None:
    found = registry.open_checkpoint(str(random_folder))
    sizes = {name: weights.weight_bytes(found, name) for name in ("float32", "bfloat16", "4bit")}
    needed = {name: devices.needed_bytes(size) for name, size in sizes.items()}
    assert needed["4bit"] < needed["bfloat16"] < needed["float32"]
    for name, free_bytes in needed.items():
        assert weights.choose_dtype(found, CPU, None, free_bytes) == name
    with pytest.raises(ModelError, match=r"needs .* in float32 or .* in bfloat16 or .* in 4bit, but cpu has .* free"):
        weights.choose_dtype(found, CPU, None, needed["4bit"] - 1)
    with pytest.raises(ModelError, match="in bfloat16, but cpu has"):
        weights.choose_dtype(found, CPU, "bfloat16", needed["4bit"])


def test_experts_of_an_odd_size_are_refused_in_4_bits(tmp_path: Path) -> None:
    made_up.write(tmp_path, 2, dense=False, **made_up.SMALL | {"hidden_size": 36, "moe_intermediate_size": 5})
    found = registry.open_checkpoint(str(tmp_path))
    assert weights.choose_dtype(found, CPU, "bfloat16", 1 << 40) == "bfloat16"
    with pytest.raises(ModelError, match="dtype '4bit' packs groups of 32 weights, and a row of .* has (36|5);"):
        weights.choose_dtype(found, CPU, "4bit", 1 << 40)


def test_the_weights_take_what_was_reckoned(random_folder: Path) -> None:
    taken = sum(packed.weight_bytes_by_name(loaded(random_folder, "4bit").model.decoder).values())
    assert weights.weight_bytes(registry.open_checkpoint(str(random_folder)), "4bit") == pytest.approx(taken, rel=1e-3)


def test_the_catalogue_says_what_the_released_shape_takes(tmp_path: Path) -> None:
    made_up.write(tmp_path, 30, dense=False)
    found = registry.open_checkpoint(str(tmp_path))
    for dtype in ("float32", "bfloat16", "4bit"):
        said = catalogue.entry_named("diffusiongemma-26b").weight_bytes(dtype)
        assert said == pytest.approx(weights.weight_bytes(found, dtype), rel=0.02), dtype
    assert sum(file.stat().st_blocks * 512 for file in tmp_path.iterdir()) < 200e6, "the files are not sparse"
