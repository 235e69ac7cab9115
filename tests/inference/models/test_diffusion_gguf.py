"""DiffusionGemma in a GGUF file: the same weights, settings and tokens as the checkpoint that it was made from."""

import json
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import gguf
import numpy as np
import pytest
import torch
from safetensors import safe_open
from safetensors.torch import load_file, save_file

from inference.engine.engine import Engine
from inference.messages import FilledHoles, Hole, InfillRequest, PinnedText
from inference.models import discovery, registry
from inference.models.checkpoint_files import stored_tensors
from inference.models.family import ModelError
from inference.models.gguf import header
from inference.models.gguf.architectures import hub_tensors
from inference.models.gguf.tokenizer import read_tokenizer
from tests.inference.models.random_model import WINDOW
from tests.served.to_gguf import finish

ARCHITECTURE = "diffusion-gemma"
_PARTS = {
    "input_layernorm": "attn_norm",
    "post_attention_layernorm": "post_attention_norm",
    "pre_feedforward_layernorm": "ffn_norm",
    "post_feedforward_layernorm": "post_ffw_norm",
    "post_feedforward_layernorm_1": "post_ffw_norm_1",
    "pre_feedforward_layernorm_2": "pre_ffw_norm_2",
    "post_feedforward_layernorm_2": "post_ffw_norm_2",
    "self_attn.o_proj": "attn_output",
    "router.proj": "ffn_gate_inp",
    **{f"self_attn.{part}_proj": f"attn_{part}" for part in "qkv"},
    **{f"self_attn.{part}_norm": f"attn_{part}_norm" for part in "qk"},
    **{f"mlp.{part}_proj": f"ffn_{part}" for part in ("gate", "up", "down")},
}
_WHOLE = {
    "router.scale": "ffn_gate_inp.scale",
    "router.per_expert_scale": "ffn_down_exps.scale",
    "experts.gate_up_proj": "ffn_gate_up_exps.weight",
    "experts.down_proj": "ffn_down_exps.weight",
    "layer_scalar": "layer_output_scale.weight",
}


def ggml_name(name: str) -> str:
    """ggml's name of one of transformers' weights; "" if a file has no such weight."""
    name = name.removeprefix("model.")
    if name.startswith("encoder."):
        return f"blk.{name.split('.')[3]}.enc_layer_output_scale.weight" if name.endswith("layer_scalar") else ""
    if name.startswith("decoder.self_conditioning."):
        return f"self_cond_{name.split('.')[2].removesuffix('_proj')}.weight"
    if name.startswith("decoder.layers."):
        _, _, layer, part = name.split(".", 3)
        return f"blk.{layer}." + (_WHOLE.get(part) or f"{_PARTS[part.removesuffix('.weight')]}.weight")
    plain = {"decoder.embed_tokens.weight": "token_embd.weight", "decoder.norm.weight": "output_norm.weight"}
    return plain.get(name, "")


