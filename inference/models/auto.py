"""Resolves the model `auto`: the best downloaded one that runs well here, or slowly, otherwise the embedded one.

Runs in the worker, before torch is imported if nothing was downloaded.
"""

from typing import TYPE_CHECKING, NamedTuple

from inference.models import catalogue, downloads
from inference.models.catalogue import EMBEDDED, Published

if TYPE_CHECKING:
    from inference.models.recommend import Machine


class AutoChoice(NamedTuple):
    """A model's name, and the reason for choosing it, for users."""

    model: str
    why: str


def choose(device: str | None) -> AutoChoice:
    """The model for this machine, if the user names at most a device. Raises ModelError."""
    here = [entry for entry in catalogue.ENTRIES if entry.repo and downloads.is_here(entry)]
    troubles = [trouble for entry in catalogue.ENTRIES if (trouble := downloads.trouble_with(entry))]
    if not here:
        return AutoChoice(EMBEDDED, "; ".join(troubles) or "no other model is on this machine")
    from inference.models import recommend  # it imports torch

    best, why = among(here, recommend.this_machine(device))
    return AutoChoice(best, "; ".join([why, *troubles]))


def among(here: list[Published], machine: "Machine") -> AutoChoice:
    """The model for a machine, of those that were pulled; the embedded one only if none of them can be typed with."""
    from inference.models import recommend

    fits = {entry.name: recommend.judge(entry, machine) for entry in here}
    fast, slow = (
        [entry for entry in here if fits[entry.name].verdict is verdict]
        for verdict in (recommend.Verdict.RUNS, recommend.Verdict.SLOW)
    )
    if not (able := fast or slow):
        reasons = "; ".join(f"{name} {fit.words}" for name, fit in fits.items())
        return AutoChoice(EMBEDDED, f"of what was pulled nothing runs well here: {reasons}")
    best = recommend.best(able)
    why = [f"the best of what was pulled: {fits[best.name].words}"]
    if not fast and (smaller := recommend.recommended(machine)).repo:
        why.append(f"a smaller model: infill-ls models pull {smaller.name}")
    why += [f"{entry.name} {fits[entry.name].words}" for entry in here if entry not in able]
    return AutoChoice(best.name, "; ".join(why))
