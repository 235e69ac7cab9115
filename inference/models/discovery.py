"""Finds the GGUF files downloaded by other programs: Ollama, LM Studio, llama.cpp, and the hub's own client.

Their folders belong to those programs and may hold anything: it reads only names, sizes and headers, only of
regular files, and only a limited number of them. It changes nothing.
"""

import os
import re
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

from inference.models import checkpoint_files
from inference.models.family import ModelError
from inference.models.gguf import header

_MOST_FILES, _MOST_ENTRIES, _DEPTH = 200, 20_000, 5
_MANIFEST_LIMIT_BYTES = 1 << 18
_OLLAMA_MODEL = "application/vnd.ollama.image.model"
_DIGEST = re.compile(r"sha256:([0-9a-f]{64})")
_SPLIT = re.compile(r"-\d{5}-of-\d{5}\.gguf$", re.IGNORECASE)


@dataclass(frozen=True)
class FoundModel:
    """A model's file: its program's name for it, its architecture, and why it is unusable here; "" if usable.

    A file that ends early is unusable. Nothing compares its weights with a checksum.
    """

    program: str
    name: str
    path: str
    bytes_: int
    architecture: str
    problem: str

    @property
    def fills(self) -> bool:
        """Whether it is usable and trained to fill the middle, judging by its name."""
        return not self.problem and "coder" in self.name.lower()


def found(environment: Mapping[str, str] | None = None, home: Path | None = None) -> list[FoundModel]:
    """The models on this machine, each file once, largest first."""
    files: dict[Path, FoundModel] = {}
    for program, name, path in islice(_files(environment or os.environ, home or Path.home()), _MOST_FILES):
        try:
            place = path.resolve()
            if place not in files and place.is_file():
                files[place] = _described(program, name, path.absolute())
        except (OSError, RuntimeError, ValueError):  # a loop of links, or deleted meanwhile
            continue
    return sorted(files.values(), key=lambda one: (not one.fills, -one.bytes_))


def file_of(name: str) -> str:
    """The path of the first model of this name, as `found` names it; "" if there is none. Reads no header."""
    files = islice(_files(os.environ, Path.home()), _MOST_FILES)
    return next((str(path.resolve()) for _, known, path in files if _shown(known) == name and path.is_file()), "")


def _described(program: str, name: str, path: Path) -> FoundModel:
    from inference.models.gguf import stated  # it imports tokenizers

    architecture = problem = ""
    if not str(path).isprintable():
        problem = "its path has control characters; rename it"
        return FoundModel(program, _shown(name), _shown(str(path)), path.stat().st_size, "", problem)
    try:
        architecture = header.architecture(path)
        if architecture not in stated.ARCHITECTURES:
            problem = f"architecture {architecture[:40]!a} cannot fill holes here"
        else:
            stated.config(header.read(path))  # 0.3 s for a vocabulary of 150,000 tokens
    except ModelError as error:
        problem = str(error).removeprefix(f"{path}").strip(": ")
    return FoundModel(program, _shown(name), str(path), path.stat().st_size, _shown(architecture)[:40], _shown(problem))


def _shown(text: str) -> str:
    return "".join(letter if letter.isprintable() else "?" for letter in text)[:200]


def _files(environment: Mapping[str, str], home: Path) -> Iterator[tuple[str, str, Path]]:
    """Program, name and path of each, without checking the path."""
    for folder in _ollama(environment, home):
        yield from _of_ollama(folder)
    for program, folder in _folders(environment, home):
        for path in (path for path in _walked(folder) if path.suffix.lower() == header.SUFFIX):
            if not _SPLIT.search(path.name):
                yield program, path.stem, path


def _ollama(environment: Mapping[str, str], home: Path) -> list[Path]:
    if chosen := environment.get("OLLAMA_MODELS"):
        return [Path(chosen)]
    return [home / ".ollama" / "models", Path("/usr/share/ollama/.ollama/models")]


def _folders(environment: Mapping[str, str], home: Path) -> Iterator[tuple[str, Path]]:
    yield "LM Studio", home / ".lmstudio" / "models"
    yield "LM Studio", home / ".cache" / "lm-studio" / "models"
    cache = Path(environment.get("XDG_CACHE_HOME") or home / ".cache")
    if sys.platform == "darwin":
        cache_of_llama = home / "Library" / "Caches"
    elif os.name == "nt":
        cache_of_llama = Path(environment.get("LOCALAPPDATA") or home / "AppData" / "Local")
    else:
        cache_of_llama = cache
    yield "llama.cpp", Path(environment.get("LLAMA_CACHE") or cache_of_llama / "llama.cpp")
    hub = environment.get("HF_HUB_CACHE") or Path(environment.get("HF_HOME") or cache / "huggingface") / "hub"
    yield "Hugging Face", Path(hub)


def _of_ollama(folder: Path) -> Iterator[tuple[str, str, Path]]:
    """The models of its manifests, named as Ollama's user knows them: `qwen2.5-coder:0.5b`."""
    manifests = folder / "manifests"
    for manifest in _walked(manifests):
        parts = manifest.relative_to(manifests).parts
        if len(parts) < 2:
            continue
        shown = [part for part in parts[1:-1] if part != "library"]
        if blob := _blob(manifest):
            yield "Ollama", f"{'/'.join(shown)}:{parts[-1]}", folder / "blobs" / f"sha256-{blob}"


def _blob(manifest: Path) -> str:
    """The hash of a manifest's model; "" if it names none."""
    try:
        layers = checkpoint_files.read_json(manifest, _MANIFEST_LIMIT_BYTES).get("layers")
    except (ModelError, FileNotFoundError):
        return ""
    for layer in layers if isinstance(layers, list) else ():
        known: dict[str, Any] = layer if isinstance(layer, dict) else {}
        digest = _DIGEST.fullmatch(str(known.get("digest")))
        if known.get("mediaType") == _OLLAMA_MODEL and digest:
            return digest[1]
    return ""


def _walked(folder: Path) -> Iterator[Path]:
    """The files below a folder, some levels deep. Follows no links to folders, and stops in an endless folder."""
    entries = 0
    waiting = [(folder, 0)]
    while waiting:
        place, depth = waiting.pop()
        try:
            inside = sorted(islice(os.scandir(place), _MOST_ENTRIES), key=lambda one: one.name)
        except OSError:
            continue
        for entry in inside:
            entries += 1
            if entries > _MOST_ENTRIES:
                return
            if entry.is_dir(follow_symlinks=False):
                if depth < _DEPTH:
                    waiting.append((Path(entry.path), depth + 1))
            else:
                yield Path(entry.path)
