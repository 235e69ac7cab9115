"""Reads the weights of a checked Llama-shaped checkpoint into MLX, one tensor at a time.

Those of a quantised GGUF file keep its bits, as gguf/affine.py has them. Plain numbers stay plain, or get 8 bits.
"""

import mlx.core as mx
import torch

from inference.models import devices, packed, tokenizer_files
from inference.models.checkpoint import Checkpoint
from inference.models.devices import EIGHT_BIT
from inference.models.family import OnProgress
from inference.models.fim.adapter import LlamaFimAdapter
from inference.models.llama.config import INTERLEAVED_IN_GGUF, ROPE_FACTORS_TENSOR, llama_config, weight_shapes
from inference.models.llama.weights import EMBEDDING_KEY, HEAD_KEY, has_tied_embeddings, layer_prefixes
from inference.models.mlx import machine
from inference.models.mlx.llama import DenseMatrix, Matrix, MlxLayer, MlxLlamaNetwork, PackedMatrix, Projection
from inference.models.mlx.machine import MlxDeviceInfo
from inference.models.mlx.network import to_mlx_array
from inference.models.tensor_readers import open_tensors


def load_adapter(
    checkpoint: Checkpoint, device: MlxDeviceInfo, dtype: str | None, progress: OnProgress
) -> LlamaFimAdapter:
    """Loads the model. Raises ModelError."""
    tokenizer = tokenizer_files.load_tokenizer(checkpoint)
    progress(0.05, "checking memory")
    builder = MlxNetworkBuilder(checkpoint, device, dtype)
    machine.configure_mlx(device)
    return LlamaFimAdapter(checkpoint, tokenizer, builder.network(progress), builder.dtype, device.name)


class MlxNetworkBuilder:
    def __init__(self, checkpoint: Checkpoint, device: MlxDeviceInfo, requested: str | None) -> None:
        """Raises ModelError if it does not fit, or the requested dtype does not run."""
        self._config = llama_config(checkpoint)
        self._weights = open_tensors(checkpoint)
        self._shapes = weight_shapes(self._config)
        self._is_tied = has_tied_embeddings(self._weights, self._shapes)
        self._is_interleaved = checkpoint.gguf is not None and checkpoint.model_type in INTERLEAVED_IN_GGUF
        self._plain = machine.DTYPES_BY_GPU[device.on_gpu]
        self._file_dtype = self._weights.packed_dtype
        self.dtype = self._chosen_dtype(checkpoint.name, device, requested)
        """The dtype of the weights: the bits of most weights in the file, 8 bits, or a plain dtype."""
        packed = "float16" if device.on_gpu else "float32"
        self._product_dtype = self.dtype if self.dtype in self._plain else packed

    def network(self, progress: OnProgress) -> MlxLlamaNetwork:
        """Builds the network in MLX's memory. Raises ModelError if the weights differ from the checkpoint's config."""
        layers = [self._layer(prefix) for prefix in layer_prefixes(self._config.num_hidden_layers, progress)]
        head = self._matrix(HEAD_KEY if HEAD_KEY in self._weights.shapes else EMBEDDING_KEY)
        inv_freq = mx.array(self._config.inv_freq)
        if ROPE_FACTORS_TENSOR in self._weights.shapes:
            inv_freq = inv_freq / self._tensor(ROPE_FACTORS_TENSOR)
        if not bool(mx.isfinite(inv_freq).all()):
            raise self._weights.not_finite_error(ROPE_FACTORS_TENSOR)
        return MlxLlamaNetwork(
            self._config,
            layers,
            head if self._is_tied else self._matrix(EMBEDDING_KEY),
            self._tensor("model.norm.weight"),
            head,
            1 / inv_freq,
            getattr(mx, self._product_dtype),
            is_interleaved=self._is_interleaved,
        )

    def _chosen_dtype(self, model: str, device: MlxDeviceInfo, requested: str | None) -> str:
        usual = [self._file_dtype] if self._file_dtype else [self._plain[0], EIGHT_BIT]
        dtypes = devices.allowed_dtypes(device.name, requested, usual, (*self._plain, EIGHT_BIT))
        return devices.choose_fitting_dtype(model, device.name, device.free_bytes, dtypes, self._weight_bytes)

    def _weight_bytes(self, dtype: str) -> float:
        unused = {EMBEDDING_KEY} if self._is_tied and HEAD_KEY in self._weights.shapes else set()
        names = self._weights.shapes.keys() & self._shapes.keys() - unused
        plain = 32 if dtype == "float32" else 16
        sizes = {name: self._weights.code_bits(name, dtype) for name in names}
        return sum(packed.needed_bytes(self._shapes[name], bits, plain) for name, bits in sizes.items())

    def _layer(self, prefix: str) -> MlxLayer:
        return MlxLayer(
            norm=self._tensor(prefix + "input_layernorm.weight"),
            queries=self._projection(prefix + "self_attn.q"),
            keys=self._projection(prefix + "self_attn.k"),
            values=self._projection(prefix + "self_attn.v"),
            out=self._matrix(prefix + "self_attn.o_proj.weight"),
            mlp_norm=self._tensor(prefix + "post_attention_layernorm.weight"),
            gate=self._matrix(prefix + "mlp.gate_proj.weight"),
            up=self._matrix(prefix + "mlp.up_proj.weight"),
            down=self._matrix(prefix + "mlp.down_proj.weight"),
        )

    def _projection(self, name: str) -> Projection:
        bias, norm = (
            self._tensor(key) if key in self._shapes else None for key in (f"{name}_proj.bias", f"{name}_norm.weight")
        )
        return Projection(self._matrix(f"{name}_proj.weight"), bias, norm)

    def _matrix(self, name: str) -> Matrix:
        bits = self._weights.code_bits(name, self.dtype)
        return self._packed(name, bits) if bits else DenseMatrix(self._tensor(name, self._product_dtype))

    def _tensor(self, name: str, dtype: str = "float32") -> mx.array:
        stored = self._weights.tensor(name, self._shapes[name], torch.device("cpu"), devices.DTYPES[dtype])
        if not bool(stored.isfinite().all()):
            raise self._weights.not_finite_error(name)
        return to_mlx_array(stored)

    def _packed(self, name: str, bits: int) -> PackedMatrix:
        weight = self._weights.read_quantised(name, self._shapes[name], bits)
        words, scales, biases = map(to_mlx_array, (weight.words.view(torch.uint32), weight.scales, weight.biases))
        return PackedMatrix(words, scales, biases, bits)
