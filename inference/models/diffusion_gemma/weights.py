"""Reads the weights of a checked checkpoint into transformers' own class.

In 4 bits layer by layer: at most one layer is ever in memory whole. The experts, 9 in 10 weights of the released
checkpoint, are bitsandbytes' NF4, unpacked only for the current layer. The vision tower is left out, and the encoder's
layers use the decoder's modules.
"""

from collections.abc import Iterable, Sequence
from math import prod
from typing import Any

import torch
from torch import Tensor, nn

from inference.models import checkpoint_files, devices
from inference.models.checkpoint import Checkpoint
from inference.models.devices import FOUR_BIT, PRECISIONS, Precision, quantiser
from inference.models.family import ModelError, OnProgress
from inference.models.shards import Shards

_BLOCK = 64
_SCALE_BLOCK = 256
_BYTES_PER_EXPERT_WEIGHT = 0.5 + 1 / _BLOCK
_OTHER_BYTES_PER_WEIGHT = 2
_DECODER = "model.decoder."
_ENCODER = "model.encoder.language_model."
_EXPERTS = ("gate_up_proj", "down_proj")
_UNUSED = ("vision", "lm_head")
"""Name parts of weights that take no memory: not loaded, or a second reference to the embedding."""
_LOADED_AT = 0.2
_LAYERS_DONE_AT = 0.85
_MISSING_PARAMETERS = 1 << 26
"""A small checkpoint may lack this many, 256 MB of them."""


def choose_precision(checkpoint: Checkpoint, device: torch.device, wanted: str | None, free_bytes: int) -> Precision:
    """The requested precision, or the best that fits into this much free memory. Raises ModelError if none does."""
    if wanted == devices.EIGHT_BIT:
        raise ModelError(f"{checkpoint.name}: dtype '8bit' is not for this kind of model; choose 4bit or bfloat16")
    candidates = devices.precisions(wanted, device)
    return devices.fitting(checkpoint.name, device, free_bytes, candidates, lambda one: weight_bytes(checkpoint, one))


def weight_bytes(checkpoint: Checkpoint, precision: Precision) -> float:
    """The memory of the weights. Raises ModelError if that depends on a file that cannot be read."""
    if precision.name == FOUR_BIT:
        return _four_bit_bytes(Shards(checkpoint))
    stored = checkpoint.config.get("dtype") or checkpoint.config.get("torch_dtype") or "bfloat16"
    stored_dtype = PRECISIONS[stored].dtype if stored in PRECISIONS else torch.bfloat16
    return checkpoint.weight_bytes * precision.dtype.itemsize / stored_dtype.itemsize


def read(checkpoint: Checkpoint, device: torch.device, precision: Precision, progress: OnProgress) -> Any:
    """The `DiffusionGemmaForBlockDiffusion` of a checkpoint, on its device and in a precision that fits there.

    Raises ModelError if its weights differ from the checkpoint's description.
    """
    progress(0.15, "loading the model library")
    from transformers import DiffusionGemmaForBlockDiffusion
    from transformers.utils import logging

    logging.disable_progress_bar()  # type: ignore[no-untyped-call]
    if precision.name == FOUR_BIT:
        return _read_four_bit(Shards(checkpoint), device, precision.dtype, progress).eval()
    progress(0.35, "checking sizes")
    _check_sizes(DiffusionGemmaForBlockDiffusion, checkpoint)
    progress(0.4, "loading weights")
    return _read(DiffusionGemmaForBlockDiffusion, checkpoint, device, precision.dtype).eval()


