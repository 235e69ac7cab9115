"""The fill-in-the-middle tokens of each model family, as its makers published them.

Qwen2.5-Coder: its README and arXiv 2409.12186. StarCoder2: arXiv 2402.19173, section 5. CodeGemma:
ai.google.dev/gemma/docs/codegemma/prompt-structure. DeepSeek-Coder: its README. Codestral: mistral-common's
`encode_fim`, suffix first. Granite: its model cards; from Granite 4 on with bars. Seed-Coder: arXiv 2506.03524, suffix
first. Mellum: its model card, suffix first. CodeLlama: `CodeLlamaTokenizer` of transformers. Code does not contain
these texts, so a text that does is cut there: it would end the prompt.
"""

import re
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace

from inference.messages import Snippet

_MAX_PATH_CHARS = 200


@dataclass(frozen=True)
class FimTokens:
    """A family's prompt for a hole. `stop_tokens` end a fill, besides those of the prompt.

    `repository` begins a prompt with other files and `file` each file in it; empty: it has none. Without a
    `repository`, `file` names the file with the hole even if there are no others.
    """

    prefix: str
    suffix: str
    middle: str
    stop_tokens: tuple[str, ...]
    is_suffix_first: bool = False
    repository: str = ""
    file: str = ""
    names_file_inside: bool = False
    """Whether the name of the file with the hole follows the prefix token instead of preceding it."""
    space: str = ""
    """What stands between the prefix token and the prefix."""

    @property
    def control_tokens(self) -> tuple[str, ...]:
        """All tokens forbidden in a prompt's code and in a fill."""
        own = (self.prefix, self.suffix, self.middle, self.repository, self.file, *self.stop_tokens)
        return tuple(token for token in own if token)

    def prompt(self, prefix: str, suffix: str, path: str, context: Sequence[Snippet]) -> str:
        """The prompt after which the fill is written. Leaves out other files that contain control tokens."""
        snippets = [snippet for snippet in context if not any(token in snippet.text for token in self.control_tokens)]
        head = ""
        if self.file and (snippets or (path and not self.repository)):
            files = (f"{self.file}{self._name(snippet.path)}\n{snippet.text.rstrip()}\n" for snippet in snippets)
            head = (f"{self.repository}project\n" if self.repository else "") + "".join(files) + self.file
            name = f"{self._name(path)}\n" if path else ""
            if self.names_file_inside:
                prefix = name + prefix
            else:
                head += name
        return head + "".join(text for _, text in self.parts(prefix, suffix))

    def parts(self, prefix: str, suffix: str) -> Iterator[tuple[bool, str]]:
        """A prompt without other files in parts: either a control token, True, or text, whatever that spells."""
        sides = [((True, self.prefix), (False, self.space + prefix)), ((True, self.suffix), (False, suffix))]
        for part in reversed(sides) if self.is_suffix_first else sides:
            yield from part
        if self.middle:
            yield True, self.middle

    def _name(self, path: str) -> str:
        """The end of a path, made safe for a prompt."""
        name = "".join(character if character.isprintable() else " " for character in path[-_MAX_PATH_CHARS:])
        for token in self.control_tokens:
            name = name.replace(token, " ")
        return name


_BARS = ("<|fim_prefix|>", "<|fim_suffix|>", "<|fim_middle|>")
_ANGLES = ("<fim_prefix>", "<fim_suffix>", "<fim_middle>")