def write_diffusion_gguf(
    folder: Path, file: Path, kind: str, rename: Callable[[str], str] = str, *, part_tensors: int = 0
) -> None:
    """The checkpoint in a folder as a file whose matrices are of type `kind`, or as parts of so many tensors. `rename`
    "" leaves a tensor out.
    """
    config = json.loads((folder / "config.json").read_text())
    text = config["text_config"]
    is_sliding = [each == "sliding_attention" for each in text["layer_types"]]
    of_layers = {int(layer): fields for layer, fields in text.get("per_layer_config", {}).items()}  # "05" of ten
    full = text | of_layers.get(is_sliding.index(False), {})
    writer = gguf.GGUFWriter(file, ARCHITECTURE, split_max_tensors=part_tensors, use_temp_file=not part_tensors)
    keys = {
        "block_count": text["num_hidden_layers"],
        "context_length": text["max_position_embeddings"],
        "embedding_length": text["hidden_size"],
        "feed_forward_length": text["intermediate_size"],
        "attention.head_count": text["num_attention_heads"],
        "attention.head_count_kv": [
            text["num_key_value_heads"] if each else full["num_key_value_heads"] for each in is_sliding
        ],
        "attention.key_length": full["head_dim"],
        "attention.key_length_swa": text["head_dim"],
        "attention.sliding_window": text["sliding_window"],
        "attention.sliding_window_pattern": is_sliding,
        "attention.layer_norm_rms_epsilon": text["rms_norm_eps"],
        "expert_count": text["num_experts"],
        "expert_used_count": text["top_k_experts"],
        "expert_feed_forward_length": text["moe_intermediate_size"],
        "rope.freq_base": 1e6,
        "rope.freq_base_swa": 1e4,
        "final_logit_softcapping": 30.0,
    }
    stated: Mapping[str, Any] = {f"{ARCHITECTURE}.{key}": value for key, value in keys.items()}
    sampler = {"canvas_length": config["canvas_length"], "eb_max_steps": 12, "eb_entropy_bound": 0.25, "eb_t_min": 0.5}
    for key, value in (stated | {f"diffusion.{key}": value for key, value in sampler.items()}).items():
        add = {list: writer.add_array, float: writer.add_float32}.get(type(value), writer.add_uint32)
        add(key, value)
    vocabulary = json.loads((folder / "tokenizer.json").read_text())
    tokens = sorted(vocabulary["model"]["vocab"], key=vocabulary["model"]["vocab"].__getitem__)
    special = {one["content"] for one in vocabulary["added_tokens"]}
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre("gpt-2")
    writer.add_token_list(tokens)
    writer.add_token_types([gguf.TokenType.CONTROL if token in special else gguf.TokenType.NORMAL for token in tokens])
    writer.add_bos_token_id(tokens.index("<bos>"))
    writer.add_eos_token_id(tokens.index("<eos>"))
    writer.add_tensor("rope_freqs.weight", np.array([1.0] * 4 + [1e30] * 12, np.float32))
    for name, stored in stored_tensors(folder).items():
        if ggml := rename(ggml_name(name)):
            with safe_open(stored.file, "pt") as opened:
                values = opened.get_tensor(name).float().numpy()
            is_plain = values.ndim == 1 or "router" in name
            stored_as = gguf.GGMLQuantizationType["F32" if is_plain else kind]
            writer.add_tensor(ggml, gguf.quants.quantize(values, stored_as), raw_dtype=stored_as)
    finish(writer)


def with_weights_of(file: Path, folder: Path, to: Path) -> Path:
    """The checkpoint of `folder` with the weights that a file holds."""
    to.mkdir()
    for name in ("config.json", "tokenizer.json"):
        (to / name).write_bytes((folder / name).read_bytes())
    plain = load_file(folder / "model.safetensors")
    by_name = {tensor.name: tensor for tensor in gguf.GGUFReader(file).tensors}
    for name, weight in plain.items():
        if tensor := by_name.get(ggml_name(name)):
            values = gguf.quants.dequantize(tensor.data, tensor.tensor_type)
            plain[name] = torch.from_numpy(np.array(values)).reshape(weight.shape)
    save_file(plain, to / "model.safetensors", metadata={"format": "pt"})
    return to


def test_it_is_the_checkpoint_that_it_was_made_from(random_folder: Path, tmp_path: Path) -> None:
    """In each type the same tokens as those of the plain weights that the file holds."""
    request = InfillRequest("1", (PinnedText("def f(x):\n    return "), Hole(), PinnedText("\n")), seed=1)
    for kind in ("F32", "BF16", "Q8_0", "Q5_0", "Q4_0"):
        file = tmp_path / f"{kind}.gguf"
        write_diffusion_gguf(random_folder, file, kind)
        places = file, with_weights_of(file, random_folder, tmp_path / kind)
        models = [registry.load_model(str(place), device="cpu", dtype="float32") for place in places]
        stored, plain = (dict(model.network.model.named_parameters()) for model in models)
        assert stored.keys() == plain.keys()
        assert all(torch.equal(stored[name], plain[name]) for name in plain), kind
        sampler = models[0].infill_config.sampler
        assert (sampler.max_steps, sampler.entropy_bound, sampler.t_min) == (12, 0.25, 0.5)
        assert models[0].network.window == WINDOW
        models[1].infill_config = models[0].infill_config
        filled, expected = (
            [
                (event.pieces, event.confidences)
                for event in Engine(model).infill(request)
                if isinstance(event, FilledHoles)
            ]
            for model in models
        )
        assert filled == expected != [], kind


