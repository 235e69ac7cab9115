"""Defines what the user can set: the fields, limits and defaults of `Settings`. Knows no LSP types and no files."""

from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta, Struct

from inference.messages import MAX_STEPS, EditKind, PartnerKind, WorkerOptions
from inference.models.catalogue import AUTO

Globs = tuple[str, ...]
Dtype = Literal["bfloat16", "float16", "float32", "8bit", "4bit"]
PARTNER = "partner"
"""The `model` of a user whose only model is the partner."""
OFF = "off"
"""The `nextEdit.model` of a user without one."""
MAX_CANDIDATES = 8
MAX_IDLE_S = 31_536_000
"""A year: more is a mistake, and no clock can count to infinity."""


class PerTrigger(Struct, frozen=True, rename="camel", forbid_unknown_fields=True):
    """A limit for automatic suggestions, and for explicit requests."""

    automatic: Annotated[int, Meta(ge=1, le=3_600_000, description="For automatic suggestions.")]
    invoked: Annotated[int, Meta(ge=1, le=3_600_000, description="For explicit requests.")]


class Candidates(Struct, frozen=True, rename="camel", forbid_unknown_fields=True):
    """How many answers to compute for each hole; an automatic suggestion gets one."""

    invoked: Annotated[int, Meta(ge=1, le=MAX_CANDIDATES, description="For explicit requests.")] = 3


class ContextSettings(Struct, frozen=True, rename="camel", forbid_unknown_fields=True):
    """What the model sees besides the text around a hole: the pieces of other text that are most like that."""

    enabled: Annotated[
        bool,
        Meta(
            description="Include snippets from open and imported files, and from distant parts of a long file, "
            "in the prompt."
        ),
    ] = True


_ServedName = Annotated[
    str | None, Meta(description="The server's name for the model. When null, the only one it lists.")
]
_PlainHttp = Annotated[
    bool, Meta(description="Allow plain http to another machine. Anyone on the network can then read your code.")
]


class ServerSettings(Struct, frozen=True, rename="camel", forbid_unknown_fields=True):
    """A model on a server, for a `model` that is a URL."""

    model: _ServedName = None
    tokenizer: Annotated[
        str | None,
        Meta(description="Folder or hub id of its tokenizer on this machine. When null, the server names it."),
    ] = None
    plain_http: _PlainHttp = False


class PartnerSettings(Struct, frozen=True, rename="camel", forbid_unknown_fields=True):
    """An autoregressive model on a server that the user runs: it refines drafts, or fills alone."""

    url: Annotated[
        str | None,
        Meta(
            description="Base URL of a server that offers /v1/completions, /v1/chat/completions or /infill. "
            "If null, there is no partner."
        ),
    ] = None
    model: _ServedName = None
    kind: Annotated[
        PartnerKind,
        Meta(description="How to prompt it. auto detects this; a family's name selects that family's tokens."),
    ] = "auto"
    plain_http: _PlainHttp = False


class NextEditSettings(Struct, frozen=True, rename="camel", forbid_unknown_fields=True):
    """Whether to offer the places that no longer fit after an edit, one after the other."""

    enabled: Annotated[
        bool,
        Meta(description="Offer follow-up edits after a change, such as the remaining uses of a renamed function."),
    ] = True
    model: Annotated[
        str,
        Meta(
            min_length=1,
            description="The edit model. `auto` uses the best pulled one if it fits in memory next to `model` and is "
            "fast enough. Otherwise a name (see `infill-ls models`), a .gguf file, a folder, or the URL of llama.cpp "
            "or vLLM. off: none.",
        ),
    ] = AUTO
    kind: Annotated[
        EditKind, Meta(description="The edit model's prompt format. auto derives it from the model's name.")
    ] = "auto"
    plain_http: _PlainHttp = False


