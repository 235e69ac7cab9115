"""Resolves the settings of each document from all their sources, by its workspace folder. Knows no LSP types.

From the weakest to the strongest: the editor's start options, the settings it sends while it runs, each
`infill-ls.toml` above the document inside its workspace folder (the nearest last), the environment, the command line. A
workspace does not speak for the user: see `layers.Origin`.

It also decides whether a file may be read (`disabled_reason`), for the server, the commands and the context alike.
"""

import os
import tomllib
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path, PurePath
from threading import Lock
from typing import Any

from lsp_server.documents.reading import UnreadableError, read_text
from lsp_server.documents.uris import comparable_path, paths_via_links
from lsp_server.settings.layers import Layer, Origin, environment_layers, merge_layers
from lsp_server.settings.privacy import is_secret, matches_globs, secret_reason
from lsp_server.settings.schema import PARTNER, Settings
from lsp_server.syntax.languages import language_id_of_path, resolve_language_id

FILE_NAME = "infill-ls.toml"
COMMAND_LINE = "command line"
MAX_SETTINGS_BYTES = 65_536
FileStamp = tuple[int, int, int] | None
"""Changes whenever the file does; None if there is no file."""


@dataclass(frozen=True)
class SettingsFile:
    """The settings file of a folder as it was read; without a `layer` if there is none that can be used."""

    path: Path
    stamp: FileStamp = None
    layer: Layer | None = None
    problem: str = ""

    @classmethod
    def from_folder(cls, folder: Path) -> "SettingsFile":
        """The file of a folder, existing or not. For any thread: a file system may be slow."""
        path = folder / FILE_NAME
        stamp = _stamp(path)
        if stamp is None:
            return cls(path)
        try:
            raw = tomllib.loads(read_text(path, MAX_SETTINGS_BYTES))
        except UnreadableError as error:
            return cls(path, stamp, problem="" if error.missing else f"{path}: {error}; ignored")
        except (ValueError, RecursionError) as error:  # a TOMLDecodeError, or of `int` for a number without end
            return cls(path, stamp, problem=f"{path}: not TOML: {error}; the whole file is ignored")
        return cls(path, stamp, Layer(str(path), raw, Origin.WORKSPACE))


def _stamp(path: Path) -> FileStamp:
    try:
        about = path.stat()
    except (OSError, ValueError):
        return None
    return about.st_mtime_ns, about.st_size, about.st_ino


_MAX_SECRETS = 1_000
MAX_PROBLEMS = 10
_MAX_LINE = 400


@dataclass(frozen=True)
class WorkspaceFolder:
    """A workspace folder. `root` is a `Path` if it is on this machine; `real` is that without the links on it."""

    uri: str
    root: PurePath
    real: PurePath

    @classmethod
    def from_uri(cls, uri: str) -> "WorkspaceFolder":
        root = comparable_path(uri)
        return cls(uri, root, paths_via_links(root)[-1] if isinstance(root, Path) else root)


