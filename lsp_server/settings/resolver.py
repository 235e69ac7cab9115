"""Resolves the settings of each document from all their sources, by its workspace folder. Knows no LSP types.

From the weakest to the strongest: the editor's start options, the settings it sends while it runs, `infill-ls.toml`,
the environment, the command line. A workspace does not speak for the user: see `layers.Origin`.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePath
from typing import Any

from lsp_server.documents.uris import local_path, place_of
from lsp_server.settings.environment import environment_layers
from lsp_server.settings.file import NAME, SettingsFile
from lsp_server.settings.layers import Layer, Origin, resolve
from lsp_server.settings.privacy import ReadableFolder, innermost_folder
from lsp_server.settings.schema import PARTNER, Settings

MAX_PROBLEMS = 10
_MAX_LINE = 400


@dataclass(frozen=True)
class WorkspaceFolder:
    """A workspace folder. `path` is None if it is not on this machine."""

    uri: str
    path: Path | None
    root: PurePath

    @classmethod
    def of(cls, uri: str) -> "WorkspaceFolder":
        """The folder at a URI."""
        return cls(uri, local_path(uri), place_of(uri))


class Configuration:
    """All layers of settings. They are merged on first use, and again after each change."""

    def __init__(self, flags: Mapping[str, Any], environment: Mapping[str, str]) -> None:
        self._environment, self._environment_problems = environment_layers(environment)
        self._flags = Layer("command line", dict(flags))
        self._options = Layer("initializationOptions", None)
        self._sent: dict[str | None, Layer] = {}
        self._files: dict[WorkspaceFolder, SettingsFile | None] = {}
        self._started: Settings | None = None
        self._resolved: dict[WorkspaceFolder | None, tuple[Settings, list[str]]] = {}

    @property
    def folders(self) -> tuple[WorkspaceFolder, ...]:
        """The workspace folders, in the editor's order."""
        return tuple(self._files)

    @property
    def settings(self) -> Settings:
        """The settings for anything outside all folders: those of the first folder."""
        return self._of(next(iter(self._files), None))[0]

    @property
    def sends_token(self) -> bool:
        """Whether the server gets the user's token: only if the user's own settings send it there."""
        if self.settings.model == PARTNER:
            return self.sends_partner_token
        own, now = self._users_own, self.settings
        return own.model == now.model and (own.server.plain_http or not now.server.plain_http)

    @property
    def sends_partner_token(self) -> bool:
        """The same for the partner and its token."""
        own, now = self._users_own.partner, self.settings.partner
        return own.url == now.url and (own.plain_http or not now.plain_http)

    @property
    def problems(self) -> list[str]:
        """The unusable settings of any folder; each once, up to a readable number."""
        every = [self._of(folder)[1] for folder in self._files or (None,)]
        files = [file.problem for file in self._files.values() if file and file.problem]
        lines = list(dict.fromkeys([*self._environment_problems, *files, *(line for lines in every for line in lines)]))
        more = len(lines) - MAX_PROBLEMS
        shown = [line[:_MAX_LINE] for line in lines[:MAX_PROBLEMS]]
        return [*shown, f"{more} more settings could not be used; correct these first"] if more > 0 else shown

    @property
    def files(self) -> list[Path]:
        """The existing settings files."""
        return [file.path for file in self._files.values() if file and file.layer]

    def start(self, options: object, folders: Sequence[str]) -> None:
        """The editor's start options and its folders' URIs. Settings that are read only at start are read here."""
        self._options = self._options._replace(raw=options)
        self.change_folders(folders, ())
        self._started = self.settings
        self._resolved.clear()

    def change_folders(self, added: Sequence[str], removed: Sequence[str]) -> None:
        """Adds and removes workspace folders."""
        gone = {WorkspaceFolder.of(uri) for uri in removed}
        self._files = {folder: file for folder, file in self._files.items() if folder not in gone}
        for folder in map(WorkspaceFolder.of, added):
            self._files.setdefault(folder, SettingsFile(folder.path) if folder.path else None)
        for folder in gone:
            self._sent.pop(folder.uri, None)
        self._resolved.clear()
        self.refresh()

    def take_sent(self, raw: object, folder: str | None = None) -> None:
        """From now on the editor's settings are `raw`, in the folder with this URI or everywhere. None: it has none."""
        self._sent[folder] = Layer("settings", raw, Origin.EDITOR)
        if raw is None:
            del self._sent[folder]
        self._resolved.clear()

    def refresh(self) -> bool:
        """Reads the settings files that have changed; returns whether there was one."""
        changed = [file.refresh() for file in self._files.values() if file]
        if any(changed):
            self._resolved.clear()
        return any(changed)

    def have_files_changed(self) -> bool:
        """Whether `refresh` would read a file. Safe in a thread, because a file system may be slow."""
        return any(file.has_changed() for file in tuple(self._files.values()) if file)

    def of(self, uri: str) -> Settings:
        """The settings for a document."""
        return self.at(place_of(uri))

    def at(self, place: PurePath) -> Settings:
        """The settings at a place. For a file outside all folders, no `infill-ls.toml` counts."""
        folder = innermost_folder(place, self._files)
        return self._of(folder)[0] if folder or isinstance(place, Path) else self.settings

    def name_of(self, uri: str) -> str:
        """A document's path from its innermost folder; outside all folders its name alone."""
        place = place_of(uri)
        folder = innermost_folder(place, self._files)
        return place.relative_to(folder.root).as_posix() if folder else place.name

    @property
    def readable_folders(self) -> tuple[ReadableFolder, ...]:
        """The folders on this machine, each with its settings."""
        return tuple(ReadableFolder(folder.path, self._of(folder)[0]) for folder in self._files if folder.path)

    @property
    def _users_own(self) -> Settings:
        """The settings without any workspace."""
        layers = self._layers(next(iter(self._files), None))
        return resolve([layer for layer in layers if layer.origin is Origin.USER])[0]

    def _of(self, folder: WorkspaceFolder | None) -> tuple[Settings, list[str]]:
        if folder not in self._resolved:
            self._resolved[folder] = resolve(list(self._layers(folder)), self._started)
        return self._resolved[folder]

    def _layers(self, folder: WorkspaceFolder | None) -> list[Layer]:
        file = self._files.get(folder) if folder else None
        sent = self._sent.get(folder.uri if folder else None) or self._sent.get(None)
        between = [layer for layer in (sent, file.layer if file else None) if layer]
        return [self._options, *between, *self._environment, self._flags]


def configuration_for(path: Path, flags: Mapping[str, Any], environment: Mapping[str, str]) -> Configuration:
    """The configuration of a file or folder outside of any editor: that of the folder an editor would likely open."""
    configuration = Configuration(flags, environment)
    configuration.start(None, [workspace_of(path).as_uri()])
    return configuration


def workspace_of(path: Path) -> Path:
    """The nearest folder with our settings, otherwise with a repository in it, otherwise the file's own folder."""
    folders = [path, *path.parents] if path.is_dir() else list(path.parents)
    for name in (NAME, ".git"):
        if found := next((folder for folder in folders if (folder / name).exists()), None):
            return found
    return folders[0]
