"""Asks a vLLM that serves DiffusionGemma with pinned canvases."""

from inference.models.family import ModelError, OnProgress
from inference.serving.infiller import RemoteInfiller
from inference.serving.startup import WorkerArguments


async def connect(arguments: WorkerArguments, on_progress: OnProgress) -> RemoteInfiller:
    """The server that `arguments.model` names. Raises ModelError, which says what is wrong and what to do."""
    raise ModelError(f"{arguments.model}: servers cannot be asked yet; choose a model that runs on this machine")
