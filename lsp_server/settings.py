"""What the user can set.

`Settings` is the one schema: its fields, their limits and their defaults are what editors may send (in camel case) and
what the server works with. How raw settings become one is in `settings_layers`. Knows no LSP types and no files.
"""

from typing import Annotated, Literal

from msgspec import Meta, Struct

from inference.messages import MAX_STEPS

Globs = tuple[str, ...]
LONGEST_IDLE_S = 31_536_000
"""A year: more is a mistake, and endless is no time a clock can count to."""


class PerTrigger(Struct, frozen=True, rename="camel", forbid_unknown_fields=True):
    """A limit for what appears by itself while typing, and for what the user asked for."""

    automatic: Annotated[int, Meta(ge=1, le=3_600_000)]
    invoked: Annotated[int, Meta(ge=1, le=3_600_000)]


class Candidates(Struct, frozen=True, rename="camel", forbid_unknown_fields=True):
    """How many answers to compute for each hole."""

    automatic: Annotated[int, Meta(ge=1, le=8)] = 1
    invoked: Annotated[int, Meta(ge=1, le=8)] = 3


class Settings(Struct, frozen=True, rename="camel", forbid_unknown_fields=True):
    """The server's settings. Those of `STARTUP` decide which worker is used: they are read once, at start."""

    model: Annotated[str, Meta(min_length=1, description="Hub id or folder of a block-diffusion checkpoint.")] = (
        "embedded"
    )
    device: Annotated[str | None, Meta(description="cpu, cuda or mps; the best one found when null.")] = None
    dtype: Annotated[
        Literal["bfloat16", "float16", "float32"] | None,
        Meta(description="Number format of the weights; what suits the device when null."),
    ] = None
    allow_download: Annotated[bool, Meta(description="Let the model be downloaded when it is not on this machine.")] = (
        False
    )
    idle_seconds: Annotated[
        float, Meta(ge=1, le=LONGEST_IDLE_S, description="The worker exits after so long without clients.")
    ] = 600.0
    start_worker: Annotated[bool, Meta(description="Load the model when the editor starts, not at first use.")] = True
    deadline_ms: Annotated[PerTrigger, Meta(description="After so long the best whole answer so far is taken.")] = (
        PerTrigger(automatic=2_000, invoked=10_000)
    )
    candidates: Annotated[Candidates, Meta(description="How many answers to compute for each hole.")] = Candidates()
    max_steps: Annotated[
        Annotated[int, Meta(ge=1, le=MAX_STEPS)] | None,
        Meta(description="Most denoising steps for a canvas; the checkpoint's own number when null."),
    ] = None
    marker: Annotated[str, Meta(min_length=1, max_length=64, description="Text that marks a hole.")] = "???"
    disabled_languages: Annotated[Globs, Meta(description="Language ids that get no fills.")] = ()
    disabled_globs: Annotated[Globs, Meta(description="Files that get no fills.")] = ()
    secret_globs: Annotated[Globs, Meta(description="Files never read nor sent, besides the built-in list.")] = ()


STARTUP = frozenset({"model", "device", "dtype", "allow_download", "idle_seconds", "start_worker"})
"""Fields that only the command line and the editor's start options decide. A workspace cannot point the model
elsewhere: its settings reach the server as later changes, and there these are refused."""