TABLE = {
    "qwen2.5-coder": FimTokens(
        *_BARS,
        stop_tokens=("<|endoftext|>", "<|fim_pad|>", "<|im_start|>", "<|im_end|>"),
        repository="<|repo_name|>",
        file="<|file_sep|>",
    ),
    "starcoder2": FimTokens(
        *_ANGLES,
        stop_tokens=("<|endoftext|>", "<fim_pad>"),
        repository="<repo_name>",
        file="<file_sep>",
        names_file_inside=True,
    ),
    "codegemma": FimTokens(*_BARS, stop_tokens=("<|file_separator|>", "<start_of_turn>", "<end_of_turn>", "<eos>")),
    "deepseek-coder": FimTokens(
        "<｜fim▁begin｜>",
        "<｜fim▁hole｜>",
        "<｜fim▁end｜>",
        stop_tokens=("<｜end▁of▁sentence｜>", "<｜begin▁of▁sentence｜>", "<|EOT|>"),
    ),
    "codestral": FimTokens("[PREFIX]", "[SUFFIX]", "", stop_tokens=("[MIDDLE]", "</s>"), is_suffix_first=True),
    "seed-coder": FimTokens(
        "<[fim-prefix]>",
        "<[fim-suffix]>",
        "<[fim-middle]>",
        stop_tokens=("<[end▁of▁sentence]>", "<[begin▁of▁sentence]>", "<[PAD▁TOKEN]>", "<[SEP▁TOKEN]>"),
        is_suffix_first=True,
    ),
    "mellum": FimTokens(
        *_ANGLES, stop_tokens=("<|endoftext|>", "<fim_pad>", "<reponame>"), is_suffix_first=True, file="<filename>"
    ),
    "codellama": FimTokens("▁<PRE>", "▁<SUF>", "▁<MID>", stop_tokens=("▁<EOT>", "</s>", "<s>"), space=" "),
    "granite": FimTokens(
        *_ANGLES, stop_tokens=("<|endoftext|>", "<|end_of_text|>", "<fim_pad>", "<filename>", "<reponame>")
    ),
}
_GRANITE_4 = FimTokens(*_BARS, stop_tokens=("<|end_of_text|>", "<|fim_pad|>", "<|filename|>", "<|reponame|>"))
_IS_GRANITE_4 = re.compile(r"granite[-_. ]?[4-9](?![0-9]*b)", re.IGNORECASE)

_NAMES = {
    "qwen2.5-coder": re.compile(r"qwen(2[._]?5|3)[-_.]?coder"),
    "starcoder2": re.compile(r"starcoder[-_.]?2"),
    "codegemma": re.compile(r"codegemma(?!.*-it\b)"),
    "deepseek-coder": re.compile(r"deepseek[-_.]?coder"),
    "codestral": re.compile(r"codestral(?!.*mamba)"),
    "seed-coder": re.compile(r"seed[-_.]?coder(?!.*(instruct|reasoning))"),
    "mellum": re.compile(r"mellum"),
    "codellama": re.compile(r"code[-_.]?llama(?!.*(34b|python))"),
    "granite": re.compile(r"granite[-_. ]?([4-9](?![0-9]*b)|3[._]?3|.*code)"),
}


def kind_of(model: str) -> str | None:
    """The family of a model judging by its server's name for it; None if the name shows none."""
    name = model.lower()
    return next((kind for kind, pattern in _NAMES.items() if pattern.search(name)), None)


def tokens_for_kind(kind: str, model: str) -> FimTokens:
    """The tokens of a family; those of Granite follow the version in the model's name."""
    return _GRANITE_4 if kind == "granite" and _IS_GRANITE_4.search(model) else TABLE[kind]


def tokens_in_vocabulary(tokens: Collection[str], name: str = "") -> FimTokens | None:
    """The tokens of the family whose tokens these are, without a repository's if they lack those; None if unknown.

    Granite's code models and Mellum have the same tokens, but not the same order: the model's `name` decides.
    """
    named = kind_of(name)
    if named and {(by_name := tokens_for_kind(named, name)).prefix, by_name.suffix, by_name.middle} <= {*tokens, ""}:
        has_files = {by_name.repository or by_name.file, by_name.file} <= set(tokens)
        return by_name if has_files else replace(by_name, repository="", file="")
    matching = [it for it in TABLE.values() if {it.prefix, it.suffix, it.middle or it.suffix} <= set(tokens)]
    if not matching:
        return None
    whole = [it for it in matching if it.file and {it.repository or it.file, it.file} <= set(tokens)]
    return whole[0] if whole else replace(matching[0], repository="", file="")
