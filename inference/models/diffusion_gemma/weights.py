"""Reads the weights of a checked checkpoint into transformers' own class, one tensor at a time.

In 4 bits the experts, 9 in 10 weights of the released checkpoint, are bitsandbytes' NF4, unpacked only for the current
layer. The vision tower is left out, and the encoder's layers use the decoder's modules.
"""

from collections.abc import Iterable, Sequence
from functools import partial
from math import prod
from typing import Any

import torch
from torch import Tensor, nn

from inference.models import checkpoint_files, devices
from inference.models.checkpoint import Checkpoint
from inference.models.devices import DTYPES, FOUR_BIT, import_bitsandbytes
from inference.models.diffusion_gemma.config import NO_VISION
from inference.models.family import ModelError, OnProgress
from inference.models.tensor_readers import TensorReader, open_tensors

_BLOCK = 64
_SCALE_BLOCK = 256
_BYTES_PER_EXPERT_WEIGHT = 0.5 + 1 / _BLOCK
_OTHER_BYTES_PER_WEIGHT = 2
_DECODER = "model.decoder."
_ENCODER = "model.encoder.language_model."
_EXPERTS = ("gate_up_proj", "down_proj")
UNUSED = ("vision", "lm_head")
"""Name parts of weights that take no memory: not loaded, or a second reference to the embedding."""
_LOADED_AT = 0.2
_LAYERS_DONE_AT = 0.85


def choose_dtype(checkpoint: Checkpoint, device: torch.device, wanted: str | None, free_bytes: int) -> str:
    """The requested dtype, or the best that fits into this much free memory. Raises ModelError if none does."""
    if wanted == devices.EIGHT_BIT:
        raise ModelError(f"{checkpoint.name}: dtype '8bit' is not for this kind of model; choose 4bit or bfloat16")
    candidates = devices.candidate_dtypes(device, wanted)
    needs = partial(weight_bytes, checkpoint)
    dtype = devices.choose_fitting_dtype(checkpoint.name, device, free_bytes, candidates, needs)
    matrices = (shape[1:] for name, shape in checkpoint.shapes().items() if _is_experts(name))
    if dtype == FOUR_BIT and any(prod(shape) % _BLOCK for shape in matrices):
        raise ModelError(
            f"{checkpoint.name}: dtype '4bit' packs blocks of {_BLOCK} weights, and its experts are no multiple of "
            "that; choose bfloat16"
        )
    return dtype


def weight_bytes(checkpoint: Checkpoint, dtype: str) -> float:
    """The memory of the weights, in 4 bits including one unpacked layer. Raises ModelError if a file is unreadable."""
    used = {name: shape for name, shape in checkpoint.shapes().items() if not any(part in name for part in UNUSED)}
    sizes = {name: prod(shape) for name, shape in used.items()}
    if dtype != FOUR_BIT:
        return float(sum(sizes.values()) * DTYPES[dtype].itemsize)
    experts = {name: size for name, size in sizes.items() if _is_experts(name)}
    packed = sum(experts.values()) * _BYTES_PER_EXPERT_WEIGHT
    unpacked = sum(max((experts[name] for name in experts if name.endswith(suffix)), default=0) for suffix in _EXPERTS)
    return packed + _OTHER_BYTES_PER_WEIGHT * (unpacked + sum(sizes.values()) - sum(experts.values()))


def _is_experts(name: str) -> bool:
    """Whether a weight holds the matrices of a layer's experts, (experts, rows, columns), which 4 bits pack."""
    return name.endswith(_EXPERTS) and ".experts." in name


def load_model(checkpoint: Checkpoint, device: torch.device, dtype: str, progress: OnProgress) -> Any:
    """The `DiffusionGemmaForBlockDiffusion` of a checkpoint, on its device and in a dtype that fits there.

    Raises ModelError if its weights differ from the checkpoint's description.
    """
    progress(0.15, "loading the model library")
    from transformers import DiffusionGemmaConfig

    try:
        model = without_weights(DiffusionGemmaConfig.from_dict({**checkpoint.config, "vision_config": NO_VISION}))
    except Exception as error:  # a broken config.json raises anything, and must not end the worker
        reason = checkpoint_files.first_error_line(error)
        raise ModelError(f"{checkpoint.source} describes no model that can be built: {reason}") from error
    if not model.config.tie_word_embeddings:
        raise ModelError(f"{checkpoint.name}: its encoder and decoder share no weights, which is not supported")
    packs = dtype == FOUR_BIT
    return load_by_layers(model, open_tensors(checkpoint), device, DTYPES[dtype], progress, packs=packs).eval()