class Configuration:
    """All layers of settings, merged on first use, and again after each change. Those that are read only at start are
    read when this is made.

    `options` are the editor's start options, `folders` the URIs of its workspace folders. Outside of any editor,
    `names` are the `paths_via_links` of a file or folder; the workspace is the one an editor would likely open for it.
    """

    def __init__(
        self,
        flags: Mapping[str, Any],
        environment: Mapping[str, str],
        options: object = None,
        folders: Sequence[str] = (),
        names: Sequence[Path] = (),
    ) -> None:
        self._environment = environment_layers(environment)
        self._flags = Layer(COMMAND_LINE, dict(flags))
        self._options = Layer("initializationOptions", options, Origin.USER)
        self._sent: dict[str | None, Layer] = {}
        uris = [settings_root_of(names[0]).as_uri()] if names else dict.fromkeys(folders)
        self.folders = list(map(WorkspaceFolder.from_uri, uris))
        """The workspace folders, in the editor's order."""
        self._tops: dict[Path, Path] = {}
        """The outermost folder whose settings count: for each workspace folder, and for each folder outside of them
        with a file that was looked at.
        """
        self._files: dict[Path, SettingsFile] = {}
        """By folder: those that were looked for. A thread may add to it."""
        self._started: Settings | None = None
        self._lock = Lock()
        """Guards `_files` and `_merged`: a new file and the end of settings made from the old one appear together."""
        self._secrets: dict[tuple[int, int], Path] = {}
        """By device and inode: the latest files that were secret by their names. Threads add to it."""
        self._merged: dict[PurePath, tuple[Settings, list[str]]] = {}
        """The settings and problems of the files in a folder, since something last changed."""
        self.refresh([*names, *(name / FILE_NAME for name in names)])  # as of a file, and as of a folder
        self._started = self.settings
        self._merged = {}

    @property
    def settings(self) -> Settings:
        """The settings for anything outside all folders: those of the first folder."""
        return self.at_path(PurePath())

    @property
    def sends_token(self) -> bool:
        """Whether the server gets the user's token: only if the user's own settings send it there."""
        if self.settings.model == PARTNER:
            return self.sends_partner_token
        own, now = self._user_settings, self.settings
        return own.model == now.model and (own.server.plain_http or not now.server.plain_http)

    @property
    def sends_partner_token(self) -> bool:
        """Whether the partner gets the user's token for it: only if the user's own settings send it there."""
        own = self._user_settings.partner
        now = self.settings.partner
        return own.url == now.url and (own.plain_http or not now.plain_http)

    @property
    def problems(self) -> list[str]:
        """The unusable settings of all folders, each once, up to a readable number."""
        files = tuple(self._files.values())
        paths = [folder.root / FILE_NAME for folder in self.folders] + [file.path for file in files if file.layer]
        problems = [file.problem for file in files if file.problem]
        for path in paths or [PurePath()]:
            problems += self._merged_at(path)[1]
        lines = list(dict.fromkeys(problems))
        hidden = len(lines) - MAX_PROBLEMS
        visible = [line[:_MAX_LINE] for line in lines[:MAX_PROBLEMS]]
        return [*visible, f"{hidden} more settings could not be used; correct these first"] if hidden > 0 else visible

    @property
    def settings_files(self) -> list[Path]:
        return [file.path for file in tuple(self._files.values()) if file.layer]

    def change_folders(self, added: Sequence[str], removed: Sequence[str]) -> None:
        old_uris = {folder.uri for folder in self.folders}
        self.folders = [folder for folder in self.folders if folder.uri not in removed]
        self.folders += [WorkspaceFolder.from_uri(uri) for uri in dict.fromkeys(added) if uri not in old_uris]
        for uri in removed:
            self._sent.pop(uri, None)
        with self._lock:
            self._files = {path: file for path, file in self._files.items() if self._folders_above(file.path)[0]}
            self._merged = {}
        self.refresh()

    def set_editor_settings(self, raw: object, folder: str | None = None) -> None:
        """Sets the editor's settings, for the folder with this URI or everywhere. `raw` is None if it has none."""
        self._sent[folder] = Layer("settings", raw, Origin.EDITOR)
        if raw is None:
            del self._sent[folder]
        self._merged = {}

    def refresh(self, names: Iterable[Path] = ()) -> bool:
        """Reads the settings files that have changed: those of the workspace folders, and those above these files.
        Returns whether there was one. With `names` it is for a thread, because their file system may be slow.
        """
        names = tuple(names)
        roots = {root for folder in self.folders for root in (folder.root, folder.real) if isinstance(root, Path)}
        outside = {name.parent for name in names if self._folders_above(name)[0] is None}
        tops = {folder: settings_root_of(folder) for folder in roots | outside}
        with self._lock:
            if not tops.items() <= self._tops.items():
                self._tops.update(tops)
                self._merged = {}
        looked_at = [*(root / FILE_NAME for root in self.roots), *names]
        folders = dict.fromkeys(path for name in looked_at for path in self._folders_above(name)[1])
        with self._lock:
            old = {path: self._files.get(path) or SettingsFile(path / FILE_NAME) for path in folders}
        new = {path: SettingsFile.from_folder(path) for path, file in old.items() if _stamp(file.path) != file.stamp}
        if new:
            with self._lock:
                self._files.update(new)
                self._merged = {}
        return bool(new)

    def for_uri(self, uri: str) -> Settings:
        return self.at_path(comparable_path(uri))

    def at_path(self, path: PurePath) -> Settings:
        """The settings at a path, from the files that `refresh` has read."""
        return self._merged_at(path)[0]

    def is_secret(self, names: Sequence[str], own: Settings) -> bool:
        """Whether a file known by these names must not be read, by `own` settings and by those at each of its names."""
        return any(is_secret(name, settings) for settings in self._settings_of(names, own) for name in names)

    def disabled_reason(self, names: Sequence[str], language: str, own: Settings) -> str | None:
        """Why a file known by these names, the user's first, is not read and gets no fills; None if it does. By `own`
        settings and by those at each of its names, as far as `refresh` has read them.
        """
        for settings in self._settings_of(names, own):
            for name in names:
                is_link = name != names[0]
                off = _languages(language, name, is_link=is_link) & _disabled(settings)
                if rule := secret_reason(name, settings):
                    reason = "files like this one may hold secrets and are never read"
                    reason = f"{reason} (secretGlobs)" if rule == "secretGlobs" else f"by {rule}, {reason}"
                elif off:
                    reason = f"fills are switched off for {min(off)} (disabledLanguages)"
                elif matches_globs(name, settings.disabled_globs):
                    reason = "fills are switched off for this file (disabledGlobs)"
                else:
                    continue
                return f"{reason} (it leads to {name})" if is_link else reason
        return None

    def unreadable_reason(self, path: Path, language: str) -> str | None:
        """`disabled_reason` for any file, after following its links and reading the settings above it. In a thread."""
        names = paths_via_links(path)
        self.refresh(names)
        names = self.with_hard_links(names)
        return self.disabled_reason([name.as_posix() for name in names], language, self.at_path(path))

    def with_hard_links(self, names: tuple[Path, ...]) -> tuple[Path, ...]:
        """The `paths_via_links` of a file, and the name of the secret met before that is the same file, if any. In a
        thread, after `refresh`. Other files are not compared: package managers link thousands.
        """
        real = names[-1]
        try:
            about = real.stat()
        except (OSError, ValueError):
            return names
        key = about.st_dev, about.st_ino
        if self.is_secret([name.as_posix() for name in names], self.at_path(names[0])):
            with self._lock:
                self._secrets[key] = real
                while len(self._secrets) > _MAX_SECRETS:
                    del self._secrets[next(iter(self._secrets))]
            return names
        secret = self._secrets.get(key)
        with suppress(OSError):  # the secret is gone, and its inode may have become another file's
            if secret is not None and secret.samefile(real):
                return (*names, secret)
        return names

    def path_in_workspace(self, uri: str) -> str:
        """A document's path from its innermost folder; outside all folders its name alone."""
        path = comparable_path(uri)
        folder = self._folders_above(path)[0]
        is_below = folder and path.is_relative_to(folder.root)
        return path.relative_to(folder.root).as_posix() if folder and is_below else path.name

    @property
    def roots(self) -> tuple[Path, ...]:
        return tuple(folder.root for folder in self.folders if isinstance(folder.root, Path))

    def _settings_of(self, names: Sequence[str], own: Settings) -> list[Settings]:
        all_settings = [own]
        all_settings += (settings for name in names if (settings := self.at_path(Path(name))) not in all_settings)
        return all_settings

    @property
    def _user_settings(self) -> Settings:
        return merge_layers([self._options, *self._environment, self._flags])[0]

    def _merged_at(self, path: PurePath) -> tuple[Settings, list[str]]:
        """The settings at a path and their problems. Cached, because every keystroke asks."""
        merged = self._merged
        if path.parent not in merged:
            folder, folders = self._folders_above(path)
            if folder is None and self.folders and not isinstance(path, Path):
                return self._merged_at(self.folders[0].root / FILE_NAME)
            files = [file.layer for parent in folders if (file := self._files.get(parent)) and file.layer]
            sent = self._sent.get(folder.uri if folder else None) or self._sent.get(None)
            layers = [self._options, *([sent] if sent else []), *files, *self._environment, self._flags]
            merged[path.parent] = merge_layers(layers, self._started)
        return merged[path.parent]

    def _folders_above(self, path: PurePath) -> tuple[WorkspaceFolder | None, tuple[Path, ...]]:
        """The innermost workspace folder of a path, and the folders above it whose settings files count."""
        roots = [(folder, root) for folder in self.folders for root in (folder.root, folder.real)]
        holding = [(folder, root) for folder, root in roots if path.is_relative_to(root)]
        holding.sort(key=lambda pair: len(pair[1].parts))
        innermost = holding[-1][0] if holding else None
        if not isinstance(path, Path):
            return innermost, ()
        outermost = holding[0][1] if holding else path.parent
        top = self._tops.get(Path(outermost))
        above = [parent for parent in path.parents if top and parent.is_relative_to(top)]
        return innermost, tuple(reversed(above))


def _languages(language_id: str, name: str, *, is_link: bool) -> set[str]:
    """The ids of the language of a file that an editor calls so; of a link's target also the one of its name."""
    return {language_id, resolve_language_id(language_id, name), language_id_of_path(name) if is_link else language_id}


def _disabled(settings: Settings) -> set[str]:
    ids = settings.disabled_languages
    return {*ids, *(resolve_language_id(language_id, "") for language_id in ids)}


def settings_root_of(path: Path) -> Path:
    """The outermost folder whose settings count for a path: its repository. Without one, or if only folders above that
    have settings of ours, the outermost of those; otherwise the file's own folder.
    """
    # `os.path` asks, because `Path` raises where the user may not look and for names that are too long
    folders = [path, *path.parents] if os.path.isdir(path) else list(path.parents)  # noqa: PTH112
    repository = next((folder for folder in folders if os.path.exists(folder / ".git")), None)  # noqa: PTH110
    settled = [folder for folder in folders if os.path.exists(folder / FILE_NAME)]  # noqa: PTH110
    if repository and (not settled or settled[0].is_relative_to(repository)):
        return repository
    return settled[-1] if settled else folders[0]
