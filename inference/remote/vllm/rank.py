"""Ranks answers by what vLLM can tell of them: it gives no causal likelihood of a fill.

(`prompt_logprobs` would be one. In 0.32 it ends the engine of a diffusion model.) What it does tell is how likely the
first tokens behind a hole are where the fill stands and they do not: one read of a canvas on which they are open.

Of 62 tuning lines with the embedded checkpoint, 4 lengths each: the likeliest length gave edit similarity 0.308 (8 %
exact), the surest fill 0.302 (10 %), this score 0.368 (11 %), a choice that knows the truth 0.461 (16 %).
"""

import math

from inference.engine.canvas.fills import Written
from inference.engine.canvas.plan import Plan
from inference.remote.vllm.reading import Reader
from inference.remote.vllm.trial import Noise

SUFFIX_TOKENS = 8
_SUFFIX_WEIGHT, _LENGTH_WEIGHT = 1.0, 0.075
_LEAST = -20.0
"""The log-probability of tokens the server does not list."""


def by_confidence(written: Written) -> float:
    """The mean log-probability with which the model chose the tokens it wrote; 0 where all were given."""
    chosen = [written.confidences[row] for _, first, end in written.spans for row in range(first, end)]
    return sum(max(_LEAST, math.log(sure)) if sure > 0 else _LEAST for sure in chosen) / len(chosen) if chosen else 0.0


async def suffix_likelihood(reader: Reader, plan: Plan, written: Written, noise: Noise) -> float | None:
    """The mean log-probability of the first tokens behind the last hole, were they not known; None without any.

    Raises ServerError, and TimeoutError at the deadline.
    """
    end = written.spans[-1][2]
    rows = range(end, min(end + SUFFIX_TOKENS, len(written.ids)))
    if not rows:
        return None
    seed = [noise.token() if row in rows else id_ for row, id_ in enumerate(written.ids)]
    wanted = [written.ids[row] for row in rows]
    answer = await reader.read(seed, [row for row in range(len(seed)) if row not in rows], tokens=sorted(set(wanted)))
    found = [max(_LEAST, answer.log_probabilities[row].get(id_, _LEAST)) for row, id_ in zip(rows, wanted, strict=True)]
    return sum(found) / len(found)


def score(written: Written, suffix: float | None) -> float:
    """How good a fill is, by how sure the model was of it and of what follows it; higher is better.

    A little more for each e-fold of its tokens: a model is the surer the shorter a fill is.
    """
    tokens = sum(end - first for first, _, end in written.spans)
    found = by_confidence(written) + (0.0 if suffix is None else _SUFFIX_WEIGHT * suffix)
    return found / (1 + _SUFFIX_WEIGHT) + _LENGTH_WEIGHT * math.log(max(1, tokens))
