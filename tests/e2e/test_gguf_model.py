"""A GGUF file as the model: it fills through the real server, and a damaged one is reported once, with the reason."""

from pathlib import Path

import pytest
from lsprotocol.types import Position

from tests.e2e.conftest import PATIENT, StartEditor
from tests.e2e.editor import capabilities
from tests.inference.models.test_gguf import FIM
from tests.served.to_gguf import main as write_gguf


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    file = tmp_path_factory.mktemp("gguf") / "small.gguf"
    write_gguf(FIM, file)
    return file


async def test_a_gguf_file_fills_and_is_named_in_status(start_editor: StartEditor, file: Path) -> None:
    editor = await start_editor(capabilities(), {**PATIENT, "model": str(file), "device": "cpu", "idleSeconds": 5})
    uri = editor.open("import os\n\n\ndef size(path):\n    return os.path.getsize(\n")
    await editor.complete(uri, Position(4, 27))
    status = await editor.status()
    assert (status.model, status.device, status.lastFailure) == (str(file), "cpu", None)
