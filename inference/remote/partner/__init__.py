"""Asks an existing autoregressive server: vLLM, llama.cpp, Ollama, or any with their interfaces.

interfaces.py has the ways to ask: `/v1/completions` with fill-in-the-middle tokens or a suffix, llama.cpp's `/infill`,
or a conversation, the only way to show it a draft to improve. kinds.py finds out which one to use.
"""

from inference.models.family import OnProgress
from inference.remote import served
from inference.remote.address import PARTNER
from inference.remote.partner import kinds
from inference.remote.partner.filling import PartnerInfiller
from inference.serving.startup import WorkerArguments

HANDSHAKE_S = 120.0
"""How long a server may take to answer the first probe, which may load its model."""


async def connect(
    arguments: WorkerArguments, on_progress: OnProgress, *, token: str = "", limit_s: float = HANDSHAKE_S
) -> PartnerInfiller:
    """The server that `arguments.model` names, asked as `arguments.partner` says. Raises ModelError."""
    async with served.connecting(arguments, PARTNER, token=token, limit_s=limit_s) as client:
        on_progress(0.1, f"asking {client.at.place}")
        found = await kinds.look(client, arguments.server_model, arguments.partner or "auto")
    return PartnerInfiller(client, arguments, found)