def load_by_layers(
    model: Any, shards: TensorReader, device: torch.device, dtype: torch.dtype, progress: OnProgress, *, packs: bool
) -> Any:
    """Gives a model of `without_weights` its weights; `packs`: the experts in 4 bits."""
    encoder = model.model.encoder.language_model
    decoder = model.model.decoder
    count = len(decoder.layers)
    for layer_index, layer in enumerate(decoder.layers):
        share = _LOADED_AT + (_LAYERS_DONE_AT - _LOADED_AT) * layer_index / count
        progress(share, f"layer {layer_index + 1} of {count}" + ", 4 bits" * packs)
        _load(layer, f"layers.{layer_index}.", shards, device, dtype, packs)
        _share(encoder.layers[layer_index], layer)
        scalar = f"model.encoder.language_model.layers.{layer_index}.layer_scalar"
        encoder.layers[layer_index].layer_scalar = shards.tensor(scalar, (1,), device, dtype)
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


def _load(
    module: nn.Module, prefix: str, shards: TensorReader, device: torch.device, dtype: torch.dtype, packs: bool
) -> None:
    """Gives every weight below a module of the decoder its memory and its values."""
    for path, owner in list(module.named_modules()):
        below = f"{prefix}{path}." if path else prefix
        for name, parameter in list(owner.named_parameters(recurse=False)):
            full, same = (stack + below + name for stack in (_DECODER, _ENCODER))  # a file may name either
            full = same if same in shards.shapes and full not in shards.shapes else full
            if packs and name in _EXPERTS:  # read one by one; they are unpacked when the layer is run
                blocks = (block.view(-1, *parameter.shape[1:]) for _, block in shards.blocks(full, parameter.shape))
                pieces = (expert.to(device, dtype) for block in blocks for expert in block)
                packed, state = quantise_4bit(pieces, parameter.shape, device, dtype)
                setattr(owner, name, nn.Parameter(packed, requires_grad=False))
                replace = import_bitsandbytes().nn.parametrize.replace_parameter_4bit_prequantized
                replace(owner, name, state.as_dict(packed=True), device)
            else:
                value = shards.tensor(full, parameter.shape, device, dtype)
                setattr(owner, name, nn.Parameter(value, requires_grad=False))
        for name, buffer in list(owner.named_buffers(recurse=False)):
            if name == "embed_scale":
                setattr(owner, name, torch.tensor(owner.scalar_embed_scale, device=device))
            elif name == "layer_scalar":
                setattr(owner, name, shards.tensor(f"model.decoder.{below}{name}", buffer.shape, device, dtype))


def quantise_4bit(
    pieces: Iterable[Tensor], shape: Sequence[int], device: torch.device, dtype: torch.dtype
) -> tuple[Tensor, Any]:
    """(n / 2, 1) bytes and the `QuantState` of a tensor whose pieces, of whole blocks, come one after the other.

    Gives the result of `replace_parameter_4bit(compress_statistics=True)` on the whole tensor, which would take eight
    times the tensor's memory on a CPU.
    """
    functional = import_bitsandbytes().functional
    packed = torch.empty((prod(shape) // 2, 1), dtype=torch.uint8, device=device)
    scales = torch.empty(prod(shape) // _BLOCK, dtype=torch.float32, device=device)
    done = 0
    for piece in pieces:
        part, state = functional.quantize_4bit(piece, quant_type="nf4", blocksize=_BLOCK)
        packed[done // 2 : (done + piece.numel()) // 2] = part
        scales[done // _BLOCK : (done + piece.numel()) // _BLOCK] = state.absmax
        done += piece.numel()
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
