"""Decides which models of the catalogue run on a machine, which one is best there, and which ones `auto` means."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from functools import partial
from typing import NamedTuple

import psutil
import torch

from inference import install_hints
from inference.models import catalogue, devices, machine_cache, model_store
from inference.models.catalogue import EMBEDDED, CatalogueEntry
from inference.models.devices import FOUR_BIT
from inference.models.diffusion_gemma import weights as diffusion_weights
from inference.models.family import ModelError
from inference.models.llama import precision
from inference.models.mlx import machine as mlx_machine
from inference.terminal import format_bytes

_PROCESSOR_PARAMETERS = 2e9
"""On a CPU a step of a larger model takes seconds, and a fill takes several steps."""
_NEW_LINE_S, _NEXT_KEY_S = 1.0, 0.3
"""Ghost text may take this long on a new line, and after the next key: a model that takes longer is slow."""
_HYSTERESIS = 1.25
"""What `auto` chose last may take this many times as long: measurements are noisy, and a change of models is slow."""
_REWRITE_S = 5.0
"""A rewrite may take this long: half its time limit, as other programs run too."""
_CAPTURED_BYTES = 6e8
"""Captured passes of a model that writes in order hold 4,096 tokens, 50 MB for the 0.5B, 235 for a 7B, and results."""
_USABLE_OF_GPU, _USABLE = 0.9, 0.75
"""The share of a device's memory that one model may take: an editor, a browser and the system need the rest. MLX
reports its memory without that.
"""


class Verdict(StrEnum):
    """How well a model runs on a machine. The first two allow recommending it."""

    RUNS = "runs"
    PACKAGE = "package"
    """It would run if a missing package were installed."""
    SLOW = "slow"
    """Slow to type with, but better than the embedded model."""
    TOO_SLOW = "too slow"
    MEMORY = "memory"
    DEVICE = "device"
    """Its family does not run on the device."""


@dataclass(frozen=True)
class Machine:
    """The machine a model would run on. `dtypes`: those to try, in order, by the family's folder in inference/models.

    `mlx_vlm`: whether the package for DiffusionGemma in MLX is installed. `on_mlx`: MLX computes here.
    """

    device: str
    free_bytes: int
    total_bytes: int
    dtypes: Mapping[str, Sequence[str]]
    mlx_vlm: bool = False
    on_mlx: bool = False
    estimate_times: Callable[[CatalogueEntry], precision.PassTimes] | None = None
    """Predicts the times of passes on a CPU or on Apple's GPU."""
    last_auto_choice: str = ""

    @property
    def usable_bytes(self) -> float:
        """The memory available to one model if nothing else is loaded."""
        share = 1.0 if self.on_mlx else _USABLE_OF_GPU if self.device.startswith("cuda") else _USABLE
        return max(self.free_bytes, self.total_bytes * share)


@dataclass(frozen=True)
class MachineFit:
    """How well a model runs: the dtype that fits ("" for none), the bytes it needs by dtype, and a sentence for users.

    `wait_s`: how long ghost text takes on a new line, or an edit model's rewrite; 0 if that is not predicted.
    """

    verdict: Verdict
    dtype: str
    needed_bytes: dict[str, int]
    words: str
    wait_s: float = 0.0


def examine_machine(device: str | None) -> Machine:
    """The machine of this process, with the requested device or the best. Raises ModelError."""
    if device == mlx_machine.DEVICE or (device is None and mlx_machine.is_default(with_vlm=False)):
        return _mlx_machine()
    chosen = devices.choose_device(device)
    total = torch.cuda.mem_get_info(chosen)[1] if chosen.type == "cuda" else psutil.virtual_memory().total
    dtypes = {
        "diffusion_gemma": diffusion_weights.candidate_dtypes(chosen, None),
        "masked": precision.formats_for_many_rows(chosen, None),
        "fim": precision.candidate_formats(chosen, None),
    }
    return Machine(
        str(chosen),
        devices.free_bytes(chosen),
        total,
        dtypes,
        estimate_times=_estimate_pass_times if chosen.type == "cpu" else None,
        last_auto_choice=machine_cache.read("auto", str).get(str(chosen), ""),
    )


def _mlx_machine() -> Machine:
    """This machine as MLX uses it. Raises ModelError."""
    info = mlx_machine.require_mlx_device()
    plain = mlx_machine.DTYPES_BY_GPU[info.on_gpu][0]
    return Machine(
        info.name,
        info.free_bytes,
        info.total_bytes,
        {"diffusion_gemma": (plain,), "fim": (plain, devices.EIGHT_BIT)},
        mlx_vlm=mlx_machine.is_installed(with_vlm=True),
        on_mlx=True,
        estimate_times=partial(_estimate_pass_times, gpu=info.name) if info.on_gpu else None,
        last_auto_choice=machine_cache.read("auto", str).get(info.name, ""),
    )


