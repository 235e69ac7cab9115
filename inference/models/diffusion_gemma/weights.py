"""Reads the weights of a checked checkpoint into transformers' own class, one tensor at a time.

In a few bits all matrices but the router's and the embedding stay packed, a GGUF file's in its own codes. The vision
tower is left out, and the encoder's layers use the decoder's modules.
"""

from functools import partial
from math import prod
from typing import Any

import torch
from torch import nn

from inference.models import checkpoint_files, devices, packed
from inference.models.checkpoint import Checkpoint
from inference.models.devices import DTYPES, FOUR_BIT
from inference.models.diffusion_gemma.config import TINY_VISION
from inference.models.family import ModelError, OnProgress
from inference.models.packed import PackedLinear
from inference.models.tensor_readers import QuantisedCacheReader, TensorReader, open_tensors

_OTHER_BITS = 8
"""The codes of weights outside the experts have at least this many bits, unless the file has fewer."""
DECODER = "model.decoder."
ENCODER = "model.encoder.language_model."
_EXPERTS = ("gate_up_proj", "down_proj")
UNUSED_WEIGHTS = ("vision", "lm_head")
"""Name parts of weights that take no memory: not loaded, or a second reference to the embedding."""
_NEVER_PACKED = ("router", "embed_tokens")
_LOADED_AT = 0.2
_LAYERS_DONE_AT = 0.85


def candidate_dtypes(device: torch.device, named: str | None, own: str = "") -> list[str]:
    """Only the requested dtype, or all that this device allows, best first. `own`: `packed_dtype` of the weights.

    Raises ModelError.
    """
    on_cuda = [own] if own else ["bfloat16", FOUR_BIT]
    packs = {"cpu": ["float32", "bfloat16", own or FOUR_BIT], "cuda": on_cuda}
    usual = packs.get(device.type, ["bfloat16"])
    others = (name for name in DTYPES if device.type in packs or not name.endswith("bit"))
    return devices.allowed_dtypes(device.type, named, usual, others)


def choose_dtype(checkpoint: Checkpoint, device: torch.device, requested: str | None, free_bytes: int) -> str:
    """The requested dtype, or the best that fits into this much free memory. Raises ModelError if none does."""
    candidates = candidate_dtypes(device, requested, open_tensors(checkpoint).packed_dtype)
    return devices.choose_fitting_dtype(
        checkpoint.name, device, free_bytes, candidates, partial(weight_bytes, checkpoint)
    )


def weight_bytes(checkpoint: Checkpoint, dtype: str) -> float:
    """The memory of the weights. Raises ModelError if a file is unreadable, or they do not fit the dtype."""
    tensors = open_tensors(checkpoint)
    used = {name: shape for name, shape in tensors.shapes.items() if not any(part in name for part in UNUSED_WEIGHTS)}
    if not dtype.endswith("bit"):
        return float(sum(prod(shape) for shape in used.values()) * DTYPES[dtype].itemsize)
    return sum(packed.needed_bytes(shape, _code_bits(tensors, name, dtype)) for name, shape in used.items())


def _code_bits(tensors: TensorReader, name: str, dtype: str) -> int:
    """See `TensorReader.code_bits`. Raises ModelError."""
    if any(part in name for part in _NEVER_PACKED):
        return 0
    return tensors.code_bits(name, dtype, 0 if ".experts." in name else _OTHER_BITS)


def open_weights(checkpoint: Checkpoint, dtype: str) -> TensorReader:
    """The tensors of a checkpoint, those of safetensors in a few bits from a cache. Raises ModelError."""
    if checkpoint.gguf or not dtype.endswith("bit"):
        return open_tensors(checkpoint)
    return QuantisedCacheReader(checkpoint, weight_bytes(checkpoint, dtype))


def load_model(
    checkpoint: Checkpoint, tensors: TensorReader, device: torch.device, dtype: str, progress: OnProgress
) -> Any:
    """The `DiffusionGemmaForBlockDiffusion` of a checkpoint, on its device and in a dtype that fits there.

    Raises ModelError if its weights differ from the checkpoint's description.
    """
    progress(0.15, "loading the model library")
    from transformers import DiffusionGemmaConfig

    try:
        model = empty_model(DiffusionGemmaConfig.from_dict({**checkpoint.config, "vision_config": TINY_VISION}))
    except Exception as error:  # a broken config.json raises anything, and must not end the worker
        reason = checkpoint_files.first_error_line(error)
        raise ModelError(f"{checkpoint.config_file} describes no model that can be built: {reason}") from error
    if not model.config.tie_word_embeddings:
        raise ModelError(f"{checkpoint.name}: its encoder and decoder share no weights, which is not supported")
    return load_by_layers(model, tensors, device, dtype, progress).eval()