def test_older_names_are_known_and_what_is_missing_is_said(random_folder: Path, tmp_path: Path) -> None:
    file = tmp_path / "old.gguf"
    write_diffusion_gguf(
        random_folder, file, "F32", lambda name: name.replace("enc_layer_output_scale", "enc_layer_out_scale")
    )
    assert "model.encoder.language_model.layers.3.layer_scalar" in hub_tensors(header.read_header(file))
    registry.load_model(str(file), device="cpu", dtype="float32")
    swapped = {"gate_up_exps": "down_exps", "down_exps": "gate_up_exps"}
    wrong: dict[str, Callable[[str], str]] = {
        "left out its self-conditioning": lambda name: "" if "self_cond_up" in name else name,
        "experts.down_proj is missing": lambda name: "" if "ffn_down_exps.w" in name else name,
        "of shape": lambda name: re.sub(r"(gate_up|down)_exps(?=\.w)", lambda found: swapped[found[0]], name),
    }
    for words, rename in wrong.items():
        write_diffusion_gguf(random_folder, file, "F32", rename)
        with pytest.raises(ModelError, match=words):
            registry.load_model(str(file), device="cpu", dtype="float32")


def test_parts_are_read_together(random_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The first part stands for all, also where other programs keep models."""
    whole = tmp_path / "whole.gguf"
    write_diffusion_gguf(random_folder, whole, "Q8_0")
    studio = tmp_path / "home" / ".lmstudio" / "models" / "a" / "b"
    studio.mkdir(parents=True)
    num_tensors = len(gguf.GGUFReader(whole).tensors)
    write_diffusion_gguf(random_folder, studio / "m.gguf", "Q8_0", part_tensors=num_tensors // 2 + 1)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    (found,) = [one for one in discovery.discover_foreign_models() if one.program == "LM Studio"]
    models = [registry.load_model(str(place), device="cpu", dtype="float32") for place in (found.path, studio, whole)]
    assert found.problem == ""
    first, *others = (dict(model.network.model.named_parameters()) for model in models)
    assert all(torch.equal(first[name], other[name]) for other in others for name in first)
    second = studio / "m-00002-of-00002.gguf"
    with pytest.raises(ModelError, match=r"give the first, NAME-00001-of-00002\.gguf"):
        registry.open_checkpoint(str(second))
    second.unlink()
    with pytest.raises(ModelError, match="m-00002-of-00002.gguf cannot be read"):
        registry.open_checkpoint(str(found.path))


def test_gemmas_tokens_are_joined_by_its_merges(tmp_path: Path) -> None:
    """Its control tokens are no text, although older files say that they are."""
    pieces = ["a", "b", "▁", "\n", "ab", "▁ab", "\n\n", "<turn|>", "<|turn>", "<bos>", "<unk>"]
    tokens = [*pieces, *(f"<0x{byte:02X}>" for byte in range(256))]
    writer = gguf.GGUFWriter(tmp_path / "t.gguf", ARCHITECTURE)
    writer.add_tokenizer_model("gemma4")
    writer.add_token_list(tokens)
    writer.add_token_types(
        [{"<bos>": 3, "<unk>": 2}.get(token, 6 if token.startswith("<0x") else 1) for token in tokens]
    )
    writer.add_token_merges(["a b", "▁ ab", "\n \n"])
    writer.add_bos_token_id(tokens.index("<bos>"))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.close()
    tokenizer = read_tokenizer(header.read_header(tmp_path / "t.gguf"))
    assert tokenizer.encode("ab ab\n\né<turn|>").tokens == [
        "<bos>", "ab", "▁ab", "\n\n", "<0xC3>", "<0xA9>", "<turn|>",
    ]  # fmt: skip
    assert tokenizer.decode(tokenizer.encode(" ab \n").ids) == " ab \n"
    tokenizer.encode_special_tokens = True
    assert tokenizer.token_to_id("<turn|>") not in tokenizer.encode("a<turn|>").ids