def _check_sizes(architecture: Any, checkpoint: Checkpoint) -> None:
    """Raises ModelError if config.json describes a model far larger than its weights: allocating the missing ones would
    exhaust memory first. Some may be missing: the vision tower is not needed.
    """
    file = checkpoint.folder / "config.json"
    try:
        config = architecture.config_class.from_pretrained(checkpoint.folder, local_files_only=True)
        with torch.device("meta"):  # shapes without memory
            model = architecture(config)
    except Exception as error:  # a broken file raises anything, and must not end the worker
        raise ModelError(
            f"{file} describes no model that can be built: {checkpoint_files.first_line(error)}"
        ) from error
    described = sum(parameter.numel() for parameter in model.parameters())
    stored = sum(prod(tensor.shape) for tensor in checkpoint_files.stored_tensors(checkpoint.folder).values())
    if described > 2 * stored + _MISSING_PARAMETERS:
        raise ModelError(
            f"{file}: text_config and vision_config describe {described / 1e6:.0f} million parameters, but the weights "
            f"have {stored / 1e6:.0f} million; download the checkpoint again"
        )


def _read(architecture: Any, checkpoint: Checkpoint, device: torch.device, dtype: torch.dtype) -> Any:
    placement = {} if device.type == "cpu" else {"device_map": {"": str(device)}}
    try:
        model, info = architecture.from_pretrained(
            checkpoint.folder,
            dtype=dtype,
            local_files_only=True,
            use_safetensors=True,
            attn_implementation="sdpa",
            output_loading_info=True,
            **placement,
        )
    except Exception as error:  # a broken file raises anything, and must not end the worker
        raise ModelError(f"{checkpoint.name}: its weights cannot be loaded: {error}") from error
    missing = [name for name in info.get("missing_keys", ()) if "vision" not in name]
    wrong = list(info.get("mismatched_keys", ()))
    if missing or wrong:
        example = next(iter(missing or wrong))
        raise ModelError(
            f"{checkpoint.name}: {len(missing) + len(wrong)} weights are missing or of another shape "
            f"(such as {example}); download the checkpoint again"
        )
    return model


def _four_bit_bytes(shards: Shards) -> float:
    """The memory of the weights in 4 bits, including one unpacked layer."""
    experts = [name for name in shards.shapes if name.endswith(_EXPERTS) and ".experts." in name]
    others = [name for name in shards.shapes if name not in set(experts) and not any(part in name for part in _UNUSED)]
    packed = sum(prod(shards.shapes[name]) for name in experts) * _BYTES_PER_EXPERT_WEIGHT
    unpacked = sum(
        max((prod(shards.shapes[name]) for name in experts if name.endswith(one)), default=0) for one in _EXPERTS
    )
    return packed + _OTHER_BYTES_PER_WEIGHT * (unpacked + sum(prod(shards.shapes[name]) for name in others))


def _read_four_bit(shards: Shards, device: torch.device, dtype: torch.dtype, progress: OnProgress) -> Any:
    """The `DiffusionGemmaForBlockDiffusion` of these files, on its device. Raises ModelError."""
    from transformers import DiffusionGemmaConfig

    name = shards.checkpoint.name
    try:
        config: Any = DiffusionGemmaConfig.from_pretrained(shards.checkpoint.folder, local_files_only=True)
        model = without_weights(config)
    except Exception as error:  # a broken config.json raises anything, and must not end the worker
        raise ModelError(f"{name}: its config.json cannot be used: {error}") from error
    if not model.config.tie_word_embeddings:
        raise ModelError(f"{name}: its encoder and decoder share no weights, so it cannot run in 4 bits; give a dtype")
    return by_layers(model, shards, device, dtype, progress, packs=True)