def load_by_layers(
    model: Any, shards: TensorReader, device: torch.device, dtype_name: str, progress: OnProgress
) -> Any:
    """Gives a model of `empty_model` its weights. Raises ModelError."""
    dtype = DTYPES.get(dtype_name, torch.bfloat16)
    encoder = model.model.encoder.language_model
    decoder = model.model.decoder
    count = len(decoder.layers)
    for layer_index, layer in enumerate(decoder.layers):
        share = _LOADED_AT + (_LAYERS_DONE_AT - _LOADED_AT) * layer_index / count
        progress(share, f"layer {layer_index + 1} of {count}")
        _load(layer, f"layers.{layer_index}.", shards, device, dtype_name)
        _share(encoder.layers[layer_index], layer)
        scalar = f"model.encoder.language_model.layers.{layer_index}.layer_scalar"
        encoder.layers[layer_index].layer_scalar = shards.tensor(scalar, (1,), device, dtype)
    decoder.layers, layers = nn.ModuleList(), decoder.layers
    _load(decoder, "", shards, device, dtype_name)
    decoder.layers = layers
    encoder.embed_tokens = decoder.embed_tokens
    encoder.norm = decoder.norm
    model.lm_head.weight = decoder.embed_tokens.weight
    for stack in (encoder, decoder):
        stack.rotary_emb = type(stack.rotary_emb)(model.config.text_config).to(device)
    model.set_experts_implementation("grouped_mm")
    return model


def empty_model(config: Any) -> Any:
    """The model's modules with no memory for their weights."""
    from transformers import DiffusionGemmaForBlockDiffusion

    config._attn_implementation = "sdpa"
    with torch.device("meta"):
        model: Any = DiffusionGemmaForBlockDiffusion(config)
    model.model.encoder.vision_tower = model.model.encoder.embed_vision = None
    return model.requires_grad_(False)


def _share(encoder_layer: Any, layer: Any) -> None:
    """Makes an encoder's layer of the modules of the decoder's; the attention itself differs, its products do not."""
    for name, part in layer.named_children():
        if name != "self_attn":
            setattr(encoder_layer, name, part)
    for name, part in layer.self_attn.named_children():
        setattr(encoder_layer.self_attn, name, part)


def _load(module: nn.Module, prefix: str, shards: TensorReader, device: torch.device, dtype_name: str) -> None:
    """Gives every weight below a module of the decoder its memory and its values."""
    dtype = DTYPES.get(dtype_name, torch.bfloat16)
    for path, owner in list(module.named_modules()):
        below = f"{prefix}{path}." if path else prefix
        for name, parameter in list(owner.named_parameters(recurse=False)):
            full, same = (stack + below + name for stack in (DECODER, ENCODER))  # a file may name either
            full = same if same in shards.shapes and full not in shards.shapes else full
            shards.require_tensor(full, parameter.shape)
            if bits := _code_bits(shards, full, dtype_name):
                matrices = shards.read_quantised(full, parameter.shape, bits, device)
                if isinstance(owner, nn.Linear):
                    module.set_submodule(path, PackedLinear(matrices, dtype))
                else:
                    delattr(owner, name)
                    setattr(owner, name, matrices)
                    packed.set_experts_product(owner, packed.grouped_experts)
            else:
                value = shards.tensor(full, parameter.shape, device, dtype)
                setattr(owner, name, nn.Parameter(value, requires_grad=False))
        if len({type(getattr(owner, name)) for name in _EXPERTS if hasattr(owner, name)}) > 1:
            raise ModelError(
                f"{shards.name}: only one of {' and '.join(_EXPERTS)} in {below} is quantised, which is not supported; "
                "download another GGUF of the model, such as its Q4_K_M"
            )
        for name, buffer in list(owner.named_buffers(recurse=False)):
            if name == "embed_scale":
                setattr(owner, name, torch.tensor(owner.scalar_embed_scale, device=device))
            elif name == "layer_scalar":
                setattr(owner, name, shards.tensor(f"model.decoder.{below}{name}", buffer.shape, device, dtype))
