"""Resolves the model `auto`: the best downloaded one that keeps up with typing here, or the fastest of the others,
otherwise the embedded one.

Runs in the worker.
"""

from typing import TYPE_CHECKING, NamedTuple

from inference.models import catalogue, downloads
from inference.models.catalogue import EMBEDDED, Published

if TYPE_CHECKING:
    from inference.models.recommend import Machine


class AutoChoice(NamedTuple):
    """A model's name, and the reason for choosing it, for users.

    `better`: the model to pull, where the embedded one must do.
    """

    model: str
    why: str
    better: str = ""


def choose(device: str | None) -> AutoChoice:
    """The model for this machine, if the user names at most a device. Raises ModelError."""
    here = [entry for entry in catalogue.ENTRIES if entry.repo and downloads.is_here(entry)]
    troubles = [trouble for entry in catalogue.ENTRIES if (trouble := downloads.trouble_with(entry))]
    from inference.models import recommend  # it imports torch

    choice = among(here, recommend.this_machine(device))
    return choice._replace(why="; ".join([*([choice.why] if here or not troubles else []), *troubles]))


def among(here: list[Published], machine: "Machine") -> AutoChoice:
    """The model for a machine, of those that were pulled; the embedded one only if none of them can be typed with."""
    from inference.models import recommend

    if not here:
        return AutoChoice(EMBEDDED, "no other model is on this machine", _better(machine))
    fits = {entry.name: recommend.judge(entry, machine) for entry in here}
    fast, slow = (
        [entry for entry in here if fits[entry.name].verdict is verdict]
        for verdict in (recommend.Verdict.RUNS, recommend.Verdict.SLOW)
    )
    if not fast and not slow:
        reasons = "; ".join(f"{name} {fit.words}" for name, fit in fits.items())
        return AutoChoice(EMBEDDED, f"of what was pulled nothing runs well here: {reasons}", _better(machine))
    best = recommend.best(fast) if fast else min(slow, key=lambda entry: entry.parameters)
    why = [f"the best of what was pulled: {fits[best.name].words}"]
    if not fast and (smaller := recommend.recommended(machine)).repo:
        why.append(f"a smaller model: infill-ls models pull {smaller.name}")
    why += [f"{entry.name} {fits[entry.name].words}" for entry in here if entry not in fast and entry is not best]
    return AutoChoice(best.name, "; ".join(why))


def _better(machine: "Machine") -> str:
    """The model that suits a machine, if pulling it is enough to use it."""
    from inference.models import recommend

    best = recommend.recommended(machine)
    return best.name if recommend.judge(best, machine).verdict is recommend.Verdict.RUNS and best.repo else ""
