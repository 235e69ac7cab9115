"""One loaded model, ready to fill holes."""

from inference.engine.canvas import prompt
from inference.engine.infilling import Infilling
from inference.engine.loaded_model import LoadedModel
from inference.engine.scoring import Scoring
from inference.messages import Hole, InfillRequest, ScoreRequest, Text
from inference.models.family import Family, Properties


class Engine:
    """Fills the holes of requests. Not thread-safe: one thread drives all its iterators."""

    def __init__(self, model: LoadedModel | Family) -> None:
        """`model`: a family's model as models/registry.py loads it, or one that other engines use too."""
        self.loaded = model if isinstance(model, LoadedModel) else LoadedModel.of(model)
        family = self.loaded.family
        self.model, self.dtype = family.name, family.dtype
        self.device = family.traits.runs_on or str(family.device)
        self.note = self.loaded.note
        self.context_tokens = prompt.context_tokens(self.loaded.vocabulary, self.loaded.properties)

    def using(self, properties: Properties) -> "Engine":
        """An engine that shares this one's model and searches by other properties."""
        return Engine(self.loaded.using(properties))

    def infill(self, request: InfillRequest, *, deadline: float | None = None) -> Infilling:
        """The work on one request, to be iterated; closing it stops the work and frees what it holds.

        `deadline` is in seconds of `time.monotonic()`. Raises RequestError where the request makes no sense.
        """
        return Infilling(self.loaded, request, deadline)

    def score(self, request: ScoreRequest, *, deadline: float | None = None) -> Scoring:
        """The same for a request to score given texts. Raises RequestError, too, where the model cannot score."""
        return Scoring(self.loaded, request, deadline)

    def warm_up(self) -> None:
        """One small fill, so that the first user does not pay for what is set up on first use."""
        request = InfillRequest("warm-up", (Text("x ="), Hole(max_tokens=2), Text("\n")), max_steps=1)
        for _ in self.infill(request):
            pass
