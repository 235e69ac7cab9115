"""Screenshots from the tests, for the READMEs. Nothing is staged: each shows VS Code in the test."""

import base64
import io
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from PIL import Image, ImageChops

from tests.editors.vscode.window import Window

FIRST_MS, HOLD_MS, LAST_MS = 1200, 400, 3000
COLORS = 128


def kept_in() -> Path | None:
    name = os.environ.get("INFILL_PICTURES")
    return Path(name) if name else None


def take(window: Window, name: str, *, width: int, height: int) -> None:
    """Keeps a picture of the upper left of the editor; its size is in CSS pixels."""
    if kept_in():
        _keep(window.page.screenshot(clip=window.clip(width, height)), name)


def take_notification(window: Window, name: str) -> None:
    """Keeps a picture of the message that VS Code shows."""
    if kept_in():
        _keep(window.page.locator(".notifications-toasts").screenshot(animations="disabled"), name)


def _keep(png: bytes, name: str) -> None:
    image = Image.open(io.BytesIO(png))
    image.quantize(256, dither=Image.Dither.NONE).save((kept_in() or Path()) / f"{name}.png", optimize=True)


@contextmanager
def film(window: Window, name: str, *, width: int, height: int) -> Iterator[None]:
    """Keeps what happens meanwhile as an animation: each different frame that was painted, slowed down."""
    folder = kept_in()
    if folder is None:
        yield
        return
    window.page.wait_for_timeout(600)  # the light bulb has come
    session = window.page.context.new_cdp_session(window.page)
    painted: list[bytes] = []

    def on_frame(frame: dict[str, Any]) -> None:
        painted.append(base64.b64decode(frame["data"]))
        session.send("Page.screencastFrameAck", {"sessionId": frame["sessionId"]})

    session.on("Page.screencastFrame", on_frame)
    session.send("Page.startScreencast", {"format": "png", "everyNthFrame": 1})
    yield
    window.page.wait_for_timeout(300)
    session.send("Page.stopScreencast")
    session.detach()
    _animate([_cut(window, frame, width, height) for frame in painted], folder / f"{name}.gif")


def _cut(window: Window, frame: bytes, width: int, height: int) -> Image.Image:
    image = Image.open(io.BytesIO(frame)).convert("RGB")
    view = window.page.viewport_size
    scale, clip = image.width / view["width"], window.clip(width, height)
    left, top = clip["x"] * scale, clip["y"] * scale
    return image.crop((round(left), round(top), round(left + width * scale), round(top + height * scale)))


def _animate(frames: list[Image.Image], file: Path) -> None:
    different = [frames[0]]
    for frame in frames[1:]:
        if ImageChops.difference(frame, different[-1]).getbbox():
            different.append(frame)
    strip = Image.new("RGB", (different[0].width, different[0].height * len(different)))
    for number, frame in enumerate(different):
        strip.paste(frame, (0, number * frame.height))
    palette = strip.quantize(COLORS, dither=Image.Dither.NONE)
    first, *rest = [frame.quantize(palette=palette, dither=Image.Dither.NONE) for frame in different]
    durations = [FIRST_MS, *[HOLD_MS] * (len(rest) - 1), LAST_MS]
    first.save(file, save_all=True, append_images=rest, duration=durations, loop=0, optimize=True)
