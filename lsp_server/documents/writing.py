"""Replace the text of the user's file: the whole of it, or nothing."""

import os
import tempfile
from pathlib import Path

from lsp_server.documents.reading import BadInput, read_named_file


def replace_text(file: Path, expected: str, text: str) -> None:
    """Write `text` over the file in one rename and keep its permissions; follow a link to its target.

    Raises BadInput where the file no longer holds `expected`, or cannot be written; it is then as it was.
    """
    target = file.resolve()
    if read_named_file(target) != expected:
        raise BadInput(f"{file} was changed by someone else meanwhile; run the command again")
    if not os.access(target, os.W_OK):
        raise BadInput(f"{file} is read-only; it was left as it was")
    temporary = None
    try:
        with tempfile.NamedTemporaryFile(dir=target.parent, prefix=f".{target.name}.", delete=False) as stream:
            temporary = Path(stream.name)
            stream.write(text.encode())
            stream.flush()
            os.fsync(stream.fileno())
        temporary.chmod(target.stat().st_mode & 0o7777)
        temporary.replace(target)
    except OSError as error:
        raise BadInput(f"{file} cannot be written: {error.strerror}; it was left as it was") from None
    finally:
        if temporary is not None:
            temporary.unlink(missing_ok=True)
