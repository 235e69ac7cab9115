"""`infill/modelOffer`: which better model than the embedded one runs here, for an editor to tell a new user once.

With `{"refresh": true}` as params it looks at the machine again instead of trusting what it remembers. The answer:

    offer      {"text", "steps", "shown", "model", "use"}: what to tell; the commands that get the model, each as a list
               of its words and as a line to type; its name, which `infill-ls.pullModel` takes; models that other
               programs have downloaded, each with the `title` of a button and the value of the setting `model`. `null`:
               no offer
    problem    why the machine could not be looked at, "" where it was
    model      the model that the user has chosen wherever it can be set: then none is offered; else `null`
"""

from typing import Any

from lsp_server.diagnosis.model_offer import MachineLook
from lsp_server.session import Session
from lsp_server.worker import WorkerOptions

METHOD = "infill/modelOffer"

_machine = MachineLook()


async def model_offer(session: Session, params: Any) -> dict[str, Any]:
    if chosen := session.configuration.chosen_model:
        return {"offer": None, "problem": "", "model": chosen}
    refresh = isinstance(params, dict) and params.get("refresh") is True
    found = await _machine.look(WorkerOptions(device=session.settings.device), refresh=refresh)
    return {**found._asdict(), "model": None}
