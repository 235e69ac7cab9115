"""Records the canvas settling, as `infill-ls fill` shows it on a terminal, as a picture: examples/settling.svg.

Each frame is a real draft of the model after a denoising step. Run it with `make picture`.
"""

import asyncio
import io
import re
from pathlib import Path

from rich.console import Console
from rich.text import Text

from inference.messages import Draft, Hole, InfillRequest
from inference.messages import Text as Pinned
from lsp_server import carve
from lsp_server.commands.output import excerpt
from lsp_server.documents.document import Document
from lsp_server.worker import WorkerClient, WorkerOptions

HERE = Path(__file__).resolve().parent
FILE = HERE / "report.py"
FRAMES = 4
_FONTS = re.compile(r"@font-face \{.*?\}", re.DOTALL)
"""Fonts that a viewer would fetch from elsewhere; its own monospaced font serves."""


async def drafts(segments: tuple[Pinned | Hole, ...]) -> list[Draft]:
    """Every draft of one request."""
    client, seen = WorkerClient(WorkerOptions("embedded"), name="record"), list[Draft]()
    try:
        await client.infill(InfillRequest("record", segments, drafts=True, seed=1), on_draft=seen.append)
    finally:
        await client.close()
    return seen


def main() -> None:
    """Writes the picture."""
    snapshot = Document(FILE.as_uri(), "python", 0, FILE.read_text("utf-8")).snapshot()
    spans = tuple(carve.markers(snapshot))
    seen = asyncio.run(drafts(carve.segments(snapshot.text, spans)))
    console = Console(record=True, width=72, file=io.StringIO(), force_terminal=True)
    console.print(Text(f"$ infill-ls fill {FILE.name}", style="bold"))
    for number in range(FRAMES):
        draft = seen[round(number * (len(seen) - 1) / (FRAMES - 1))]
        console.print(Text(f"\nstep {draft.step} of {draft.max_steps}", style="dim"))
        console.print(excerpt(snapshot, spans, draft), end="")
    picture = console.export_svg(title="infill-ls: a canvas settles", unique_id="settling")
    (HERE / "settling.svg").write_text(_FONTS.sub("", picture), "utf-8")


if __name__ == "__main__":
    main()
