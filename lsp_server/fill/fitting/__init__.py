"""Makes a raw fill ready to insert: cuts repetition, fixes indentation, brackets and line ends, and orders candidates.

Text in, text out; knows nothing of the LSP, the worker or the model.
"""

from lsp_server.fill.fitting.breakage import breaks_parse, order
from lsp_server.fill.fitting.fit import Drop, Fitter, in_words
from lsp_server.fill.fitting.patience import Patience
from lsp_server.fill.fitting.unseen import visible

__all__ = ["Drop", "Fitter", "Patience", "breaks_parse", "in_words", "order", "visible"]
