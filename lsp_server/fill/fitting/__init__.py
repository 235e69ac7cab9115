"""From a raw fill to what is shown: overlap, indentation, brackets, line ends, and the order of candidates.

Text in, text out. Nothing here knows the LSP, the worker or the model.
"""

from lsp_server.fill.fitting.fit import fit
from lsp_server.fill.fitting.ordering import breaks_parse, order

__all__ = ["breaks_parse", "fit", "order"]
