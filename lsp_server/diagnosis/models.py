"""What to say of the models that there are, from what `inference.serving.probe` found of them on this machine."""

import math
from typing import Any

from inference.models.catalogue import EMBEDDED
from inference.models.extras import shown
from lsp_server.diagnosis.workers import size

_MOST_FOUND = 2
_LARGEST_BYTES = {"cpu": 1.3e9}
"""A file of more is of a model that a processor is too slow for."""


def best_of(catalogue: dict[str, Any]) -> dict[str, Any]:
    """The model for a new user of this machine."""
    (best,) = (model for model in catalogue["models"] if model["name"] == catalogue["recommended"])
    return dict(best)


def offer(catalogue: dict[str, Any]) -> dict[str, Any] | None:
    """What an editor tells a new user once: a better model than the embedded one; None where none runs here.

    `text` says which; `steps` are the commands that get it, as lists of words, and `shown` the same as lines to type;
    `model` is then to be set. `use`: models that other programs have downloaded and that may be set instead, each with
    the `title` of a button and the value of the setting `model`.
    """
    best = best_of(catalogue)
    if best["name"] == EMBEDDED:
        return None
    where = "is downloaded" if best["is_here"] else f"{size(best['download_bytes'])}, licence: {best['licence']}"
    text = f"infill-ls fills with its small embedded model, for a first try. {best['name']} runs here, too ({where})."
    return {
        "text": text,
        "steps": best["steps"],
        "shown": [*map(shown, best["steps"])],
        "model": best["name"],
        "use": [
            {"title": f"Use {one['name']} from {one['program']}", "model": one["path"]}
            for one in catalogue.get("found", ())
            if one["fills"] and one["bytes_"] <= _LARGEST_BYTES.get(catalogue["machine"]["device"], math.inf)
        ][:_MOST_FOUND],
    }


def next_step(model: dict[str, Any]) -> str:
    """What a user does to get a model of the catalogue and to use it."""
    use = f'`model = "auto"` uses it, and so does --model {model["name"]}'
    if not model["steps"]:
        return use
    costs = f" ({size(model['download_bytes'])}, licence: {model['licence']})" if not model["is_here"] else ""
    return f"run: {', then '.join(map(shown, model['steps']))}{costs}; then {use}"
