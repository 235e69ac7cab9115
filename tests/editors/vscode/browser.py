"""A headless Chromium that contacts only VS Code."""

from pathlib import Path
from urllib.parse import urlsplit

from playwright.sync_api import BrowserContext, Playwright, Request

from tests.editors.vscode.code_server import browser
from tests.editors.vscode.private_network import PrivateNetwork

VIEW = {"width": 1000, "height": 640}
_FLAGS = (
    "--no-sandbox",  # inside the namespace we are root, which its sandbox refuses
    "--disable-gpu",
    "--disable-quic",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1",
)


def browser_in(playwright: Playwright, home: Path, network: PrivateNetwork | None) -> BrowserContext:
    """A browser in `network`, at double resolution for pictures. Its log of hosts is `home`/requests.log."""
    program = home / "chromium"
    words = [str(browser())] if network is None else network.command(str(browser()))
    program.write_text(f'#!/bin/sh\nexec {" ".join(words)} "$@"\n')
    program.chmod(0o755)
    started = playwright.chromium.launch(executable_path=program, args=list(_FLAGS))
    context = started.new_context(viewport=VIEW, device_scale_factor=2)
    log = home / "requests.log"
    log.touch()

    def note(request: Request) -> None:
        place = urlsplit(request.url)
        if place.scheme in ("http", "https", "ws", "wss"):
            with log.open("a") as lines:
                lines.write(f"{place.hostname}\n")

    context.on("request", note)
    return context
