"""Bundles a loaded model with what every request to it needs: its tokens as text, and which it may write."""

from dataclasses import dataclass, replace

from inference.engine.canvas.constraints import Constraints
from inference.engine.canvas.vocabulary import Vocabulary
from inference.models.family import Family, Properties


@dataclass(frozen=True)
class LoadedModel:
    """A model of any family, its tokens as text, and what its canvases may hold."""

    family: Family
    properties: Properties
    vocabulary: Vocabulary
    constraints: Constraints

    @classmethod
    def of(cls, family: Family) -> "LoadedModel":
        """As its checkpoint wants it to be used."""
        stated = family.properties
        control = (stated.mask_token_id, stated.slack_token_id, stated.expand_token_id, stated.delete_token_id)
        vocabulary = Vocabulary(family.tokenizer, [id_ for id_ in control if id_ is not None])
        constraints = Constraints(vocabulary, family.properties, family.traits.vocabulary_size, family.device)
        return cls(family, family.properties, vocabulary, constraints)

    def using(self, properties: Properties) -> "LoadedModel":
        """The same model, searched otherwise. Which tokens may be written stays what the checkpoint says."""
        return replace(self, properties=properties)
