"""The real weights in float32: token for token what transformers writes, with drafts and without."""

import pytest
import torch

from inference.engine.engine import Engine
from inference.engine.fim.decode import PromptLookup
from inference.engine.fim.prompt import FimPrompt
from inference.models import registry
from inference.models.fim.adapter import LlamaFimAdapter
from inference.models.llama.config import llama_config, weight_shapes
from inference.models.tensor_readers import open_tensors
from tests.inference.engine.fim.test_decode import written as decoded
from tests.inference.models.fim.checkpoints import greedy, stock_logits
from tests.real.conftest import MODEL

TOKENS = 16
BEFORE = "import os\n\n\ndef sizes(folder):\n    found = {}\n    for name in os.listdir(folder):\n        "
AFTER = "\n    return found\n"


@pytest.fixture(scope="module")
def family(pulled: None) -> LlamaFimAdapter:
    loaded = registry.load_model(MODEL, device="cpu", dtype="float32")
    assert isinstance(loaded, LlamaFimAdapter)
    return loaded


def stock() -> torch.nn.Module:
    """transformers' network with the weights of the file; the finer of its two copies of the tied matrix twice."""
    from transformers import Qwen2Config, Qwen2ForCausalLM

    found = registry.open_checkpoint(MODEL)
    weights, shapes = open_tensors(found), weight_shapes(llama_config(found))
    keys = ("vocab_size", "hidden_size", "intermediate_size", "num_hidden_layers", "num_attention_heads")
    more = ("num_key_value_heads", "rms_norm_eps", "max_position_embeddings")
    rope = {"rope_theta": found.config["rope_theta"], "rope_type": "default"}
    config = Qwen2Config(
        **{key: found.config[key] for key in keys + more}, tie_word_embeddings=True, rope_parameters=rope
    )
    model = Qwen2ForCausalLM(config).eval()
    cpu = torch.device("cpu")
    state = {name: weights.tensor(name, shapes[name], cpu, torch.float32) for name in weights.shapes}
    state["model.embed_tokens.weight"] = state.get("lm_head.weight", state["model.embed_tokens.weight"])
    model.load_state_dict(state, strict=False)
    return model


def test_real_text_is_that_of_transformers(family: LlamaFimAdapter) -> None:
    ids = family.fim_prompt(BEFORE, AFTER)
    written = greedy(family, ids, TOKENS)
    assert len(written) > 4
    model, whole = stock(), list(ids)
    while len(whole) < len(ids) + len(written):
        whole.append(int(stock_logits(model, whole)[-1].argmax()))
    assert written == whole[len(ids) :]
    assert len(written) == TOKENS or int(stock_logits(model, whole)[-1].argmax()) in family.stop_ids
    engine, asked = Engine(family), FimPrompt(tuple(ids), b"", 0, "", 0, TOKENS, False)
    for draft in (written, [*written[:3], 9, 9, *written[4:]], ids):
        assert decoded(engine, asked, PromptLookup(ids, draft))[0].ids == written
