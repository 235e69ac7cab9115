"""Shadow mode: a sample of what the model was asked is asked of the other model, too, unseen, to compare the two.

The user never waits for it, and is shown nothing of it. What comes of it goes into the file of `lsp_server.usage`.
"""

from lsp_server.shadow.other_model import other_options
from lsp_server.shadow.shadow import Shadow

__all__ = ["Shadow", "other_options"]
