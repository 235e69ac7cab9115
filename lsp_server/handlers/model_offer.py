"""`infill/modelOffer`: which better model than the embedded one runs here, for an editor to tell a new user once.

With `{"anew": true}` as params the machine is looked at whatever is remembered of it, since the user asks. The answer:

    offer      {"text", "steps", "shown", "model"}: what to tell; the commands that get the model, each as a list of its
               words (none where it is here) and as a line to type; the value of the setting `model`. `null`: no offer
    problem    why the machine could not be looked at, "" where it was
    model      the model that the user has chosen wherever it can be set: then none is offered; else `null`
"""

from typing import Any

from lsp_server.diagnosis.model_offer import look
from lsp_server.session import Session
from lsp_server.worker import WorkerOptions

METHOD = "infill/modelOffer"


async def model_offer(session: Session, params: Any) -> dict[str, Any]:
    if chosen := session.configuration.chosen_model:
        return {"offer": None, "problem": "", "model": chosen}
    anew = isinstance(params, dict) and params.get("anew") is True
    found = await look(WorkerOptions(device=session.settings.device), anew=anew)
    return {**found._asdict(), "model": None}
