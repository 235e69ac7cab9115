"""Makes a raw fill ready to insert, and orders candidates. Text in, text out; knows no LSP, worker or model."""

from lsp_server.fill.fitting.breakage import Patience, breaks_parse, order
from lsp_server.fill.fitting.fit import Drop, Fitter, in_words
from lsp_server.fill.fitting.unseen import visible

__all__ = ["Drop", "Fitter", "Patience", "breaks_parse", "in_words", "order", "visible"]
