"""A partner, a larger model on a server, improves the model's drafts: a visible suggestion, or a recent fill."""

from lsp_server.refine.comparison import NotRefined
from lsp_server.refine.refining import Refining

__all__ = ["NotRefined", "Refining"]