def _estimate_pass_times(entry: CatalogueEntry, gpu: str = "") -> precision.PassTimes:
    """The times of the model's own passes if it has run here, else by kernels and memory bandwidth."""
    if passes := precision.best_pass_times(precision.pass_times_key(entry.name, gpu)):
        return passes
    reads_bytes_per_s = devices.measure_memory_bandwidth()
    if gpu:
        read_bytes = entry.weight_bytes(catalogue.OWN_BITS) * entry.weights_per_pass / entry.parameters
        return precision.estimate_gpu_pass_times(read_bytes, reads_bytes_per_s)
    return precision.estimate_pass_times(entry.weights_per_pass, entry.packed_parameters, reads_bytes_per_s)


def judge_fit(entry: CatalogueEntry, machine: Machine, *, beside_others: bool = False) -> MachineFit:
    """How well a model runs on a machine, alone or `beside_others`, which keep their memory."""
    usable_bytes = machine.free_bytes if beside_others else machine.usable_bytes
    if entry.family not in machine.dtypes:
        return MachineFit(Verdict.DEVICE, "", {}, "MLX does not run it; device cpu does")
    on_gpu = machine.on_mlx or machine.device.startswith("cuda")
    dtypes = machine.dtypes[entry.family]
    if entry.is_gguf:  # a GPU keeps a file's bits, and a processor where most are packed
        dtypes = (
            [catalogue.OWN_BITS] if on_gpu else [catalogue.OWN_BITS if dtype == FOUR_BIT else dtype for dtype in dtypes]
        )
    overhead = {devices.EIGHT_BIT: 9 / 8} if on_gpu else {}  # a scale and a bias of 16 bits for 32 weights
    captured = int(_CAPTURED_BYTES) if entry.family == "fim" and machine.device.startswith("cuda") else 0
    needs = {name: captured + devices.needed_bytes(entry.weight_bytes(name) * overhead.get(name, 1)) for name in dtypes}
    dtype = next((dtype for dtype, needed in needs.items() if needed <= usable_bytes), "")
    if not dtype:
        dtype = min(needs, key=lambda name: needs[name])
        has = f"{format_bytes(machine.free_bytes)} free" if beside_others else format_bytes(machine.total_bytes)
        reason = f"needs {format_bytes(needs[dtype])} in {dtype}; {machine.device} has {has}"
        return MachineFit(Verdict.MEMORY, "", needs, reason)
    words = f"runs here in {dtype}"
    time = None
    if entry.family == "fim" and machine.estimate_times:
        time = precision.LatencyEstimate.from_pass_times(machine.estimate_times(entry), entry.parameters)
    if entry.edit_kind and time is not None:
        words += f", a rewrite in about {time.rewrite_s:.1f} s"
        if time.rewrite_s > _REWRITE_S:
            return MachineFit(Verdict.TOO_SLOW, dtype, needs, f"{words}, too slow to wait for")
        return MachineFit(Verdict.RUNS, dtype, needs, words, time.rewrite_s)
    slack = _HYSTERESIS if entry.name == machine.last_auto_choice else 1.0
    fast = time is not None and time.new_line_s <= _NEW_LINE_S * slack and time.next_key_s <= _NEXT_KEY_S * slack
    if machine.device == "cpu" and entry.parameters > _PROCESSOR_PARAMETERS and not fast:
        return MachineFit(Verdict.TOO_SLOW, dtype, needs, f"{words}, but far too slowly to type with: no GPU")
    if package := _missing_package_command(entry, machine):
        return MachineFit(Verdict.PACKAGE, dtype, needs, f"{words}, after: {install_hints.format_command(package)}")
    if time is not None:
        words += f", ghost text in about {time.new_place_s:.1f} s at a new place, {time.new_line_s:.1f} on a new line"
        words += f" and {time.next_key_s:.1f} after a key"
        if not fast and entry.parameters > precision.SMALL_PARAMETERS:
            return MachineFit(Verdict.SLOW, dtype, needs, f"{words}, slow to type with", time.new_line_s)
    room = needs[dtype] - machine.free_bytes
    words += f", once {format_bytes(room)} more are free" if room > 0 else ""
    return MachineFit(Verdict.RUNS, dtype, needs, words, time.new_line_s if time else 0.0)


def _missing_package_command(entry: CatalogueEntry, machine: Machine) -> list[str]:
    """The command that installs what is missing to run a model; empty if nothing is."""
    if machine.on_mlx and entry.family == "diffusion_gemma" and entry.repo and not machine.mlx_vlm:
        return install_hints.install_command("mlx-vlm")
    return []


def recommend_for_new_user(machine: Machine) -> CatalogueEntry:
    """The model for a new user of this machine: the best of those that run on it under a free licence."""
    return next(iter(suitable_models(machine)), catalogue.entry_named(EMBEDDED))


