"""What a model reads before the first hole, and what is pinned after the last line of a file.

Two styles, a property of the checkpoint:

`plain` is the file itself, behind <bos> when it is shown from its start. Small infilling checkpoints are trained so.

`chat` is for the released DiffusionGemma, which was tuned on conversations. Told to "reply only with the code" it often
answers with nothing; so the instruction and the text of other files stand in the user's turn, the file's own prefix
stands inside the model's turn, as if it were writing the file, and the canvas pins the suffix, the end of the turn and
some end-of-sequence tokens, the tail it saw in tuning. It has neither mask nor fill-in-the-middle tokens.
"""

from dataclasses import dataclass

import msgspec

from inference.engine.canvas.vocabulary import Vocabulary
from inference.messages import InfillRequest
from inference.models.family import Properties

_CHARACTERS_PER_TOKEN = 4
_WINDOW_PARTS = 4
"""A window over a long text moves in steps of this part of its size, so that its start, and with it the encoded
prefix, stays the same from keystroke to keystroke."""

_TAIL_EOS_TOKENS = 8
_CONTEXT_SHARE = 2
"""Other files get one part in so many of the prefix; the file's own text is what matters most."""


@dataclass(frozen=True)
class Frame:
    """The tokens around the text of the file: before its prefix, and after its suffix where the file ends."""

    before: tuple[int, ...]
    after: tuple[int, ...]


def frame(vocabulary: Vocabulary, properties: Properties, request: InfillRequest) -> Frame:
    """The frame of one request. Falls back to `plain` where a chat checkpoint lacks the turn tokens."""
    eos = vocabulary.id_of("<eos>")
    start, end = vocabulary.id_of("<|turn>"), vocabulary.id_of("<turn|>")
    if properties.prompt != "chat" or start is None or end is None:
        return Frame((), () if eos is None else (eos,))
    bos = vocabulary.id_of("<bos>")
    user = vocabulary.encode("user\n" + _instruction(request))
    most = context_tokens(vocabulary, properties)
    while request.context and len(user) > most:  # the snippets are in their order of use
        request = msgspec.structs.replace(request, context=request.context[:-1])
        user = vocabulary.encode("user\n" + _instruction(request))
    model = vocabulary.encode("model\n")
    line_break = vocabulary.encode("\n")
    before = ((bos,) if bos is not None else ()) + (start, *user, end, *line_break, start, *model)
    return Frame(before, (end,) + ((eos,) * _TAIL_EOS_TOKENS if eos is not None else ()))


def context_tokens(vocabulary: Vocabulary, properties: Properties) -> int:
    """How much of other files a prompt has room for beside the file's own prefix; 0 where it shows the file alone."""
    has_turns = vocabulary.id_of("<|turn>") is not None and vocabulary.id_of("<turn|>") is not None
    return properties.max_prefix_tokens // _CONTEXT_SHARE if properties.prompt == "chat" and has_turns else 0


def prefix(vocabulary: Vocabulary, properties: Properties, text: str, maximum: int) -> tuple[int, ...]:
    """The last tokens of the text before the first hole, at most `maximum`; from a line's start where it is cut."""
    start = _window_start(text, maximum * _CHARACTERS_PER_TOKEN)
    ids = vocabulary.encode(text[start:])
    if len(ids) > maximum:
        step = max(1, maximum // _WINDOW_PARTS)
        ids = ids[-(-(len(ids) - maximum) // step) * step :]
    elif start == 0 and properties.prompt == "plain" and (bos := vocabulary.id_of("<bos>")) is not None:
        ids = [bos, *ids][-maximum:]
    return tuple(ids)


def _window_start(text: str, size: int) -> int:
    """Where to start reading a long text: a line's start, the same for all cursors near each other."""
    step = max(1, size // _WINDOW_PARTS)
    start = max(0, -(-(len(text) - size) // step) * step)
    return 0 if start == 0 else max(text.rfind("\n", 0, start), 0)


def _instruction(request: InfillRequest) -> str:
    parts = [f"File {snippet.path}:\n{snippet.text}\n\n" for snippet in request.context]
    instruction = f"{request.instruction.strip()}\n" if request.instruction.strip() else ""
    return "".join(parts) + instruction + f"Write {request.path or 'the file'} in full. Reply with its text only."
