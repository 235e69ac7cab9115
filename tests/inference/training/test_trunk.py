"""One pass over stream and canvases equals the encoder's pass over each prefix, then the decoder's over its canvas."""

import torch

from inference.training import trunk
from tests.inference.models.random_model import CANVAS_TOKENS, VOCABULARY_SIZE, WINDOW, random_model

PREFIX_TOKENS = 40


def test_canvas_sees_what_the_decoder_sees() -> None:
    """Sliding and full layers, several experts, splits on both sides of the window, a canvas that ends early."""
    model = with_factors_of_their_own(random_model())
    decoder = model.model.decoder
    splits = torch.tensor([[PREFIX_TOKENS, 9], [WINDOW, WINDOW + 5]])
    lengths = torch.tensor([[CANVAS_TOKENS, 11], [7, CANVAS_TOKENS]])
    stream = torch.randint(5, VOCABULARY_SIZE, (2, PREFIX_TOKENS))
    canvas = torch.randint(5, VOCABULARY_SIZE, (2, 2 * CANVAS_TOKENS))
    logits = torch.randn(2, 2 * CANVAS_TOKENS, VOCABULARY_SIZE)
    soft = logits.softmax(-1) @ decoder.embed_tokens.weight * decoder.embed_tokens.embed_scale
    hidden = _one_pass(model.model, stream, canvas, soft, splits, lengths)
    for b in range(2):
        for k in range(2):
            rows = slice(k * CANVAS_TOKENS, k * CANVAS_TOKENS + int(lengths[b, k]))
            prefix = stream[b : b + 1, : splits[b, k]]
            wanted = _two_passes(model, prefix, canvas[b : b + 1, rows], logits[b : b + 1, rows])
            found = model.lm_head(hidden[b, PREFIX_TOKENS:][rows])
            capped = torch.tanh(found / model.final_logit_softcapping) * model.final_logit_softcapping
            torch.testing.assert_close(capped, wanted, rtol=1e-4, atol=1e-4)


@torch.no_grad()
def with_factors_of_their_own(model):  # type: ignore[no-untyped-def]
    """The factors behind layers are no weights, so that encoder and decoder do not share them."""
    both = zip(model.model.encoder.language_model.layers, model.model.decoder.layers, strict=True)
    for number, (own, other) in enumerate(both):
        own.layer_scalar.fill_(0.5 + 0.1 * number)
        other.layer_scalar.fill_(1.3 - 0.2 * number)
    return model


@torch.no_grad()
def _one_pass(model, stream, canvas, soft, splits, lengths):  # type: ignore[no-untyped-def]
    at = trunk.positions(splits, PREFIX_TOKENS, CANVAS_TOKENS)
    windows = {"sliding_attention": WINDOW, "full_attention": None}
    mask = {
        kind: trunk.visible(splits, lengths, PREFIX_TOKENS, CANVAS_TOKENS, window) for kind, window in windows.items()
    }
    return trunk.run(model, stream, canvas, soft, trunk.rotary(model.decoder, at), mask)


@torch.no_grad()
def _two_passes(model, prefix, canvas, logits):  # type: ignore[no-untyped-def]
    return model(input_ids=prefix, decoder_input_ids=canvas, self_conditioning_logits=logits).logits[0]


def test_the_stream_is_the_encoder() -> None:
    model = with_factors_of_their_own(random_model())
    stream = torch.randint(5, VOCABULARY_SIZE, (1, PREFIX_TOKENS))
    canvas = torch.randint(5, VOCABULARY_SIZE, (1, CANVAS_TOKENS))
    soft = torch.zeros(1, CANVAS_TOKENS, model.config.text_config.hidden_size)
    splits, lengths = torch.tensor([[30]]), torch.tensor([[CANVAS_TOKENS]])
    hidden = _one_pass(model.model, stream, canvas, soft, splits, lengths)
    with torch.no_grad():
        encoded = model.model.encoder.language_model(input_ids=stream).last_hidden_state
    torch.testing.assert_close(hidden[:, :PREFIX_TOKENS], encoded, rtol=1e-4, atol=1e-4)
