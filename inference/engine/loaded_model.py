"""What every request of one loaded model uses."""

from dataclasses import dataclass

from inference.engine.canvas.constraints import Constraints
from inference.engine.canvas.vocabulary import Vocabulary
from inference.models.checkpoint import Properties
from inference.models.diffusion_gemma.network import Network
from inference.models.diffusion_gemma.prefix_cache import PrefixCache


@dataclass(frozen=True)
class Toolbox:
    """The parts of one loaded model. Only the prefix cache changes."""

    network: Network
    vocabulary: Vocabulary
    properties: Properties
    prefixes: PrefixCache
    constraints: Constraints
