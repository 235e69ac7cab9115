"""What a model reads before the first hole, and what is pinned after the last line of a file.

Two styles, a property of the checkpoint:

`plain` is the file itself, behind <bos> when it is shown from its start. Small infilling checkpoints are trained so.

`chat` is for the released DiffusionGemma, which was tuned on conversations. Told to "reply only with the code" it often
answers with nothing; so the instruction, the text of other files and what stands too far behind the hole for the canvas
are in the user's turn, the file's own prefix stands inside the model's turn, as if it were writing the file, and the
canvas pins the suffix, the end of the turn and some end-of-sequence tokens, the tail it saw in tuning. It has neither
mask nor fill-in-the-middle tokens.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import msgspec

from inference.engine.canvas import cutting
from inference.engine.canvas.vocabulary import Vocabulary
from inference.engine.errors import RequestError
from inference.messages import InfillRequest, Snippet
from inference.models.family import Properties

_CHARACTERS_PER_TOKEN = 4
_TAIL_EOS_TOKENS = 8
_CONTEXT_SHARE, _FURTHER_SHARE = 2, 8
"""Other files, and the text far behind the hole, get one part in so many of the prefix; what matters most is the text
before the hole."""

SHORT_PREFIX_TOKENS = 512
"""Of a prefix that must be read in a pass or two, because the request is late."""

_LONGEST_PATH = 1024
"""Of a longer path, the end."""

_SHORT_PATH = 128
"""Of the path in a short prefix."""


@dataclass(frozen=True)
class Frame:
    """The tokens around the text of the file: before its prefix, and after its suffix where the file ends."""

    before: tuple[int, ...]
    after: tuple[int, ...]
    rest: int | None = None
    """The token of all rows behind `after`, on a canvas that is filled."""


def frame(vocabulary: Vocabulary, properties: Properties, request: InfillRequest, further: str = "") -> Frame:
    """The frame of one request. Falls back to `plain` where a chat checkpoint lacks the turn tokens.

    `further` is text of the file that neither its prefix nor the canvas shows. Raises RequestError where the
    instruction leaves too little room for the file.
    """
    eos = properties.eos_token_id
    eos = vocabulary.id_of("<eos>") if eos is None else eos
    start, end = vocabulary.id_of("<|turn>"), vocabulary.id_of("<turn|>")
    if properties.prompt != "chat" or start is None or end is None:
        return Frame((), () if eos is None else (eos,))
    bos = vocabulary.id_of("<bos>")
    most = context_tokens(vocabulary, properties)
    wanted = _wanted(vocabulary, request, most)
    others = _snippets(vocabulary, request.context, most, wanted)
    user = vocabulary.encode("user\n" + others + _further(request, further) + wanted)
    model = vocabulary.encode("model\n")
    line_break = vocabulary.encode("\n")
    before = ((bos,) if bos is not None else ()) + (start, *user, end, *line_break, start, *model)
    return Frame(before, (end,) + ((eos,) * _TAIL_EOS_TOKENS if eos is not None else ()), eos)


def short_frame(vocabulary: Vocabulary, properties: Properties, request: InfillRequest) -> Frame:
    """The frame of a short prefix: without text from elsewhere, and without an instruction that takes half of it."""
    alone = msgspec.structs.replace(request, context=(), path=request.path[-_SHORT_PATH:])
    found = frame(vocabulary, properties, alone)
    if len(found.before) <= SHORT_PREFIX_TOKENS // 2:
        return found
    return frame(vocabulary, properties, msgspec.structs.replace(alone, instruction=""))


def context_tokens(vocabulary: Vocabulary, properties: Properties) -> int:
    """How much of other files a prompt has room for beside the file's own prefix; 0 where it shows the file alone."""
    return properties.max_prefix_tokens // _CONTEXT_SHARE if _has_turns(vocabulary, properties) else 0


def further_tokens(vocabulary: Vocabulary, properties: Properties) -> int:
    """How much of the text far behind a hole a prompt has room for; 0 where it shows the file alone."""
    return properties.max_prefix_tokens // _FURTHER_SHARE if _has_turns(vocabulary, properties) else 0


def prefix(vocabulary: Vocabulary, properties: Properties, text: str, maximum: int) -> tuple[int, ...]:
    """The last tokens of the text before the first hole, at most `maximum`; from a line's start where it is cut."""
    start = cutting.window_start(text, maximum * _CHARACTERS_PER_TOKEN)
    ids = vocabulary.encode(text[start:])
    if len(ids) > maximum:
        ids = ids[cutting.token_window_start(len(ids), maximum) :]
    elif start == 0 and properties.prompt == "plain":
        bos = properties.bos_token_id
        bos = vocabulary.id_of("<bos>") if bos is None else bos
        ids = (ids if bos is None else [bos, *ids])[-maximum:]
    return tuple(ids)


def _has_turns(vocabulary: Vocabulary, properties: Properties) -> bool:
    known = vocabulary.id_of("<|turn>") is not None and vocabulary.id_of("<turn|>") is not None
    return properties.prompt == "chat" and known


def _wanted(vocabulary: Vocabulary, request: InfillRequest, most: int) -> str:
    """The user's instruction. Raises RequestError where the instruction has more than `most` tokens."""
    instruction = f"{request.instruction.strip()}\n" if request.instruction.strip() else ""
    if _tokens_up_to(vocabulary, instruction, most) > most:
        raise RequestError(
            f"an instruction of {len(instruction)} characters is too long: at most {most} of the model's tokens, "
            f"some {most * _CHARACTERS_PER_TOKEN} characters; make it shorter"
        )
    return instruction + f"Write {_shown_path(request) or 'the file'} in full. Reply with its text only."


def _further(request: InfillRequest, text: str) -> str:
    return f"{_shown_path(request) or 'The file'}, further down:\n{text}\n\n" if text else ""


def _shown_path(request: InfillRequest) -> str:
    return request.path[-_LONGEST_PATH:]


def _snippets(vocabulary: Vocabulary, context: Sequence[Snippet], most: int, wanted: str) -> str:
    """As many of the snippets, which are in their order of use, as fit in `most` tokens beside what is wanted."""
    texts: list[str] = []
    room = most - len(vocabulary.encode("user\n" + wanted))
    for snippet in context:
        text = f"File {snippet.path}:\n{snippet.text}\n\n"
        room -= _tokens_up_to(vocabulary, text, max(0, room))
        if room < 0:
            break
        texts.append(text)
    return "".join(texts)


def _tokens_up_to(vocabulary: Vocabulary, text: str, most: int) -> int:
    """How many tokens a text has; of one that is far too long, only that these are more than `most`."""
    return most + 1 if len(text) > most * cutting.CHARACTERS_PER_TOKEN else len(vocabulary.encode(text))
