"""Asks an existing autoregressive server: vLLM, llama.cpp, Ollama, or any with their interfaces.

interfaces.py has the ways to ask: `/v1/completions` with fill-in-the-middle tokens or a suffix, llama.cpp's `/infill`,
or a conversation, the only way to show it a draft to improve. kinds.py finds out which one to use. Several holes are
written one after another (chain.py), several candidates side by side (infilling.py).
"""

from inference.models.family import OnProgress
from inference.remote import meeting
from inference.remote.address import PARTNER
from inference.remote.partner import kinds
from inference.remote.partner.infilling import PartnerInfiller
from inference.serving.startup import WorkerArguments

MEETING_S = 120.0
"""How long a server may take to answer the first probe, which may load its model."""


async def connect(
    arguments: WorkerArguments, on_progress: OnProgress, *, token: str = "", limit_s: float = MEETING_S
) -> PartnerInfiller:
    """The server that `arguments.model` names, asked as `arguments.partner` says. Raises ModelError."""
    async with meeting.connecting(arguments, PARTNER, token, on_progress) as (client, at):
        met = kinds.meet(client, arguments.server_model, arguments.partner or "auto")
        served = await meeting.in_time(met, client.url, limit_s)
    return PartnerInfiller(client, at.place, arguments, served)
