"""A partner, a larger model on a server, improves what the model drafted: a suggestion on screen, a fill just made."""

from lsp_server.refine.comparison import NotRefined
from lsp_server.refine.refining import Refining

__all__ = ["NotRefined", "Refining"]
