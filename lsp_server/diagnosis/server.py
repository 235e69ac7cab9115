"""Check the server that has the model: where text goes, whether it answers, and with whose token it is asked.

A process of its own asks it, as a worker does: `inference.remote.probe`. Nothing of any file is sent.
"""

import json
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

from inference.remote import address
from lsp_server.diagnosis.check import Check, Verdict
from lsp_server.worker import WorkerOptions
from lsp_server.worker.paths import paths_of
from lsp_server.worker.spawn import arguments

PROBE_S = 60.0


def examine_server(options: WorkerOptions) -> Iterator[Check]:
    """What there is to say of the server of `options`. Takes as long as it takes to answer, a minute at most."""
    if options.problem:
        words, _, advice = options.problem.partition("; ")
        yield Check("server", Verdict.FAIL, words, advice)
        return
    at = address.parse(options.model)
    yield Check("text goes to", *_way(at))
    try:
        found = _probe(options)
    except (OSError, ValueError, subprocess.SubprocessError) as error:
        yield Check("server", Verdict.FAIL, f"it cannot be asked: {error}", "install infill-ls again")
        return
    yield Check("server token", Verdict.OK, f"from {found['token']}" if found["token"] else "none")
    if problem := found["problem"]:
        words, _, advice = problem.partition("; ")
        yield Check("server", Verdict.FAIL, words, advice)
        return
    yield Check("server", Verdict.OK, f"{found['place']} answers and serves {found['model']}")


def _way(at: address.Address) -> tuple[Verdict, str, str]:
    if at.is_encrypted:
        return Verdict.OK, f"{at.url}, encrypted", ""
    if at.is_here:
        return Verdict.OK, f"{at.url}, on this machine", ""
    return Verdict.WARN, f"{at.url}, unencrypted: whoever is on the way can read your code", "use https, or a tunnel"


def _probe(options: WorkerOptions) -> dict[str, Any]:
    """What the probe prints. Raises OSError, ValueError or subprocess.SubprocessError."""
    words = [sys.executable, "-P", "-m", "inference.remote.probe", *arguments(paths_of(options), options)]
    nothing = subprocess.DEVNULL
    done = subprocess.run(words, stdin=nothing, capture_output=True, text=True, timeout=PROBE_S, check=False)
    if done.returncode or not done.stdout.strip():
        raise ValueError((done.stderr.strip().splitlines() or ["no output"])[-1])
    found: dict[str, Any] = json.loads(done.stdout.strip().splitlines()[-1])
    return found
