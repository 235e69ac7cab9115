"""Which worker a client wants."""

from dataclasses import dataclass, replace
from pathlib import Path

EMBEDDED = "embedded"


@dataclass(frozen=True)
class WorkerOptions:
    """The model and how it is run. The first three choose the worker; the others count when one is started.

    `model` is a hub id, a folder, or the checkpoint that ships with the package. None lets the worker choose.
    """

    model: str = EMBEDDED
    device: str | None = None
    dtype: str | None = None
    idle_s: float = 600
    allow_download: bool = False

    def resolved(self) -> "WorkerOptions":
        """The same with a folder as an absolute path, so that it means one worker wherever it is asked from."""
        folder = Path(self.model).expanduser()
        looks_like_a_path = self.model.startswith((".", "/", "~")) or folder.is_absolute()
        if self.model == EMBEDDED or not (looks_like_a_path or folder.is_dir()):
            return self
        return replace(self, model=str(folder.resolve()))
