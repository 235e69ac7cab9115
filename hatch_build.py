"""Writes the commit that a package is built from beside its code; a source archive brings it along."""

import subprocess
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface


class CommitHook(BuildHookInterface):
    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        if version != "editable" and self._in_checkout():
            asked = ("git", "describe", "--always", "--dirty")
            self._file().write_bytes(subprocess.run(asked, cwd=self.root, stdout=subprocess.PIPE).stdout)

    def finalize(self, version: str, build_data: dict[str, Any], artifact_path: str) -> None:
        if self._in_checkout():
            self._file().unlink(missing_ok=True)  # the checkout's own commit changes

    def _in_checkout(self) -> bool:
        return Path(self.root, ".git").exists()

    def _file(self) -> Path:
        return Path(self.root, "lsp_server", "commit.txt")
