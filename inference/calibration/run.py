"""`infill-ls calibrate`: measure how sure a checkpoint is of a hole by its length alone, and keep that for its fills.

For a checkpoint that says nothing of lengths and has no likelihood to rank them by. The holes are lines of code that it
may have seen in training; only their lengths matter. The result is kept beside the checkpoint, or in the user's cache
folder where that cannot be written, and is used from the next load on.
"""

import argparse
import sys
import sysconfig
from collections.abc import Sequence
from pathlib import Path

from inference.calibration import code_holes
from inference.calibration.code_holes import CodeHole, NoCodeError
from inference.models.family import Family, LengthBias, LengthSignal, ModelError
from inference.remote import address

_HOLES = 96
_SEED = 5


def main(argv: Sequence[str] | None = None) -> int:
    """Measure, print and keep; returns the exit status."""
    args = _parser().parse_args(argv)
    try:
        holes = code_holes.holes(args.on, args.holes, _SEED)
        family = _load(args)
        if family.traits.length_signal is LengthSignal.SLACK:
            raise ModelError(f"{args.model} tells by itself how long a hole is: there is nothing to calibrate")
        bias = _measure(family, holes)
        _keep(args, bias, len(holes))
    except (NoCodeError, ModelError, OSError) as error:
        print(f"infill-ls: {error}", file=sys.stderr)
        return 2
    if family.traits.can_score:
        print("This checkpoint's fills are ranked by likelihood; this is used only where that is implausible.")
    return 0


def _load(args: argparse.Namespace) -> Family:
    from inference.models import registry

    if address.is_url(args.model):
        raise ModelError(
            "a server's model cannot be measured from here; calibrate its checkpoint on the machine that has the files"
        )

    def progress(fraction: float, what: str) -> None:
        _say(f"{fraction:.0%} {what}")

    return registry.load(args.model, device=args.device, dtype=args.dtype, on_progress=progress)


def _measure(family: Family, holes: Sequence[CodeHole]) -> LengthBias:
    from inference.calibration import measure
    from inference.engine import Engine

    found = []
    for one in measure.measured(Engine(family), holes, _SEED):
        found.append(one)
        _say(f"{len(found)} of {len(holes)} holes", end="\n" if len(found) == len(holes) else "")
    bias = measure.bias(found)
    print("tokens  how sure, whatever belongs there")
    for size, sure in zip(bias.lengths, bias.confidences, strict=True):
        print(f"{size:6}  {sure:.3f}")
    chosen = measure.choices(found, bias)
    print(
        f"Lengths chosen here are off by a factor of {chosen.calibrated:.2f} (median; {chosen.uncalibrated:.2f} "
        f"without the calibration, {chosen.usual:.2f} with the median length for all)."
    )
    return bias


def _keep(args: argparse.Namespace, bias: LengthBias, holes: int) -> None:
    from inference.models import calibration, registry

    file = calibration.keep(registry.find(args.model), holes, bias)
    print(f"Kept in {file}; remove that file to undo it. A worker that runs has to be started again.")


def _say(text: str, end: str = "") -> None:
    """Progress, in one line of a terminal's standard error."""
    if sys.stderr.isatty():
        print(f"\r\x1b[K{text}", end=end, file=sys.stderr, flush=True)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="infill-ls calibrate", description="Measure how sure a checkpoint is of holes by their length."
    )
    parser.add_argument("--model", required=True, metavar="NAME_OR_FOLDER", help="the model (see: infill-ls models)")
    parser.add_argument("--device", metavar="NAME")
    parser.add_argument("--dtype", metavar="NAME")
    parser.add_argument(
        "--on",
        type=Path,
        default=Path(sysconfig.get_path("stdlib")),
        metavar="PATH",
        help="a file or folder of code to measure on (default: Python's own library)",
    )
    parser.add_argument("--holes", type=_count, default=_HOLES, metavar="N", help=f"on how many (default: {_HOLES})")
    return parser


def _count(value: str) -> int:
    """The value of --holes. Raises argparse.ArgumentTypeError."""
    if not value.isdecimal() or not 1 <= int(value) <= 10_000:
        raise argparse.ArgumentTypeError(f"'{value}' is not a number from 1 to 10000")
    return int(value)


if __name__ == "__main__":
    sys.exit(main())