class Settings(Struct, frozen=True, rename="camel", forbid_unknown_fields=True):
    """The settings of infill-ls."""

    model: Annotated[
        str,
        Meta(
            min_length=1,
            description="The model. `auto` picks the best pulled model for this machine. Otherwise a name from "
            "`infill-ls models`, a Hugging Face id, a folder, a .gguf file, vLLM's URL, or `partner`.",
        ),
    ] = AUTO
    device: Annotated[
        str | None, Meta(description="Compute device: `cpu`, `cuda`, `mps` or `mlx`. If null, the best one available.")
    ] = None
    dtype: Annotated[
        Dtype | None,
        Meta(description="Number format of the weights. 8bit and 4bit save memory. When null, the best that fits."),
    ] = None
    server: Annotated[ServerSettings, Meta(description="Used when `model` is a server's URL.")] = ServerSettings()
    partner: Annotated[PartnerSettings, Meta(description="An autoregressive model on a server that you run.")] = (
        PartnerSettings()
    )
    idle_seconds: Annotated[
        float,
        Meta(ge=1, le=MAX_IDLE_S, description="How long the worker keeps running without clients, in seconds."),
    ] = 600.0
    deadline_ms: Annotated[
        PerTrigger, Meta(description="Time limit for an answer, in ms. After that, the best one so far is used.")
    ] = PerTrigger(automatic=2_000, invoked=10_000)
    candidates: Annotated[Candidates, Meta(description="How many answers to compute for each hole.")] = Candidates()
    max_steps: Annotated[
        Annotated[int, Meta(ge=1, le=MAX_STEPS)] | None,
        Meta(description="Maximum number of denoising steps. When null, the model's default."),
    ] = None
    debounce_ms: Annotated[
        int,
        Meta(ge=0, le=10_000, description="How long to wait after a keystroke before an automatic suggestion, in ms."),
    ] = 75
    suggestions: Annotated[
        Literal["calm", "balanced", "eager"],
        Meta(
            description="How sure the model must be of automatic suggestions, which end before the first word that it "
            "doubts. calm: fewer and shorter ones, of which more are right. eager: more and longer ones."
        ),
    ] = "balanced"
    prefetch: Annotated[
        bool, Meta(description="Compute what follows an accepted suggestion before you ask for it.")
    ] = True
    read_ahead: Annotated[
        Literal["on", "off", "mains"],
        Meta(
            description="Have the model read the text where the cursor rests, and the line below a suggestion, before "
            "you type there. mains: not on battery. Sends nothing: it concerns local models alone."
        ),
    ] = "mains"
    next_edit: Annotated[NextEditSettings, Meta(description="Suggest the next edit after you change something.")] = (
        NextEditSettings()
    )
    completion: Annotated[
        Literal["auto", "always", "never"],
        Meta(
            description="Also offer fills in the completion list. `auto`: only if the editor does not support "
            "inline completion."
        ),
    ] = "auto"
    statistics: Annotated[
        Literal["on", "off"],
        Meta(description="Count suggestions you see and accept, for `infill-ls stats`. Keeps no text, sends nothing."),
    ] = "on"
    context: Annotated[ContextSettings, Meta(description="What else the model sees.")] = ContextSettings()
    marker: Annotated[str, Meta(min_length=1, max_length=64, description="Text that marks a hole.")] = "???"
    disabled_languages: Annotated[Globs, Meta(description="Language ids to exclude from fills.")] = ()
    disabled_globs: Annotated[Globs, Meta(description="Files to exclude from fills.")] = ()
    secret_globs: Annotated[
        Globs, Meta(description="Files never to read or send, in addition to the built-in list.")
    ] = ()
    allowed_secret_globs: Annotated[
        Globs, Meta(description="Files to read and send although the built-in list takes them for secret.")
    ] = ()
    trust_workspace: Annotated[
        bool, Meta(description="Let a workspace's settings choose the model, the server and the device.")
    ] = False


WORKER_FIELDS = tuple(
    name for name in Settings.__struct_fields__ if name in WorkerOptions.__struct_fields__ and name != PARTNER
)
"""Fields that the worker gets under the same name."""
STARTUP = frozenset({*WORKER_FIELDS, "server", "partner", "idle_seconds", "trust_workspace"})
"""Fields that choose the worker. They are read once, at start."""
START_TAG = "start"
USER_ONLY = STARTUP - {"idle_seconds"}
"""Fields that a workspace may set only if the user trusts it: a checkout must not point the model elsewhere."""
USER_WIDENS = (
    ("statistics",),
    ("context", "enabled"),
    ("prefetch",),
    ("next_edit", "enabled"),
    ("next_edit", "model"),
    ("next_edit", "plain_http"),
    ("allowed_secret_globs",),
)
"""What a workspace may switch off or narrow, but neither switch on nor widen: it decides which data is kept or sent."""


def json_schema() -> dict[str, Any]:
    """A new JSON Schema of all settings. `scope`, in VS Code's words, is `machine` where a workspace has no say."""
    _, parts = msgspec.json.schema_components([Settings], ref_template="{name}")
    schema: dict[str, Any] = parts["Settings"]
    del schema["required"]  # none is
    of_folder = {"context", "prefetch", "next_edit"}
    users_alone = {*USER_ONLY, *(path[0] for path in USER_WIDENS)} - of_folder
    for field in msgspec.structs.fields(Settings):
        own = schema["properties"][field.encode_name]
        group = parts.get(own.pop("$ref", ""), {})
        described = {key: value for key, value in group.items() if key not in ("title", "required")} | own
        described["scope"] = "machine" if field.name in users_alone else "resource"
        described |= {"tags": [START_TAG]} if field.name in STARTUP else {}
        schema["properties"][field.encode_name] = described
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **schema, "title": "infill-ls"}
