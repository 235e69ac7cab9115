"""One loaded model, ready to fill holes."""

from collections.abc import Callable

from inference.engine.canvas import prompt
from inference.engine.canvas.constraints import Constraints
from inference.engine.canvas.vocabulary import Vocabulary
from inference.engine.infilling import Infilling
from inference.engine.loaded_model import Toolbox
from inference.messages import Hole, InfillRequest, Text
from inference.models import checkpoint
from inference.models.checkpoint import EMBEDDED
from inference.models.diffusion_gemma import weights
from inference.models.diffusion_gemma.prefix_cache import PrefixCache

_CACHE_SHARE = 0.25
_CACHE_LIMIT_BYTES, _CACHE_LIMIT_CPU_BYTES = 4 << 30, 512 << 20
"""Encoded prefixes take up to a quarter of the memory that is free, and up to this. In a CPU's memory there are editors
and compilers too, and a small model's prefix takes 2 MB: with 1,700 of them each search for one took 7 ms."""


def _silent(_fraction: float, _what: str) -> None:
    """Progress nobody asked for."""


class Engine:
    """Fills the holes of requests. Not thread-safe: one thread drives all its iterators."""

    def __init__(self, model: str, tools: Toolbox) -> None:
        self.model = model
        self.tools = tools
        self.device = str(tools.network.device)
        self.dtype = str(tools.network.dtype).removeprefix("torch.")
        self.context_tokens = prompt.context_tokens(tools.vocabulary, tools.properties)

    @classmethod
    def load(
        cls,
        model: str = EMBEDDED,
        *,
        device: str | None = None,
        dtype: str | None = None,
        allow_download: bool = False,
        on_progress: Callable[[float, str], None] = _silent,
    ) -> "Engine":
        """The engine of a model: "embedded", a checkpoint folder, or a hub id. Takes seconds to minutes.

        `on_progress` is told a fraction (0 to 1) and what is being done. Raises ModelError.
        """
        on_progress(0.0, "checking the checkpoint")
        found = checkpoint.find(model, allow_download=allow_download)
        vocabulary = Vocabulary(found.folder / "tokenizer.json")
        place = weights.choose_device(device)
        network = weights.load(found, place, weights.choose_dtype(dtype, place), on_progress, exact=dtype is not None)
        limit = _CACHE_LIMIT_CPU_BYTES if place.type == "cpu" else _CACHE_LIMIT_BYTES
        budget = min(int(weights.free_bytes(place) * _CACHE_SHARE), limit)
        constraints = Constraints(vocabulary, found.properties, network.vocabulary_size, place)
        prefixes = PrefixCache(network, budget)
        engine = cls(model, Toolbox(network, vocabulary, found.properties, prefixes, constraints))
        engine._warm_up()
        on_progress(1.0, "ready")
        return engine

    def infill(self, request: InfillRequest, *, deadline: float | None = None) -> Infilling:
        """The work on one request, to be iterated; closing it stops the work and frees what it holds.

        `deadline` is in seconds of `time.monotonic()`. Raises RequestError where the request makes no sense.
        """
        return Infilling(self.tools, request, deadline)

    def _warm_up(self) -> None:
        """One small fill, so that the first user does not pay for what is set up on first use."""
        request = InfillRequest("warm-up", (Text("x ="), Hole(max_tokens=2), Text("\n")), max_steps=1)
        for _ in self.infill(request):
            pass
