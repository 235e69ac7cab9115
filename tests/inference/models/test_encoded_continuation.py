"""A continuation of an encoded prefix predicts what one whole causal pass predicts."""

import torch

from inference.engine import Engine
from tests.inference.loaded import causal_logits, gemma

PREFIX = "import os\n\n\ndef size(path):\n    return"


def test_rows_that_are_fed_together_say_the_same(embedded: Engine) -> None:
    ids = torch.tensor(embedded.loaded.vocabulary.encode(PREFIX))
    context = embedded.loaded.family.open(ids[:-6].tolist())
    list(context.encode())
    continuation = context.continuation(1, 8)
    rows = continuation.feed_rows(torch.tensor([[*ids[-6:-3].tolist(), 7, 7]]))[:, :4]
    continuation.trim(2)
    rows = torch.cat([rows, continuation.feed_rows(ids[None, -3:-1])], 1)
    whole = causal_logits(gemma(embedded).network, ids.tolist())
    torch.testing.assert_close(rows[0], whole[-7:-1], atol=1e-4, rtol=1e-4)
    torch.testing.assert_close(continuation.feed(ids[None, -1:])[0], whole[-1], atol=1e-4, rtol=1e-4)
    context.close()
