"""Resolves the model `auto`: the best downloaded one that runs well here, otherwise the embedded one.

Runs in the worker, before torch is imported if nothing was downloaded.
"""

from typing import NamedTuple

from inference.models import catalogue, downloads
from inference.models.catalogue import EMBEDDED


class AutoChoice(NamedTuple):
    """A model's name, and the reason for choosing it, for users."""

    model: str
    why: str


def choose(device: str | None) -> AutoChoice:
    """The model for this machine, if the user names at most a device. Raises ModelError."""
    here = [entry for entry in catalogue.ENTRIES if entry.repo and downloads.is_here(entry)]
    if not here:
        return AutoChoice(EMBEDDED, "no other model is on this machine")
    from inference.models import recommend  # it imports torch

    machine = recommend.this_machine(device)
    fits = {entry.name: recommend.judge(entry, machine) for entry in here}
    able = [entry for entry in here if fits[entry.name].verdict is recommend.Verdict.RUNS]
    if not able:
        reasons = "; ".join(f"{name} {fit.words}" for name, fit in fits.items())
        return AutoChoice(EMBEDDED, f"of what was pulled nothing runs well here: {reasons}")
    best = recommend.best(able)
    left = "; ".join(f"{entry.name} {fits[entry.name].words}" for entry in here if entry not in able)
    return AutoChoice(best.name, f"the best of what was pulled: {fits[best.name].words}{left and f'; {left}'}")
