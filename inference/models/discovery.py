"""Finds the GGUF files downloaded by other programs: Ollama, LM Studio, llama.cpp, and the hub's own client.

Their folders belong to those programs and may contain anything. This module reads only names, sizes and headers of
regular files, only a limited number of them, and changes nothing.
"""

import os
import re
import stat
import sys
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import asdict, dataclass
from itertools import islice
from pathlib import Path
from typing import Any

import msgspec

from inference.messages import EditKind
from inference.models import checkpoint_files, edit_prompts, fim_tokens, model_store
from inference.models.family import ModelError
from inference.models.gguf import header
from inference.models.gguf.architectures import hub_config
from inference.terminal import printable

_MAX_FILES = 200
_MAX_ENTRIES = 20_000
_DEPTH = 5
_MANIFEST_LIMIT_BYTES = 1 << 18
_OLLAMA_MODEL = "application/vnd.ollama.image.model"
_DIGEST = re.compile(r"sha256:([0-9a-f]{64})")


class _Layer(msgspec.Struct, rename={"media_type": "mediaType"}):
    media_type: str | None = None
    digest: str | None = None


class _Manifest(msgspec.Struct):
    """Ollama's list of the files of a model."""

    layers: list[_Layer] = []


@dataclass(frozen=True)
class ForeignModel:
    """A model's file: its name in its program, and its `problem` if it is unusable here, "" otherwise.

    A truncated file is unusable. The weights are not compared with any checksum.
    """

    program: str
    name: str
    path: str
    bytes_: int
    problem: str

    @property
    def can_fill(self) -> bool:
        """Whether the model is usable and, judging by its name, fills holes."""
        name = self.name.lower()
        is_able = "coder" in name or "diffusiongemma" in name or fim_tokens.guess_fim_kind(name) is not None
        return is_able and not self.problem and not self.edit_kind

    @property
    def edit_kind(self) -> EditKind | None:
        """The kind of a usable edit model, judging by its name; None for other models."""
        return None if self.problem else edit_prompts.guess_kind("auto", self.name)

    def as_json(self) -> dict[str, Any]:
        return {**asdict(self), "fills": self.can_fill, "edits": self.edit_kind}


def discover_foreign_models(on_file: Callable[[int, int], None] = lambda *_: None) -> list[ForeignModel]:
    """The models on this machine, each file once, largest first. `on_file` receives the number of files read and of all
    files: 200 take seven seconds.
    """
    files = list(_unique())
    models = []
    for num_read, (program, name, path) in enumerate(files):
        on_file(num_read, len(files))
        file = path.absolute()
        with suppress(OSError):  # deleted meanwhile
            problem = _problem_of(file)
            parts = [file] if problem else [file, *header.later_parts(file)]
            size = sum(part.stat().st_size for part in parts)
            models.append(ForeignModel(program, printable(name), printable(file), size, problem=problem))
    return sorted(models, key=lambda model: (not model.can_fill, -model.bytes_))


def find_foreign_model_file(name: str) -> str:
    """The path of the first model to which `discover_foreign_models` gives this name, or "". Reads no header."""
    return next((str(model_store.real_path(path)) for _, label, path in _unique() if printable(label) == name), "")


def _unique() -> Iterator[tuple[str, str, Path]]:
    """Program, name and path of the first files, each only once even if several links lead to it."""
    visited = set()
    for program, name, path in _files():
        try:
            status = path.stat()
        except (OSError, ValueError):  # a loop of links, or deleted meanwhile
            continue
        if stat.S_ISREG(status.st_mode) and (status.st_dev, status.st_ino) not in visited:
            visited.add((status.st_dev, status.st_ino))
            yield program, name, path
        if len(visited) == _MAX_FILES:
            return


def _problem_of(path: Path) -> str:
    """Why a file is unusable here, judging by its header; "" if it is usable."""
    if not str(path).isprintable():
        return "its path has control characters; rename it"
    try:
        hub_config(header.read_header(path))
    except ModelError as error:
        return printable(str(error).removeprefix(f"{path}").strip(": "))
    return ""


def _files() -> Iterator[tuple[str, str, Path]]:
    """Program, name and path of each file, which may not exist."""
    chosen = os.environ.get("OLLAMA_MODELS")
    usual = (Path.home() / ".ollama" / "models", Path("/usr/share/ollama/.ollama/models"))
    for folder in (Path(chosen),) if chosen else usual:
        yield from _ollama_files(folder)
    for program, folder in _folders():
        for path in (path for path in _walk(folder) if path.suffix.lower() == header.EXTENSION):
            if header.part_number(path) < 2:
                yield program, path.stem, path


def _folders() -> Iterator[tuple[str, Path]]:
    home = Path.home()
    chosen = os.environ.get
    yield "LM Studio", home / ".lmstudio" / "models"
    yield "LM Studio", home / ".cache" / "lm-studio" / "models"
    cache = Path(chosen("XDG_CACHE_HOME") or home / ".cache")
    if sys.platform == "darwin":
        cache_of_llama = home / "Library" / "Caches"
    elif os.name == "nt":
        cache_of_llama = Path(chosen("LOCALAPPDATA") or home / "AppData" / "Local")
    else:
        cache_of_llama = cache
    yield "llama.cpp", Path(chosen("LLAMA_CACHE") or cache_of_llama / "llama.cpp")
    yield "Hugging Face", Path(chosen("HF_HUB_CACHE") or Path(chosen("HF_HOME") or cache / "huggingface") / "hub")


def _ollama_files(folder: Path) -> Iterator[tuple[str, str, Path]]:
    """The models of its manifests, named as Ollama's user knows them: `qwen2.5-coder:0.5b`."""
    manifests = folder / "manifests"
    for manifest in _walk(manifests):
        parts = manifest.relative_to(manifests).parts
        if len(parts) < 2:
            continue
        parents = [part for part in parts[1:-1] if part != "library"]
        if blob := _blob(manifest):
            yield "Ollama", f"{'/'.join(parents)}:{parts[-1]}", folder / "blobs" / f"sha256-{blob}"


def _blob(manifest: Path) -> str:
    try:
        layers = checkpoint_files.read_struct(manifest, _Manifest, _MANIFEST_LIMIT_BYTES).layers
    except ModelError:
        return ""
    digests = (_DIGEST.fullmatch(layer.digest or "") for layer in layers if layer.media_type == _OLLAMA_MODEL)
    return next((digest[1] for digest in digests if digest), "")


def _walk(folder: Path) -> Iterator[Path]:
    """The files below a folder, at most `_DEPTH` levels deep. Follows no links to folders, reads `_MAX_ENTRIES`."""
    remaining = _MAX_ENTRIES
    folders = [(folder, 0)]
    while folders and remaining:
        current, depth = folders.pop()
        with suppress(OSError), os.scandir(current) as listed:
            entries = sorted(islice(listed, remaining), key=lambda entry: entry.name)
            remaining -= len(entries)
            inside = [Path(entry) for entry in entries if entry.is_dir(follow_symlinks=False)]
            folders += [(subfolder, depth + 1) for subfolder in reversed(inside) if depth < _DEPTH]
            yield from (Path(entry) for entry in entries if not entry.is_dir(follow_symlinks=False))
