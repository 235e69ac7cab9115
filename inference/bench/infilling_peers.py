"""Other programs that fill the same tasks with the same model: transformers in this process, llama.cpp's server.

Both write greedily after the model's own prompt, cut at the hole. A fill of one line ends at its first line break.
"""

import time
from abc import ABC, abstractmethod
from pathlib import Path
from typing import Any

import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

from inference.bench.infilling_tasks import InfillingTask, MeasuredFill, llama_fill
from inference.models.fim_tokens import TABLE

_LINE_TOKENS = 64
_LINES_TOKENS = 128
_TIMEOUT_S = 600


class _Peer(ABC):
    def fill(self, task: InfillingTask) -> MeasuredFill:
        """Fills one task's hole."""
        began = time.perf_counter()
        text = self._write(task)
        shown = text.partition("\n")[0] if task.single_line else text
        return MeasuredFill(shown, 0, 0, 0, 0, (time.perf_counter() - began) * 1000)

    @abstractmethod
    def _write(self, task: InfillingTask) -> str: ...


class Transformers(_Peer):
    """Qwen2.5-Coder from a GGUF file, as `generate` runs it."""

    def __init__(self, file: Path, dtype: str | None) -> None:
        """Raises OSError or ValueError if transformers cannot load the file."""
        kind = getattr(torch, dtype or "float32")
        model: Any = AutoModelForCausalLM.from_pretrained(str(file.parent), gguf_file=file.name, dtype=kind)
        self._model = model.eval()
        self._tokenizer = AutoTokenizer.from_pretrained(str(file.parent), gguf_file=file.name)
        tokens = TABLE["qwen2.5-coder"]
        self._marks = [self._id(token) for token in (tokens.prefix, tokens.suffix, tokens.middle)]
        self._ends = [self._id(token) for token in tokens.controls]

    def _write(self, task: InfillingTask) -> str:
        before, after = (self._tokenizer.encode(text) for text in (task.parts.before, task.parts.after))
        prefix, suffix, middle = self._marks
        ids = torch.tensor([[prefix, *before, suffix, *after, middle]])
        with torch.inference_mode():
            written = self._model.generate(
                ids,
                attention_mask=torch.ones_like(ids),
                max_new_tokens=_most_tokens(task),
                do_sample=False,
                repetition_penalty=1.0,  # the published generation_config has 1.1
                eos_token_id=self._ends,
                pad_token_id=self._ends[0],
                **({"stop_strings": ["\n"], "tokenizer": self._tokenizer} if task.single_line else {}),
            )
        return str(self._tokenizer.decode(written[0, ids.shape[1] :], skip_special_tokens=True))

    def _id(self, token: str) -> Any:
        return self._tokenizer.convert_tokens_to_ids(token)


class LlamaServer(_Peer):
    """llama.cpp's `/infill`, which chooses the prompt itself. Filling raises httpx2.HTTPError."""

    def __init__(self, url: str) -> None:
        self._url = url.rstrip("/")

    def _write(self, task: InfillingTask) -> str:
        return str(llama_fill(self._url, task, _most_tokens(task), _TIMEOUT_S)["content"])


def _most_tokens(task: InfillingTask) -> int:
    return _LINE_TOKENS if task.single_line else _LINES_TOKENS
