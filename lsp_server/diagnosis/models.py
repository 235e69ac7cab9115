"""What to say of the models that there are, from what `inference.serving.probe` found of them on this machine."""

from typing import Any

from inference.models.catalogue import EMBEDDED
from lsp_server.diagnosis.workers import size


def best_of(catalogue: dict[str, Any]) -> dict[str, Any]:
    """The model for a new user of this machine."""
    (best,) = (model for model in catalogue["models"] if model["name"] == catalogue["recommended"])
    return dict(best)


def offer(catalogue: dict[str, Any]) -> dict[str, str] | None:
    """What an editor tells a new user once: a better model than the embedded one; None where none runs here.

    `text` says which, `command` downloads it ("" where it is here), `model` is then to be set.
    """
    best = best_of(catalogue)
    if best["name"] == EMBEDDED:
        return None
    where = "is downloaded" if best["is_here"] else f"{size(best['download_bytes'])}, licence: {best['licence']}"
    text = f"infill-ls fills with its small embedded model, for a first try. {best['name']} runs here, too ({where})."
    return {"text": text, "command": " && ".join(best["steps"]), "model": best["name"]}


def next_step(model: dict[str, Any]) -> str:
    """What a user does to get a model of the catalogue and to use it."""
    use = f"set model to {model['name']!r} in your editor, or pass --model {model['name']}"
    if not model["steps"]:
        return use
    costs = f" ({size(model['download_bytes'])}, licence: {model['licence']})" if not model["is_here"] else ""
    return f"run: {' && '.join(model['steps'])}{costs}; then {use}"
