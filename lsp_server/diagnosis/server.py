"""Checks a server that has a model, by a separate process: where text goes, whether it answers, whose token it gets."""

import subprocess
from collections.abc import Iterator
from typing import Any

from inference.remote import address
from lsp_server.diagnosis.check import Check, Grade
from lsp_server.diagnosis.probe import run_probe
from lsp_server.worker import WorkerOptions
from lsp_server.worker.options import problem_of
from lsp_server.worker.paths import paths_of
from lsp_server.worker.processes import child_command
from lsp_server.worker.spawn import arguments

PROBE_S = 60.0
_PROBE = "inference.remote.probe"
_WAYS = {
    "suffix": "/v1/completions with a suffix",
    "infill": "llama.cpp's /infill",
    "chat": "/v1/chat/completions, which can see a draft",
}
_FAMILY = "/v1/completions with the tokens of {}"


def examine_server(options: WorkerOptions) -> Iterator[Check]:
    """Examines the server of `options`. Takes as long as the server, at most a minute."""
    name, of = ("partner", "partner ") if options.partner else ("server", "")
    if unusable := problem_of(options):
        yield Check.told(name, Grade.FAIL, unusable)
        return
    at = address.parse(options.model)
    yield Check(f"{of}text goes to", *_way(at))
    try:
        found = run_probe(child_command(_PROBE, *arguments(paths_of(options), options)), PROBE_S)
    except (OSError, ValueError, subprocess.SubprocessError) as error:
        yield Check(name, Grade.FAIL, f"it cannot be asked: {error}", "install infill-ls again")
        return
    yield Check(f"{name} token", Grade.OK, f"from {found['token']}" if found["token"] else "none")
    if problem := found["problem"]:
        yield Check.told(name, Grade.FAIL, problem)
        return
    how = f", asked by {_WAYS.get(found['kind'], _FAMILY.format(found['kind']))}" if options.partner else ""
    yield Check(name, Grade.OK, f"{found['place']} answers and serves {found['model']}{how}")
    if options.partner:
        yield _fill(found)


def _fill(found: dict[str, Any]) -> Check:
    """The partner's fill of the hole in `inference.remote.probe`."""
    if not found["fill"]:
        advice = "check that the model knows code, or set partner.kind to ask it in another way"
        return Check("partner fills", Grade.WARN, "nothing for a function without its result", advice)
    return Check("partner fills", Grade.OK, f"`return {found['fill']}` in {found['ms']} ms")


def _way(at: address.Address) -> tuple[Grade, str, str]:
    if at.is_encrypted:
        return Grade.OK, f"{at.url}, encrypted", ""
    if at.is_here:
        return Grade.OK, f"{at.url}, on this machine", ""
    return Grade.WARN, f"{at.url}, unencrypted: anybody on the way can read your code", "use https, or a tunnel"
