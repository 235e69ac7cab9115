"""The `FimAdapter` of Llama-shaped models."""

from collections.abc import Iterable, Sequence
from functools import lru_cache

from tokenizers import Tokenizer

from inference.models import catalogue, fim_tokens, tokenizer_files
from inference.models.checkpoint import Checkpoint
from inference.models.family import FimAdapter, ModelTraits
from inference.models.fim.kept_suffix import KeptSuffixFinder
from inference.models.fim.prompt_handle import PromptHandle
from inference.models.fim_tokens import FimTokens
from inference.models.infill_config import HoleNoise
from inference.models.llama import precision
from inference.models.llama.causal import CausalNetwork
from inference.models.prefix_cache import IdlePrefillAdapter, PrefixCache

_TURN = "<|im_start|>"
_END_OF_TURN = "<|im_end|>"
_SYSTEM = "You are Qwen, created by Alibaba Cloud. You are a helpful assistant."
"""The system message that the model's own template uses by default."""
_CACHED_TEXTS = 16
"""How many texts to cache the token ids of: prefix and suffix stay the same while a line is typed."""
_CACHE_PROMPTS, _CACHE_BYTES = 8, 32 << 20
"""How many prompts to cache with the output after them, and how many bytes beyond the entries in use."""
_LATEST_SHARE = 0.2
"""The weight of the latest pass in the moving average of pass times."""
_SAVED_PASSES = 100
"""Save the average times after this many passes, for later predictions."""
_FEW_ROWS, _MANY_ROWS = 4, 64
"""A pass of at most this many rows counts as decoding, one of at least this many as prefill. A shorter pass of prefill
counts only if it was faster, and on the CPU: a GPU's may return before it is done.
"""
_NO_FILLS = (
    "its tokenizer has no fill-in-the-middle tokens, so it writes from left to right alone and cannot fill holes; give "
    "a model such as Qwen2.5-Coder"
)


class LlamaFimAdapter(IdlePrefillAdapter, FimAdapter):
    """A loaded model. Only its prefix cache changes."""

    ahead_chunk_tokens = 16

    def __init__(
        self, checkpoint: Checkpoint, tokenizer: Tokenizer, network: CausalNetwork, dtype: str, runs_on: str = ""
    ) -> None:
        self.name = checkpoint.name
        self.infill_config = checkpoint.infill_config
        self.tokenizer = tokenizer
        self.network = network
        self.device = network.device
        self.dtype = dtype
        self.prefixes = PrefixCache(network.empty_cache(0), _CACHE_BYTES, max_entries=_CACHE_PROMPTS, min_entries=1)
        tokenizer.encode_special_tokens = True
        special = {token.content: id_ for id_, token in tokenizer.get_added_tokens_decoder().items()}
        tokens = fim_tokens.detect_fim_tokens(special, checkpoint.name)
        self.why_no_fills = "" if tokens else _NO_FILLS
        self._tokens = tokens or FimTokens("", "", "", stop_tokens=())
        self._special = special
        ends = checkpoint.config.get("eos_token_id")
        end_ids = (*(ends if isinstance(ends, list) else [ends]), checkpoint.infill_config.eos_token_id)
        self.stop_ids = frozenset(special[name] for name in self._tokens.control_tokens if name in special) | {
            id_ for id_ in end_ids if isinstance(id_, int)
        }
        self._chats = _TURN in special and special.get(_END_OF_TURN) in end_ids
        self.begin_ids = tuple(tokenizer_files.bos_ids(checkpoint, tokenizer))
        self.is_suffix_first = self._tokens.is_suffix_first
        self._suffixes: KeptSuffixFinder | None = None
        if tokens and {tokens.suffix, tokens.middle} <= special.keys() and not tokens.is_suffix_first:
            ids_around = special[tokens.suffix], special[tokens.middle]
            self._suffixes = KeptSuffixFinder(self.prefixes, *ids_around, lambda ids: tokenizer.decode(ids).count("\n"))
        self._text_ids = lru_cache(_CACHED_TEXTS)(lambda text: tokenizer.encode(text, add_special_tokens=False).ids)
        self.note = network.note
        self.token_ms = self.prompt_token_ms = 0.0
        entry = catalogue.find_entry(checkpoint.name) if network.on_cpu or runs_on else None
        usual = "" if runs_on or entry is None else precision.candidate_formats(network.device, None)[0]
        is_usual = dtype.endswith("bit") if runs_on else dtype == usual
        self._times_key = precision.pass_times_key(entry.name, runs_on) if entry and is_usual else ""
        self._unsaved_passes = 0
        self.traits = ModelTraits(
            noise=HoleNoise.UNIFORM,
            vocabulary_size=network.config.vocab_size,
            can_score=True,
            continuable_tokens=network.config.max_position_embeddings,
            is_fim=True,
            runs_on=runs_on,
            free_rows=network.free_rows,
        )

    def open_prefix(self, prefix_ids: Sequence[int], *, ahead: bool = False) -> PromptHandle:
        keeper = None if ahead else self._suffixes
        return PromptHandle(self.network, self.prefixes, prefix_ids, self._passed, keeper=keeper, ahead=ahead)

    def cached_tokens(self, ids: Sequence[int], *, exact: bool = False) -> int:
        reused = self._suffixes.find(ids) if self._suffixes and not exact else None
        return self.prefixes.cached_tokens(ids, exact=exact) + (reused.count if reused else 0)

    def cached_continuation(self, ids: Sequence[int]) -> list[int]:
        return self.prefixes.tokens_after(ids)

    def run_idle_task(self) -> bool:
        is_busy = super().run_idle_task()
        if not is_busy and self._times_key and self._unsaved_passes >= _SAVED_PASSES:
            precision.save_pass_times(self._times_key, precision.PassTimes(self.token_ms, self.prompt_token_ms))
            self._unsaved_passes = 0
        return is_busy

    def fim_prompt(self, prefix: str, suffix: str, name: str = "") -> list[int]:
        file = ((True, self._tokens.file), (False, f"{name}\n")) if name and self._tokens.file else ()
        return [*self.begin_ids, *self._ids([*file, *self._tokens.prompt_parts(prefix, suffix)])]

    def chat_prompt(self, message: str, answer: str = "") -> list[int] | None:
        """See `FimAdapter`. Models trained to chat end their answers with the end of a turn.

        Their base models have the same tokens and template and end theirs with the end of the text.
        """
        if not self._chats:
            return None
        turns = (("system", _SYSTEM), ("user", message))
        parts = [
            part
            for role, text in turns
            for part in ((True, _TURN), (False, f"{role}\n{text}"), (True, _END_OF_TURN), (False, "\n"))
        ]
        return self._ids([*parts, (True, _TURN), (False, f"assistant\n{answer}")])

    def _ids(self, parts: Iterable[tuple[bool, str]]) -> list[int]:
        ids: list[int] = []
        for is_control, text in parts:
            ids += [self._special[text]] if is_control else self._text_ids(text)
        return ids

    def _passed(self, rows: int, num_logits: int, seconds: float) -> None:
        ms = 1000 * seconds
        self._unsaved_passes += 1
        if num_logits and rows <= _FEW_ROWS:
            self.token_ms += (_LATEST_SHARE if self.token_ms else 1.0) * (ms - self.token_ms)
        elif rows >= _MANY_ROWS or (not num_logits and self.device.type == "cpu" and ms / rows < self.prompt_token_ms):
            change_ms = ms / rows - self.prompt_token_ms
            self.prompt_token_ms += (_LATEST_SHARE if self.prompt_token_ms else 1.0) * change_ms
