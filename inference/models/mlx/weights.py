"""Reads the weights of a checked checkpoint into mlx-vlm's DiffusionGemma: released ones, and those of a GGUF file,
whose bits stay.

mlx-vlm's own loader is not used: it looks for files by itself, runs a checkpoint's code, and rewrites a file with
unknown numbers. MLX computes a weight on first use, so declared but absent weights take no memory.
"""

from collections.abc import Mapping
from functools import partial
from typing import Any

import mlx.core as mx
import mlx.nn as nn
import torch
from mlx.utils import tree_flatten
from mlx_vlm.models.diffusion_gemma.config import ModelConfig, TextConfig
from mlx_vlm.models.diffusion_gemma.diffusion_gemma import Model
from transformers import DiffusionGemmaConfig

from inference.models import checkpoint_files, packed
from inference.models.checkpoint import Checkpoint
from inference.models.devices import DTYPES, allowed_dtypes, choose_fitting_dtype
from inference.models.diffusion_gemma.adapter import DiffusionGemmaAdapter, cache_budget
from inference.models.diffusion_gemma.weights import DECODER, ENCODER, UNUSED_WEIGHTS, weight_bytes
from inference.models.family import ModelError, OnProgress
from inference.models.gguf.affine import GROUP_SIZE
from inference.models.mlx import machine
from inference.models.mlx.network import MlxDiffusionNetwork, to_mlx_array
from inference.models.tensor_readers import TensorReader, open_tensors

_WORD_BITS = 32
_OTHER_BITS = 32
"""Of a plain number in a packed GGUF file."""
_READ_AT = 0.35
_ALL_READ_AT = 0.9


def load_model(checkpoint: Checkpoint, precision: str, *, on_gpu: bool, progress: OnProgress) -> Model:
    """The loaded model, in the bits of a GGUF file. Raises ModelError."""
    progress(0.15, "loading the model library")
    try:
        model = Model(_config(checkpoint))
        dtype = (precision if precision in DTYPES else "bfloat16") if on_gpu else "float32"
        stored = _read(open_tensors(checkpoint), dtype, progress)
        nn.quantize(model, class_predicate=partial(_as_stored, stored))
        model.load_weights(_model_weights(checkpoint, model, stored))
        model.set_dtype(getattr(mx, dtype))  # that of the computation, and so of the scales of packed weights
        mx.eval(model.parameters())
    except ModelError:
        raise
    except Exception as error:  # a broken file raises anything, and must not end the worker
        reason = checkpoint_files.first_error_line(error)
        raise ModelError(f"{checkpoint.name}: its weights cannot be loaded: {reason}") from error
    return model.eval()


def _config(checkpoint: Checkpoint) -> ModelConfig:
    """mlx-vlm's configuration for the model that transformers would build; without the vision tower."""
    text: Any = DiffusionGemmaConfig.from_dict(checkpoint.config).text_config
    fields = {name: value for name, value in text.to_dict().items() if name in TextConfig.__dataclass_fields__}
    full = text.layer_types.index("full_attention")
    widest = text.per_layer_config[full] if text.is_heterogeneous else text
    fields |= {"global_head_dim": widest.head_dim, "num_global_key_value_heads": widest.num_key_value_heads}
    fields["final_logit_softcapping"] = text.final_logit_softcapping
    return ModelConfig(text_config=TextConfig(**fields), vision_config=None, image_token_id=None, video_token_id=None)


