"""A new vocabulary starts from what an old one knows."""

import torch
from tokenizers import Tokenizer

from inference.training import gemma_tokenizer, tokenizer, vocabulary_transfer


def test_an_entry_starts_as_the_mean_of_the_tokens_that_spell_it(
    small_tokenizer: Tokenizer, small_gemma_tokenizer: Tokenizer
) -> None:
    """A word that both have keeps its embedding; special tokens go by name; bytes and unused ones start at random."""
    weights = torch.randn(small_tokenizer.get_vocab_size(), 8)
    table = vocabulary_transfer.embeddings(small_tokenizer, weights, small_gemma_tokenizer, first_text=107, seed=0)

    def row(piece: str) -> torch.Tensor:
        return table[small_gemma_tokenizer.token_to_id(piece)]

    (of_self,) = small_tokenizer.encode(" self").ids
    assert torch.equal(row("\u2581self"), weights[of_self])
    spelt = small_tokenizer.encode(" " * 31).ids
    assert torch.allclose(row("\u2581" * 31), weights[spelt].mean(0))
    assert torch.equal(row("<eos>"), weights[tokenizer.EOS])
    assert gemma_tokenizer.TURN != tokenizer.EOS
    assert not any(torch.equal(row(piece), one) for piece in ("<|turn>", "<0xC3>") for one in weights)
    assert table.isfinite().all()
