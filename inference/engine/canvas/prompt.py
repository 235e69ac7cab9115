"""The model's input before the first hole, and the pinned tokens after the last line of a file.

`plain` is the file itself, after <bos> when shown from its start. `chat` is for the released DiffusionGemma, which was
tuned on conversations: the user's turn has the instruction, other files and text far below the hole; the model's
turn has the file's prefix, as if it were writing the file. The canvas pins the suffix and the end of the turn.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import msgspec

from inference.engine import text_window
from inference.engine.canvas.vocabulary import Vocabulary
from inference.engine.errors import RequestError
from inference.messages import InfillRequest, Snippet
from inference.models.infill_config import InfillConfig

_USUAL_CHARS_PER_TOKEN = 4
_TAIL_EOS_TOKENS = 8
_SNIPPETS_SHARE = 2
_FAR_SUFFIX_SHARE = 8
"""One in this many tokens of the prefix is for other files, and for the text far below the hole."""

_FAR_SUFFIX_STEPS = 8
"""Text far below the hole begins at a multiple of this part of its largest size, before the end of the file. Finer
steps show more of the text right after the canvas; each step that the cursor crosses makes the prefix be read again.
"""

SHORT_PREFIX_TOKENS = 512
"""The tokens of a prefix that must be read in a pass or two, because the request is late."""

_MAX_PATH_CHARS = 1024
"""The prompt shows only this many characters at the end of a longer path."""

_SHORT_PATH_CHARS = 128
"""The same limit in a short prefix."""


@dataclass(frozen=True)
class PromptFrame:
    """The tokens around the text of the file: before its prefix, and after its suffix if that ends the file."""

    leading_ids: tuple[int, ...]
    trailing_ids: tuple[int, ...]
    filler_id: int | None = None
    """The token for all rows after `trailing_ids`, if the canvas is filled up."""


def build_prompt_frame(
    vocabulary: Vocabulary, infill_config: InfillConfig, request: InfillRequest, far_suffix: str = ""
) -> PromptFrame:
    """The frame of one request, `plain` if a chat checkpoint lacks the turn tokens. Only the frame has `far_suffix`.

    Raises RequestError if the instruction leaves too little room for the file.
    """
    eos = infill_config.eos_token_id
    eos = vocabulary.id_of("<eos>") if eos is None else eos
    start, end = _turns(vocabulary, infill_config)
    if start is None or end is None:
        return PromptFrame((), () if eos is None else (eos,))
    bos = vocabulary.id_of("<bos>")
    max_tokens = max_snippet_tokens(vocabulary, infill_config)
    path = request.path[-_MAX_PATH_CHARS:]
    instruction = f"{request.instruction.strip()}\n" if request.instruction.strip() else ""
    if _tokens_up_to(vocabulary, instruction, max_tokens) > max_tokens:
        raise RequestError(
            f"an instruction of {len(instruction)} characters is too long: at most {max_tokens} of the model's tokens, "
            f"some {max_tokens * _USUAL_CHARS_PER_TOKEN} characters; make it shorter"
        )
    task = instruction + f"Write {path or 'the file'} in full. Reply with its text only."
    snippets = _snippets(vocabulary, request.context, max_tokens, task)
    far_suffix_part = f"{path or 'The file'}, further down:\n{far_suffix}\n\n" if far_suffix else ""
    user = vocabulary.encode("user\n" + snippets + far_suffix_part + task)
    model = vocabulary.encode("model\n")
    line_break = vocabulary.encode("\n")
    prefix_ids = ((bos,) if bos is not None else ()) + (start, *user, end, *line_break, start, *model)
    return PromptFrame(prefix_ids, (end,) + ((eos,) * _TAIL_EOS_TOKENS if eos is not None else ()), eos)


def _turns(vocabulary: Vocabulary, infill_config: InfillConfig) -> tuple[int | None, int | None]:
    """The tokens that begin and end a turn; None if the prompt shows the file alone."""
    if infill_config.prompt != "chat":
        return None, None
    return vocabulary.id_of("<|turn>"), vocabulary.id_of("<turn|>")


def build_short_frame(vocabulary: Vocabulary, infill_config: InfillConfig, request: InfillRequest) -> PromptFrame:
    """The frame of a short prefix: without text from elsewhere, and without an instruction that takes half of it."""
    max_tokens = SHORT_PREFIX_TOKENS // 2
    is_short = _tokens_up_to(vocabulary, request.instruction, max_tokens) <= max_tokens
    instruction = request.instruction if is_short else ""
    path = request.path[-_SHORT_PATH_CHARS:]
    return build_prompt_frame(
        vocabulary, infill_config, msgspec.structs.replace(request, context=(), path=path, instruction=instruction)
    )


def max_snippet_tokens(vocabulary: Vocabulary, infill_config: InfillConfig) -> int:
    """The tokens of a prompt that other files may take; 0 if it shows the file alone."""
    return 0 if None in _turns(vocabulary, infill_config) else infill_config.max_prefix_tokens // _SNIPPETS_SHARE


def far_suffix_text(vocabulary: Vocabulary, infill_config: InfillConfig, text: str, near_tokens: int) -> str:
    """Whole lines of `text`, which follows the last hole, without the first `near_tokens`; "" for the file alone.

    Text read before the prefix must not change while the user types, or each keystroke would lose the encoded prefix.
    So it begins at a stepped distance from the file's end: typing before it or moving a few lines shifts nothing.
    """
    if None in _turns(vocabulary, infill_config):
        return ""
    max_tokens = infill_config.max_prefix_tokens // _FAR_SUFFIX_SHARE
    step = max(1, max_tokens * _USUAL_CHARS_PER_TOKEN // _FAR_SUFFIX_STEPS)
    near = vocabulary.encode(text[: near_tokens * text_window.MAX_CHARS_PER_TOKEN])[:near_tokens]
    distance = (len(text) - len(vocabulary.decode(near))) // step * step
    start = text.find("\n", len(text) - distance) + 1
    if not distance or not start:
        return ""
    lines = text_window.first_lines(text[start:], max_tokens * _USUAL_CHARS_PER_TOKEN)
    ids = vocabulary.encode(lines)
    return lines if len(ids) <= max_tokens else text_window.first_lines(lines, len(vocabulary.decode(ids[:max_tokens])))


def tokenise_prefix(vocabulary: Vocabulary, infill_config: InfillConfig, text: str, max_tokens: int) -> tuple[int, ...]:
    """The last tokens of the text before the first hole, at most `max_tokens`; starts at a line if cut."""
    start = text_window.window_start(text, max_tokens * _USUAL_CHARS_PER_TOKEN)
    ids = vocabulary.encode(text[start:])
    if len(ids) > max_tokens:
        ids = ids[text_window.token_window_start(len(ids), max_tokens) :]
    elif start == 0 and infill_config.prompt == "plain":
        bos = infill_config.bos_token_id
        bos = vocabulary.id_of("<bos>") if bos is None else bos
        ids = (ids if bos is None else [bos, *ids])[-max_tokens:]
    return tuple(ids)


def _snippets(vocabulary: Vocabulary, context: Sequence[Snippet], max_tokens: int, task: str) -> str:
    """As many of the snippets, most useful first, as fit in `max_tokens` beside the other parts."""
    texts: list[str] = []
    remaining_tokens = max_tokens - len(vocabulary.encode("user\n" + task))
    for snippet in context:
        text = f"File {snippet.path}:\n{snippet.text}\n\n"
        remaining_tokens -= _tokens_up_to(vocabulary, text, max(0, remaining_tokens))
        if remaining_tokens < 0:
            break
        texts.append(text)
    return "".join(texts)


def _tokens_up_to(vocabulary: Vocabulary, text: str, max_tokens: int) -> int:
    """The number of tokens in a text; for one far too long, just a number above `max_tokens`."""
    return max_tokens + 1 if len(text) > max_tokens * text_window.MAX_CHARS_PER_TOKEN else len(vocabulary.encode(text))