def _read(tensors: TensorReader, dtype: str, progress: OnProgress) -> dict[str, mx.array]:
    """The tensors by mlx-vlm's names: a GGUF file's matrices in its own bits, but for the router's.

    Encoder and decoder share weights: a file may name either. MLX multiplies bfloat16 by scales of its own format, so
    on a GPU they round to eight bits.
    """
    stored: dict[str, mx.array] = {}
    used = [name for name in tensors.shapes if not any(part in name for part in UNUSED_WEIGHTS)]
    for index, name in enumerate(used):
        progress(_READ_AT + (_ALL_READ_AT - _READ_AT) * index / len(used), f"weights {index} of {len(used)}")
        is_shared = name.startswith(ENCODER) and not name.endswith("layer_scalar")
        of_decoder = DECODER + name.removeprefix(ENCODER) if is_shared else name
        if is_shared and of_decoder in tensors.shapes:
            continue
        weight = of_decoder if ".experts." not in name else f"{of_decoder}.weight"
        if bits := _packed_bits(tensors, name):
            matrix = tensors.read_quantised(name, tensors.shapes[name], bits)
            prefix = weight.removesuffix("weight")
            words = matrix.words.view(torch.uint32)
            for part, tensor in (("weight", words), ("scales", matrix.scales), ("biases", matrix.biases)):
                stored[prefix + part] = to_mlx_array(tensor)
        else:
            tensor = tensors.tensor(name, tensors.shapes[name], torch.device("cpu"), DTYPES[dtype])
            stored[weight] = to_mlx_array(tensor)
    return stored


def _packed_bits(tensors: TensorReader, name: str) -> int:
    """The bits of a weight's codes here; 0 if it stays in plain numbers."""
    return 0 if ".router." in name else tensors.stored_bits(name)


def _as_stored(stored: Mapping[str, mx.array], path: str, module: Any) -> dict[str, int] | bool:
    """How a matrix is packed: `group_size` and `bits`; False: it is not."""
    if f"{path}.scales" not in stored or not hasattr(module, "to_quantized"):
        return False
    words, columns = stored[f"{path}.weight"].shape[-1], module.weight.shape[-1]
    return {"group_size": GROUP_SIZE, "bits": words * _WORD_BITS // columns}


def _model_weights(checkpoint: Checkpoint, model: Model, stored: Mapping[str, mx.array]) -> list[tuple[str, mx.array]]:
    """The weights of the model, by name. Raises ModelError if the files lack one or have one of another shape."""
    expected = dict(tree_flatten(model.parameters()))
    wrong = [name for name, array in expected.items() if name not in stored or stored[name].shape != array.shape]
    if wrong:
        raise ModelError(
            f"{checkpoint.name}: {len(wrong)} weights are missing or of another shape (such as {wrong[0]}); download "
            "the checkpoint again"
        )
    return [(name, stored[name]) for name in expected]


def load_adapter(
    checkpoint: Checkpoint, device: machine.MlxDeviceInfo, dtype: str | None, progress: OnProgress
) -> DiffusionGemmaAdapter:
    """The model in the memory of this machine. Raises ModelError."""
    tokenizer = checkpoint.tokenizer()
    progress(0.1, "checking memory")
    precision = _choose_fitting_dtype(checkpoint, device, dtype)
    machine.configure_mlx(device)
    model = load_model(checkpoint, precision, on_gpu=device.on_gpu, progress=progress)
    network = MlxDiffusionNetwork(model)
    free_bytes = machine.require_mlx_device().free_bytes
    cache_bytes = cache_budget(network, checkpoint.infill_config, free_bytes, on_cpu=not device.on_gpu)
    return DiffusionGemmaAdapter(checkpoint, tokenizer, network, precision, cache_bytes, device.name)


def _choose_fitting_dtype(checkpoint: Checkpoint, device: machine.MlxDeviceInfo, requested: str | None) -> str:
    """The requested dtype, or the usual one. Raises ModelError if the weights do not fit here."""
    packed_dtype = open_tensors(checkpoint).packed_dtype
    usual, *others = [packed_dtype] if packed_dtype else machine.DTYPES_BY_GPU[device.on_gpu]
    dtypes = allowed_dtypes(device.name, requested, [usual], others)
    size = partial(_weight_bytes, checkpoint)
    return choose_fitting_dtype(checkpoint.name, device.name, device.free_bytes, dtypes, size)


def _weight_bytes(checkpoint: Checkpoint, dtype: str) -> float:
    """The memory of the weights in a dtype, or in the bits of their file."""
    if not dtype.endswith("bit"):
        return weight_bytes(checkpoint, dtype)
    tensors = open_tensors(checkpoint)
    sizes = {name: _packed_bits(tensors, name) for name in tensors.shapes}
    return sum(packed.needed_bytes(tensors.shapes[name], bits, _OTHER_BITS) for name, bits in sizes.items())