def suitable_models(machine: Machine) -> list[CatalogueEntry]:
    """The tried models with a free licence that run here, best first; those too slow for typing come last."""
    free = [entry for entry in catalogue.ENTRIES if entry.is_tried and entry.licence.lower() in catalogue.FREE_LICENCES]
    ranked = [(judge_fit(entry, machine).verdict, entry) for entry in sorted(free, key=quality_rank, reverse=True)]
    fast, slow = (Verdict.RUNS, Verdict.PACKAGE), (Verdict.SLOW,)
    return [entry for verdicts in (fast, slow) for verdict, entry in ranked if verdict in verdicts]


def quality_rank(entry: CatalogueEntry) -> tuple[float, ...]:
    """Sorts models from worst to best: by whether it or a smaller relative has a score, then by size.

    Scores of different protocols are not comparable. Of models of one size a measured one wins, then the smaller
    download.
    """
    return _is_scored(entry), entry.parameters, bool(entry.quality), -entry.download_bytes


def _is_scored(entry: CatalogueEntry) -> bool:
    family = (other for other in catalogue.ENTRIES if other.family == entry.family)
    smaller = (other for other in family if other.parameters < entry.parameters)
    return entry.is_tried and any(other.quality for other in (entry, *smaller))


class AutoChoice(NamedTuple):
    """A model's name, and the reason for choosing it, for users.

    `better_model`: the model to pull, where the embedded one must do.
    """

    model: str
    why: str
    better_model: str = ""


def choose_auto_model(device: str | None, *, edits: str | None = None, held_bytes: int = 0) -> AutoChoice:
    """What the model `auto` is on this machine, if the user names at most a device. With `edits`: the edit model of
    that kind, or of any (`auto`); the one that it takes the place of holds `held_bytes`. Raises ModelError.
    """
    if edits:
        machine = examine_machine(device)
        machine = replace(machine, free_bytes=machine.free_bytes + held_bytes)
        return choose_edit_model(model_store.pulled_edit_models(edits), machine)
    pulled = [
        entry for entry in catalogue.ENTRIES if entry.repo and not entry.edit_kind and model_store.is_pulled(entry)
    ]
    troubles = [trouble for entry in catalogue.ENTRIES if (trouble := model_store.pulled_model_problem(entry))]
    choice = choose_fill_model(pulled, machine := examine_machine(device))
    machine_cache.save("auto", machine_cache.read("auto", str) | {machine.device: choice.model})
    return choice._replace(why="; ".join([*([choice.why] if pulled or not troubles else []), *troubles]))


def choose_fill_model(pulled: Sequence[CatalogueEntry], machine: Machine) -> AutoChoice:
    """The best pulled model that keeps up with typing, otherwise the fastest of the others, otherwise the embedded."""
    advised = recommend_for_new_user(machine)
    better = advised.name if advised.repo and judge_fit(advised, machine).verdict is Verdict.RUNS else ""
    if not pulled:
        return AutoChoice(EMBEDDED, "no other model is on this machine", better)
    fits = {entry.name: judge_fit(entry, machine) for entry in pulled}
    fast = [entry for entry in pulled if fits[entry.name].verdict is Verdict.RUNS]
    slow = [entry for entry in pulled if fits[entry.name].verdict is Verdict.SLOW]
    if not fast and not slow:
        problems = "; ".join(f"{name} {fit.words}" for name, fit in fits.items())
        return AutoChoice(EMBEDDED, f"of what was pulled nothing runs well here: {problems}", better)
    chosen = max(fast, key=quality_rank) if fast else min(slow, key=lambda entry: entry.parameters)
    reasons = [f"the best of what was pulled: {fits[chosen.name].words}"]
    if not fast and advised.repo:
        reasons.append(f"a smaller model: infill-ls models pull {advised.name}")
    reasons += [
        f"{entry.name} {fits[entry.name].words}" for entry in pulled if entry not in fast and entry is not chosen
    ]
    return AutoChoice(chosen.name, "; ".join(reasons))


def choose_edit_model(pulled: Sequence[CatalogueEntry], machine: Machine) -> AutoChoice:
    """The best pulled edit model that fits into what other models leave free, and keeps up. Raises ModelError."""
    fits = {entry.name: judge_fit(entry, machine, beside_others=True) for entry in pulled}
    chosen = next((name for name, fit in fits.items() if fit.verdict is Verdict.RUNS), None)
    if chosen is None:
        reasons = "; ".join(f"{name} {fit.words}" for name, fit in fits.items())
        raise ModelError(f"no pulled edit model runs well here: {reasons or 'none is on this machine'}")
    return AutoChoice(chosen, f"the best of what was pulled: {fits[chosen].words}")


def install_commands(entry: CatalogueEntry, machine: Machine) -> list[list[str]]:
    """The commands that install a model, each as a list of arguments; none if it is already here."""
    package = _missing_package_command(entry, machine)
    if entry.family == "fim" and machine.device == "cpu" and install_hints.mlx_advice():
        package = install_hints.install_command("mlx")
    return ([package] if package else []) + (
        [] if model_store.is_pulled(entry) else [["infill-ls", "models", "pull", entry.name]]
    )
