"""What every request of one loaded model uses."""

from dataclasses import dataclass

from inference.engine.checkpoint import Properties
from inference.engine.constraints import Constraints
from inference.engine.network import Network
from inference.engine.prefix_cache import PrefixCache
from inference.engine.vocabulary import Vocabulary


@dataclass(frozen=True)
class Toolbox:
    """The parts of one loaded model. Only the prefix cache changes."""

    network: Network
    vocabulary: Vocabulary
    properties: Properties
    prefixes: PrefixCache
    constraints: Constraints
