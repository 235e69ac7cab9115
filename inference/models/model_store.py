"""The location of downloaded models, and the record of a pull. Reads folders only, never a network.

A pull puts a model into its own folder within that of the hub's client (HF_HOME), as plain files that a user may also
put there by hand, beside `pulled.json`, their record. Also finds downloads of other programs in the hub's cache.
"""

import re
import sys
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Annotated

import msgspec
import platformdirs
from msgspec import Meta

from inference.models import catalogue, checkpoint_files
from inference.models.catalogue import CatalogueEntry
from inference.models.family import ModelError
from inference.models.gguf import header
from inference.terminal import format_bytes

RECORD_FILE = "pulled.json"
CONFIG_FILE = "config.json"
PART_EXTENSION = ".part"

WANTED_FILES = ("*.safetensors", "*.gguf", "*.json", "merges.txt", "LICENSE*", "NOTICE*")
"""Files of a repository's top folder to fetch; a GGUF file only if it is pinned or the only model."""

_PLAIN_NAME = re.compile(r"[A-Za-z0-9][\w.-]{0,199}")
REVISION = r"\A[\w.-]{1,64}\Z"
_DIGEST = r"\A([0-9a-f]{40}|[0-9a-f]{64})\Z"


class DamagedRecordError(ModelError):
    """`pulled.json` makes no sense. A pull replaces it."""


class FileRecord(msgspec.Struct, frozen=True):
    """One file as the hub describes it. `digest` is the SHA-256 of a file stored as large, otherwise git's SHA-1."""

    size: Annotated[int, Meta(ge=0, lt=1 << 50)]
    digest: Annotated[str, Meta(pattern=_DIGEST)]


class PullRecord(msgspec.Struct, frozen=True):
    """`pulled.json`: the revision is written before the first file, `complete` once all files are checked."""

    repo: str
    revision: Annotated[str, Meta(pattern=REVISION)]
    licence: str
    files: dict[str, FileRecord]
    complete: bool = False

    @property
    def total_bytes(self) -> int:
        return sum(file.size for file in self.files.values())


@dataclass(frozen=True)
class PullTarget:
    """What to pull: our name for it, its id on the hub, the folder for it, its entry, and the record if it is pinned.

    `only` is the name of the only wanted file, "" for a whole repository.
    """

    name: str
    repo: str
    folder: Path
    entry: CatalogueEntry | None
    pinned: PullRecord | None
    only: str


def real_path(path: Path) -> Path:
    """The path with links resolved, except that of one part of several: its name leads to the others."""
    return path.parent.resolve() / path.name if header.part_number(path) else path.resolve()


def pull_target(model: str) -> PullTarget:
    """The target for a model of the catalogue, or for a hub id such as owner/name."""
    from huggingface_hub import constants  # where the user's other models are, too

    entry = catalogue.find_entry(model)
    name, repo = (entry.name, entry.repo) if entry else (model, model)
    file = entry.file if entry else None
    pinned = None
    if entry and file and file.sha256:
        pinned = PullRecord(repo, file.revision, entry.licence, {file.name: FileRecord(file.bytes_, file.sha256)})
    folder = Path(constants.HF_HOME) / "infill-ls" / name.replace("/", "--")
    return PullTarget(name, repo, folder, entry, pinned, only=file.name if file else "")


def find_model(model: str) -> Path | None:
    """The folder of a model, or its only file in the hub's own cache; None if a file is missing or cut off."""
    target = pull_target(model)
    bundled = Path(sys.prefix, "share", "infill-ls", target.folder.name)
    for folder in (target.folder, bundled):
        record = read_record(folder, target.repo)
        is_begun = record.complete if record else (folder / (target.only or CONFIG_FILE)).is_file()
        if is_begun and not _find_wrong_file(replace(target, folder=folder), record):
            return folder
    return _find_in_cache(target)


def _find_wrong_file(target: PullTarget, record: PullRecord | None) -> Path | None:
    """A file that is missing or has the wrong size. Does not read the contents, which would take seconds."""
    expected = record or target.pinned  # the record may be of an earlier release, which pinned another revision
    files = {target.folder / name: file.size for name, file in expected.files.items()} if expected else {}
    return next((path for path, size in files.items() if not has_size(path, size)), None)


