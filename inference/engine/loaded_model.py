"""Bundles a loaded model with what every request to it needs: its tokens as text, and which it may write."""

from dataclasses import dataclass, replace

from inference.engine import plausibility
from inference.engine.canvas.constraints import Constraints
from inference.engine.canvas.vocabulary import Vocabulary
from inference.models.family import Family, Properties, Traits

_NOT_BELIEVED = (
    "its encoder finds plain code no likelier than chance, so candidates are ranked by the canvas alone, which ranks "
    "them worse; the checkpoint may be damaged or converted wrongly"
)


@dataclass(frozen=True)
class LoadedModel:
    """A model of any family, its tokens as text, and what its canvases may hold."""

    family: Family
    properties: Properties
    traits: Traits
    """What is used of what the family can do."""
    vocabulary: Vocabulary
    constraints: Constraints
    note: str = ""
    """What its user should know of it; empty: nothing."""

    @classmethod
    def of(cls, family: Family) -> "LoadedModel":
        """As its checkpoint wants it to be used. A likelihood that makes no sense is not asked for."""
        stated = family.properties
        control = (stated.mask_token_id, stated.slack_token_id, stated.expand_token_id, stated.delete_token_id)
        vocabulary = Vocabulary(family.tokenizer, [id_ for id_ in control if id_ is not None])
        constraints = Constraints(vocabulary, family.properties, family.traits.vocabulary_size, family.device)
        model = cls(family, family.properties, family.traits, vocabulary, constraints)
        if not family.traits.can_score or plausibility.is_plausible(family, vocabulary):
            return model
        without = replace(family.traits, can_score=False, continuable_tokens=0)
        return replace(model, traits=without, note=_NOT_BELIEVED)

    @property
    def fills_canvas(self) -> bool:
        """Whether canvases as wide as the checkpoint was trained on take no more time than narrow ones."""
        return self.traits.free_rows >= self.properties.canvas_tokens

    def using(self, properties: Properties) -> "LoadedModel":
        """The same model, searched otherwise. Which tokens may be written stays what the checkpoint says."""
        return replace(self, properties=properties)