def by_layers(
    model: Any, shards: Any, device: torch.device, dtype: torch.dtype, progress: OnProgress, *, packs: bool
) -> Any:
    """Gives a model of `without_weights` its weights. `shards`: `Shards`, or what has their shapes, tensors and pieces;
    `packs`: the experts in 4 bits.
    """
    encoder = model.model.encoder.language_model
    decoder = model.model.decoder
    count = len(decoder.layers)
    for number, layer in enumerate(decoder.layers):
        share = _LOADED_AT + (_LAYERS_DONE_AT - _LOADED_AT) * number / count
        progress(share, f"layer {number + 1} of {count}" + ", 4 bits" * packs)
        _load(layer, f"layers.{number}.", shards, device, dtype, packs)
        _share(encoder.layers[number], layer)
        scalar = f"model.encoder.language_model.layers.{number}.layer_scalar"
        encoder.layers[number].layer_scalar = shards.tensor(scalar, (1,), device, dtype)
    decoder.layers, layers = nn.ModuleList(), decoder.layers
    _load(decoder, "", shards, device, dtype, packs)
    decoder.layers = layers
    encoder.embed_tokens = decoder.embed_tokens
    encoder.norm = decoder.norm
    model.lm_head.weight = decoder.embed_tokens.weight
    for stack in (encoder, decoder):
        stack.rotary_emb = type(stack.rotary_emb)(model.config.text_config).to(device)
    model.set_experts_implementation("grouped_mm")
    return model


def without_weights(config: Any) -> Any:
    """The model's modules with no memory behind their weights."""
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


def _load(module: nn.Module, prefix: str, shards: Any, device: torch.device, dtype: torch.dtype, packs: bool) -> None:
    """Gives every weight below a module of the decoder its memory and its values."""
    for path, owner in list(module.named_modules()):
        below = f"{prefix}{path}." if path else prefix
        for name, parameter in list(owner.named_parameters(recurse=False)):
            full = _DECODER + below + name
            if full not in shards.shapes:  # the encoder's is the same one, and a file may name either
                full = _ENCODER + below + name
            if packs and name in _EXPERTS:  # read one by one; they are unpacked when the layer is run
                pieces = (piece.to(device, dtype) for piece in shards.pieces(full, parameter.shape))
                packed, state = quantised(pieces, parameter.shape, device, dtype)
                setattr(owner, name, nn.Parameter(packed, requires_grad=False))
                replace = quantiser().nn.parametrize.replace_parameter_4bit_prequantized
                replace(owner, name, state.as_dict(packed=True), device)
            else:
                value = shards.tensor(full, parameter.shape, device, dtype)
                setattr(owner, name, nn.Parameter(value, requires_grad=False))
        for name, buffer in list(owner.named_buffers(recurse=False)):
            if name == "embed_scale":
                setattr(owner, name, torch.tensor(owner.scalar_embed_scale, device=device))
            elif name == "layer_scalar":
                setattr(owner, name, shards.tensor(f"model.decoder.{below}{name}", buffer.shape, device, dtype))


def quantised(
    pieces: Iterable[Tensor], shape: Sequence[int], device: torch.device, dtype: torch.dtype
) -> tuple[Tensor, Any]:
    """(n / 2, 1) bytes and the `QuantState` of a tensor whose pieces come one after the other.

    Gives the result of `replace_parameter_4bit(compress_statistics=True)` on the whole tensor, which would take eight
    times the tensor's memory on a CPU. Joins pieces that are no whole number of blocks.
    """
    functional = quantiser().functional
    if prod(shape[1:]) % _BLOCK:
        return functional.quantize_4bit(  # type: ignore[no-any-return]
            torch.cat(list(pieces)), compress_statistics=True, quant_type="nf4", blocksize=_BLOCK
        )
    packed = torch.empty((prod(shape) // 2, 1), dtype=torch.uint8, device=device)
    scales = torch.empty(prod(shape) // _BLOCK, dtype=torch.float32, device=device)
    size = prod(shape[1:])
    for number, piece in enumerate(pieces):
        part, state = functional.quantize_4bit(piece, quant_type="nf4", blocksize=_BLOCK)
        packed[number * size // 2 : (number + 1) * size // 2] = part
        scales[number * size // _BLOCK : (number + 1) * size // _BLOCK] = state.absmax
    offset = scales.mean()
    short, nested = functional.quantize_blockwise(scales - offset, blocksize=_SCALE_BLOCK)
    whole = functional.QuantState(
        absmax=short,
        shape=torch.Size(shape),
        dtype=dtype,
        blocksize=_BLOCK,
        code=state.code,
        quant_type="nf4",
        offset=offset,
        state2=nested,
    )
    return packed, whole