def has_size(path: Path, count_bytes: int) -> bool:
    """Whether the path is a regular file of `count_bytes` bytes."""
    return path.is_file() and path.stat().st_size == count_bytes


def is_pulled(entry: CatalogueEntry) -> bool:
    try:
        return not entry.repo or find_model(entry.name) is not None
    except ModelError:
        return False


def pulled_edit_models(kind: str = "auto") -> list[CatalogueEntry]:
    """The pulled edit models of a kind, or of any (`auto`), best first."""
    kinds = [entry for entry in catalogue.ENTRIES if entry.edit_kind and kind in ("auto", entry.edit_kind)]
    return [entry for entry in kinds if is_pulled(entry)]


def require_model(model: str) -> Path:
    """The path that `find_model` finds. Raises ModelError, which says how to get the model."""
    if path := find_model(model):
        return path
    target = pull_target(model)
    state = _state(target) or "not on this machine"
    costs = f" ({format_bytes(target.entry.download_bytes)}, licence: {target.entry.licence})" if target.entry else ""
    raise ModelError(
        f"{model}: {state}; models are never downloaded automatically; "
        f"run: infill-ls models pull {target.name}{costs}, or give a checkpoint folder"
    )


def pulled_model_problem(entry: CatalogueEntry) -> str:
    """Why a model that was pulled, wholly or in part, cannot be used; "" if it can, or was never pulled."""
    try:
        state = "" if is_pulled(entry) else _state(pull_target(entry.name))
    except ModelError as error:
        return str(error)
    return state and f"{entry.name}: {state}; run: infill-ls models pull {entry.name}"


def _state(target: PullTarget) -> str:
    """The problem of a pull that is not usable; "" if nothing was pulled. Raises ModelError."""
    record = read_record(target.folder, target.repo)
    wrong = _find_wrong_file(target, record)
    if wrong and (wrong.exists() or (record and record.complete)):
        return f"{wrong} is missing or cut off"
    return "only partly downloaded" if record else ""


def read_record(folder: Path, repo: str = "") -> PullRecord | None:
    """The record of the pull into a folder; None if there is none.

    Raises DamagedRecordError, or ModelError if the files belong to a repository other than `repo`. The record may not
    be ours: a repository may have a file of this name, and a user who downloads by hand may copy it too.
    """
    file = folder / RECORD_FILE
    try:
        record = msgspec.convert(checkpoint_files.read_json(file), PullRecord)
    except FileNotFoundError:
        return None
    except (ModelError, msgspec.ValidationError) as error:
        raise DamagedRecordError(f"{file} is damaged; pull the model again") from error
    if odd := next((name for name in record.files if not is_wanted_file(name)), None):
        raise ModelError(f"{file}: files: {odd[:100]!r} is not a file of a model; delete {file} and pull again")
    if repo and record.repo.lower() != repo.lower():
        holder = ascii(record.repo[:100])[1:-1]
        raise ModelError(
            f"{folder} holds {holder}, not {repo}, says its {RECORD_FILE}; move it elsewhere and pull {repo}"
        )
    return record


def is_wanted_file(name: str) -> bool:
    """Whether to fetch a file: no name from a hub may lead out of the folder, or to our record in any spelling."""
    if not _PLAIN_NAME.fullmatch(name) or name.lower() == RECORD_FILE or name.lower().endswith(PART_EXTENSION):
        return False
    return any(fnmatchcase(name, kind) for kind in WANTED_FILES)


def _find_in_cache(target: PullTarget) -> Path | None:
    """The only file or the snapshot in the hub's own cache, from any program; None if weights are missing."""
    from huggingface_hub import try_to_load_from_cache
    from huggingface_hub.errors import HFValidationError

    try:
        if target.only:
            revision = target.pinned.revision if target.pinned else None
            path = try_to_load_from_cache(target.repo, target.only, revision=revision)
            return Path(path) if isinstance(path, str) else None
        path = try_to_load_from_cache(target.repo, CONFIG_FILE)
        if not isinstance(path, str):
            return None
        checkpoint_files.weight_files(Path(path).parent)  # other programs cache config.json alone
        return Path(path).parent
    except (HFValidationError, OSError, ModelError):  # a hub id has more rules than we know
        return None


def quantised_folder() -> Path:
    """The folder of weights that an earlier load quantised, with a folder for each model's folder."""
    return platformdirs.user_cache_path("infill-ls", appauthor=False) / "quantised"
