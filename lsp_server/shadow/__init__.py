"""Shadow mode: silently repeats a sample of the model's requests to the other model, to compare the two."""

from lsp_server.shadow.other_model import other_options
from lsp_server.shadow.shadow import Shadow

__all__ = ["Shadow", "other_options"]
