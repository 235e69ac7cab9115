"""GGUF files: the contents of a real one, and one clear error for a hostile one, before memory is reserved."""

import itertools
import json
import math
import random
import struct
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import gguf
import numpy as np
import pytest
import torch
from tokenizers import Tokenizer, pre_tokenizers
from transformers import AutoTokenizer

from inference.engine.canvas.vocabulary import Vocabulary
from inference.models import checkpoint, registry, tensor_readers, tokenizer_files
from inference.models.checkpoint import Checkpoint
from inference.models.family import ModelError
from inference.models.gguf import header
from inference.models.gguf.architectures import hub_tensors
from inference.models.gguf.header import TENSOR_TYPES
from inference.models.gguf.tokenizer import read_tokenizer
from inference.models.infill_config import InfillConfig
from tests.served.to_gguf import finish
from tests.served.to_gguf import main as write_gguf

FIM = Path(__file__).parents[2] / "data" / "fim"
TEXTS = (
    "def f(x):\n    return x + 1\n",
    "\tif (a&&b) {\r\n\t\treturn 0x1F;\r\n\t}\r\n\r\n",
    "  leading and trailing   \n\n\n   ",
    "naïve café e\u0301 \u2126 日本語 👩‍👩‍👧 \u200b\ufeff",
    "I'm they'Re 1234567 $x->y[0] += `q` ... ?!\n",
    "<|fim_prefix|>a<|fim_suffix|>b<|fim_middle|><|endoftext|> <tool_call>",
    "\x00\x07 \x1b[0m \ud7ff\U0010ffff",
)


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    file = tmp_path_factory.mktemp("gguf") / "fim.gguf"
    write_gguf(FIM, file)
    return file


def opened(file: Path) -> Checkpoint:
    return checkpoint.find_checkpoint(str(file), {"qwen2": lambda _folder, _config: InfillConfig()})


KINDS = ("F16", "BF16", "Q4_0", "Q4_1", "Q5_0", "Q5_1", "Q8_0")


def up_weights(file: Path, blocks: np.ndarray, kind: str, shape: tuple[int, int]) -> torch.Tensor:
    """One weight, written in this quantisation, as it is read."""
    writer = gguf.GGUFWriter(file, "qwen2")
    writer.add_tensor("blk.0.ffn_up.weight", blocks, raw_dtype=gguf.GGMLQuantizationType[kind])
    finish(writer)
    weights = tensor_readers.GgufReader("one", header.read_header(file))
    return weights.tensor("model.layers.0.mlp.up_proj.weight", shape, torch.device("cpu"), torch.float32)


@pytest.mark.parametrize("kind", KINDS)
def test_each_quantisation_is_undone(kind: str, tmp_path: Path) -> None:
    values = np.random.default_rng(1).normal(size=(70, 256)).astype(np.float32)
    blocks = gguf.quants.quantize(values, gguf.GGMLQuantizationType[kind])
    found = up_weights(tmp_path / "one.gguf", blocks, kind, (70, 256))
    assert np.abs(found.numpy() - values).max() < {"F16": 0.01, "BF16": 0.02, "Q8_0": 0.03}.get(kind, 0.5)


SCALES = {"Q2_K": (80, 82), "Q3_K": (108,), "Q4_K": (0, 2), "Q5_K": (0, 2), "Q6_K": (208,)}
"""Where a block of 256 weights has its half-precision numbers."""


@pytest.mark.parametrize("kind", SCALES)
def test_k_quantisations_are_undone_as_transformers_does(kind: str, tmp_path: Path) -> None:
    from transformers.integrations.gguf import dequant

    type_, size = gguf.GGMLQuantizationType[kind], gguf.GGML_QUANT_SIZES[gguf.GGMLQuantizationType[kind]][1]
    drawn = np.random.default_rng(2)
    blocks = drawn.integers(0, 256, (60, size), np.uint8)
    for at in SCALES[kind]:
        blocks[:, at : at + 2] = drawn.uniform(0.01, 0.1, (60, 1)).astype(np.float16).view(np.uint8)
    found = up_weights(tmp_path / "k.gguf", blocks.reshape(30, 2 * size), kind, (30, 512))
    wanted = dequant.dequantize(torch.from_numpy(blocks).flatten(), type_.value, torch.float32).view(30, 512)
    assert torch.allclose(found, wanted, atol=1e-5)


def test_sizes_of_types_are_those_of_ggml() -> None:
    for number, type_ in TENSOR_TYPES.items():
        known = gguf.GGMLQuantizationType(number)
        assert (known.name, gguf.GGML_QUANT_SIZES[known]) == (type_.name, (type_.block_size, type_.block_bytes))


def test_tokenizer_is_the_one_transformers_makes(file: Path) -> None:
    theirs = AutoTokenizer.from_pretrained(file.parent, gguf_file=file.name).backend_tokenizer
    ours = opened(file).tokenizer()
    same_tokens(ours, theirs, TEXTS)
    assert ours.get_vocab(with_added_tokens=True) == theirs.get_vocab(with_added_tokens=True)


def same_tokens(ours: Tokenizer, theirs: Tokenizer, texts: tuple[str, ...]) -> None:
    drawn = random.Random(7)
    code = Path(__file__).read_text()
    cuts = [code[at : at + drawn.randrange(200)] for at in drawn.choices(range(len(code)), k=200)]
    for text in (*texts, *cuts):
        found = ours.encode(text, add_special_tokens=False).ids
        assert found == theirs.encode(text, add_special_tokens=False).ids, text
        assert ours.decode(found, skip_special_tokens=False) == theirs.decode(found, skip_special_tokens=False)


def packed(text: str) -> bytes:
    return struct.pack("<Q", len(text.encode())) + text.encode()


def whole(
    *, keys: bytes = b"", key_count: int = 0, tensors: bytes = b"", tensor_count: int = 0, version: int = 3
) -> bytes:
    return b"GGUF" + struct.pack("<IQQ", version, tensor_count, key_count) + keys + tensors


def key(name: str, type_: int, value: bytes) -> bytes:
    return packed(name) + struct.pack("<I", type_) + value


def tensor(name: str, sizes: tuple[int, ...], type_: int = 0, offset: int = 0) -> bytes:
    return packed(name) + struct.pack(f"<I{len(sizes)}QIQ", len(sizes), *sizes, type_, offset)


QWEN = key("general.architecture", 8, packed("qwen2"))
HOSTILE = {
    "empty": (b"", "cut off"),
    "another format": (b"PK\3\4" + bytes(100), "no GGUF file"),
    "version 1": (whole(version=1), "version 1"),
    "big-endian": (b"GGUF\0\0\0\3" + bytes(16), "big-endian"),
    "absurd count of keys": (whole(key_count=1 << 60), "claims"),
    "more keys than it has": (whole(keys=QWEN, key_count=2), "cut off"),
    "a text of gigabytes": (whole(keys=key("a", 8, struct.pack("<Q", 1 << 40)), key_count=1), "claims a text"),
    "a text that is no text": (whole(keys=key("a", 8, struct.pack("<Q", 2) + b"\xff\xfe"), key_count=1), "UTF-8"),
    "a name with an escape": (whole(keys=key("\x1b]0;", 7, b"\1"), key_count=1), "control"),
    "a key twice": (whole(keys=QWEN * 2, key_count=2), "twice"),
    "an unknown type": (whole(keys=key("a", 99, b""), key_count=1), "type 99"),
    "not a number": (whole(keys=key("a", 6, struct.pack("<f", float("nan"))), key_count=1), "nan"),
    "lists in lists": (whole(keys=key("a", 9, struct.pack("<IQ", 9, 1) * 50), key_count=1), "no model needs"),
    "a long list in a short file": (whole(keys=key("a", 9, struct.pack("<IQ", 4, 1 << 22)), key_count=1), "cut off"),
    "no dimensions": (whole(tensors=tensor("a", ()), tensor_count=1), "0 dimensions"),
    "an absurd size": (whole(tensors=tensor("a", (1 << 40, 1 << 40)), tensor_count=1), "sizes"),
    "half a block": (whole(tensors=tensor("a", (33, 2), 8), tensor_count=1), "sizes"),
    "a quantisation of tomorrow": (whole(tensors=tensor("a", (32,), 77), tensor_count=1), "type 77"),
    "beyond the end": (whole(tensors=tensor("a", (32,), 0, 1 << 50), tensor_count=1), "is not at bytes"),
    "an odd alignment": (whole(keys=key("general.alignment", 4, struct.pack("<I", 7)), key_count=1), "alignment"),
    "a tensor twice": (whole(tensors=tensor("a", (1,)) * 2, tensor_count=2) + bytes(99), "twice"),
    "shared bytes": (
        whole(tensors=tensor("a", (16,)) + tensor("b", (16,), 0, 32), tensor_count=2) + bytes(200),
        "another tensor",
    ),
    "no architecture": (whole(), "architecture ''"),
    "another architecture": (whole(keys=key("general.architecture", 8, packed("clip")), key_count=1), "'clip'"),
    "a part": (whole(keys=QWEN + key("split.count", 2, struct.pack("<H", 3)), key_count=2), "one of 3 parts"),
    "no weights": (whole(keys=QWEN, key_count=1), "token_embd.weight is missing"),
    "no shape": (
        whole(keys=QWEN, key_count=1, tensors=tensor("token_embd.weight", (8, 8)), tensor_count=1) + bytes(300),
        "qwen2.embedding_length is missing",
    ),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_a_hostile_file_is_one_clear_error(name: str, tmp_path: Path) -> None:
    content, words = HOSTILE[name]
    file = tmp_path / "bad.gguf"
    file.write_bytes(content)
    with pytest.raises(ModelError, match=words) as caught:
        opened(file)
    assert str(file) in str(caught.value)
    assert str(caught.value).isprintable()


def test_every_cut_of_a_header_is_one_clear_error(file: Path, tmp_path: Path) -> None:
    content, drawn = file.read_bytes(), random.Random(3)
    for end in [*range(0, 200, 7), *(drawn.randrange(len(content)) for _ in range(30))]:
        (tmp_path / "cut.gguf").write_bytes(content[:end])
        with pytest.raises(ModelError):
            opened(tmp_path / "cut.gguf")


def test_any_changed_byte_loads_or_is_a_clear_error(file: Path, tmp_path: Path) -> None:
    content, drawn = bytearray(file.read_bytes()), random.Random(5)
    begin = min(one.begin for one in header.read_header(file).tensors.values())
    for at in (drawn.randrange(begin) for _ in range(50)):
        changed = content.copy()
        changed[at] ^= 1 << drawn.randrange(8)
        (tmp_path / "changed.gguf").write_bytes(changed)
        try:
            opened(tmp_path / "changed.gguf").tokenizer()
        except ModelError as error:
            assert str(error)


@pytest.mark.parametrize("kind", ["eos", "padding", "fim_mid"])
def test_a_token_outside_the_vocabulary_is_refused_early(file: Path, tmp_path: Path, kind: str) -> None:
    content, name = bytearray(file.read_bytes()), f"tokenizer.ggml.{kind}_token_id".encode()
    at = content.index(name) + len(name) + 4
    content[at : at + 4] = struct.pack("<I", 4_000_000_000)
    (tmp_path / "bad.gguf").write_bytes(content)
    with pytest.raises(ModelError, match="4000000000 is not a token of a vocabulary of"):
        registry.open_checkpoint(str(tmp_path / "bad.gguf"))


def test_one_weight_under_two_names_is_refused(file: Path) -> None:
    found = header.read_header(file)
    twice = replace(found, tensors={**found.tensors, "model.norm.weight": found.tensors["output_norm.weight"]})
    with pytest.raises(ModelError, match=r"output_norm.weight and model.norm.weight are the same weight"):
        hub_tensors(twice)


def test_a_pipe_is_not_waited_for(tmp_path: Path) -> None:
    subprocess.run(["mkfifo", tmp_path / "pipe.gguf"], check=True)
    with pytest.raises(ModelError, match="not a regular file"):
        opened(tmp_path / "pipe.gguf")


@pytest.mark.parametrize(("name", "dtype"), [("blk.0.ffn_up.weight", "8bit"), ("token_embd.weight", "float32")])
def test_nan_in_a_weight_is_a_clear_error(file: Path, tmp_path: Path, name: str, dtype: str) -> None:
    content = bytearray(file.read_bytes())
    begin = header.read_header(file).tensors[name].begin
    content[begin : begin + 4] = struct.pack("<f", float("nan"))
    (tmp_path / "nan.gguf").write_bytes(content)
    with pytest.raises(ModelError, match="NaN"):
        registry.load_model(str(tmp_path / "nan.gguf"), device="cpu", dtype=dtype)


def test_a_file_that_shrinks_is_a_clear_error(file: Path, tmp_path: Path) -> None:
    (tmp_path / "short.gguf").write_bytes(file.read_bytes())
    found = opened(tmp_path / "short.gguf")
    (tmp_path / "short.gguf").write_bytes(b"GGUF")
    with pytest.raises(ModelError, match="shorter"):
        found.tokenizer()
    with pytest.raises(ModelError, match="shorter"):
        tensor_readers.open_tensors(found).tensor("model.norm.weight", (192,), torch.device("cpu"), torch.float32)


def test_torch_is_not_imported_to_read_a_header(file: Path) -> None:
    code = (
        "import sys; from pathlib import Path; from inference.models.gguf import header; "
        "header.read_header(Path(sys.argv[1])); assert not {'torch', 'numpy'} & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code, file], check=True)


def test_a_folder_with_one_file_of_it_is_that_file(file: Path, tmp_path: Path) -> None:
    (tmp_path / "a.gguf").write_bytes(file.read_bytes())
    assert opened(tmp_path).config_file == tmp_path / "a.gguf"
    (tmp_path / "b.gguf").write_bytes(file.read_bytes())
    with pytest.raises(ModelError, match="2 \\*.gguf files"):
        opened(tmp_path)


def test_what_lies_beside_a_file_is_not_read(file: Path, tmp_path: Path) -> None:
    (tmp_path / "a.gguf").write_bytes(file.read_bytes())
    (tmp_path / "infill.json").write_text("no JSON")
    (tmp_path / "config.json").write_text("no JSON")
    assert opened(tmp_path / "a.gguf").config["hidden_size"] == 192


def test_unknown_tokenizer_is_a_clear_error(tmp_path: Path) -> None:
    (tmp_path / "a.gguf").write_bytes(whole(keys=QWEN + key("tokenizer.ggml.model", 8, packed("bert")), key_count=2))
    with pytest.raises(ModelError, match="'bert'"):
        read_tokenizer(header.read_header(tmp_path / "a.gguf"))


def write_vocabulary(file: Path, model: str, pre: str, tokens: list[str], **more: object) -> Path:
    """A file of the architecture llama with a tokenizer and little else. `more`: its lists, by their names."""
    writer = gguf.GGUFWriter(file, "llama")
    for name in ("block_count", "context_length", "embedding_length", "feed_forward_length", "head_count"):
        getattr(writer, f"add_{name}")(256)
    writer.add_layer_norm_rms_eps(1e-5)
    writer.add_tokenizer_model(model)
    writer.add_tokenizer_pre(pre)
    writer.add_token_list(tokens)
    writer.add_bos_token_id(1)
    for key, value in more.items():
        getattr(writer, f"add_{key}")(value)
    writer.add_tensor("token_embd.weight", np.zeros((len(tokens), 256), np.float32))
    finish(writer)
    return file


BYTES = [f"<0x{byte:02X}>" for byte in range(256)]
INFILL = ["▁<PRE>", "▁<SUF>", "▁<MID>", "▁<EOT>"]


@pytest.fixture(scope="module")
def sentencepiece(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """CodeLlama's kind: pieces that a trainer found in this file, with falling scores, and its tokens to infill."""
    from tokenizers import models, trainers

    trained = Tokenizer(models.BPE())
    words = (Path(__file__).read_text() + "\n".join(TEXTS[:5])).replace(" ", "▁")
    trained.train_from_iterator([words], trainers.BpeTrainer(vocab_size=900, show_progress=False))
    pieces = [token for token, _ in sorted(trained.get_vocab().items(), key=lambda item: item[1])]
    joined = [token for token in pieces if len(token) > 1]
    tokens = ["<unk>", "<s>", "</s>", *BYTES, *joined, *(token for token in pieces if len(token) == 1), *INFILL]
    types = [2, 3, 3, *(6 for _ in BYTES), *(1 for _ in pieces), *(1 for _ in INFILL)]
    scores = [0.0] * 259 + [-float(rank) for rank in range(len(pieces))] + [-1000.0] * 4
    file = tmp_path_factory.mktemp("pieces") / "pieces.gguf"
    return write_vocabulary(file, "llama", "default", tokens, token_types=types, token_scores=scores)


def joined(text: str, scores: dict[str, float]) -> list[str]:
    """As SentencePiece does: joins the neighbours that make the piece of the highest score, the first of equals."""
    parts = list(text.replace(" ", "▁"))
    while True:
        both = [(scores.get(one + other, -math.inf), -at) for at, (one, other) in enumerate(itertools.pairwise(parts))]
        best, at = max(both, default=(-math.inf, 0))
        if best == -math.inf:
            known = ([part] if part in scores else [f"<0x{byte:02X}>" for byte in part.encode()] for part in parts)
            return [piece for each in known for piece in each]
        parts[-at : 2 - at] = ["".join(parts[-at : 2 - at])]


def test_pieces_are_joined_by_their_scores(sentencepiece: Path) -> None:
    file = header.read_header(sentencepiece)
    types = file.numbers("tokenizer.ggml.token_type")
    pieces = zip(file.strings("tokenizer.ggml.tokens"), file.numbers("tokenizer.ggml.scores"), types, strict=True)
    scores = {token: score for token, score, type_ in pieces if type_ == 1 and token not in INFILL}
    made = read_tokenizer(file)
    for text in (Path(__file__).read_text()[:3000], *TEXTS[:5]):
        assert made.encode(text, add_special_tokens=False).tokens == joined(text, scores)


def test_pieces_keep_every_byte_and_text_stays_text(sentencepiece: Path) -> None:
    vocabulary = Vocabulary(read_tokenizer(header.read_header(sentencepiece)))
    for text in (Path(__file__).read_text(), *TEXTS, " <PRE> x <MID>", "▁▁ ▁"):
        ids = vocabulary.encode(text)
        assert vocabulary.bytes_of(ids) == text.encode()
        assert not {*ids} & {*vocabulary.special_ids}
    assert {vocabulary.id_of(name) for name in ("<s>", *INFILL)} <= {*vocabulary.special_ids}


def test_prompts_begin_with_a_token_where_the_file_says_so(sentencepiece: Path, tmp_path: Path) -> None:
    pieces, other = header.read_header(sentencepiece), tmp_path / "other.gguf"
    names = {"token_types": "token_type", "token_scores": "scores"}
    lists = {name: list(pieces.numbers(f"tokenizer.ggml.{key}")) for name, key in names.items()}
    write_vocabulary(other, "llama", "default", pieces.strings("tokenizer.ggml.tokens"), **lists, add_bos_token=False)
    for file, wanted in ((sentencepiece, [1]), (other, [])):
        found = checkpoint.find_checkpoint(str(file), {"llama": lambda _folder, _config: InfillConfig()})
        assert tokenizer_files.bos_ids(found, found.tokenizer()) == wanted


def bpe(file: Path, pre: str) -> Tokenizer:
    stated = json.loads((FIM / "tokenizer.json").read_text())
    tokens = [token for token, _ in sorted(stated["model"]["vocab"].items(), key=lambda item: item[1])]
    merges = [" ".join(pair) for pair in stated["model"]["merges"]]
    write_vocabulary(file, "gpt2", pre, tokens, token_types=[1] * len(tokens), token_merges=merges)
    return read_tokenizer(header.read_header(file))


@pytest.mark.parametrize("pre", ["smollm", "starcoder", "gpt-2"])
def test_text_is_split_as_the_library_does(pre: str, tmp_path: Path) -> None:
    ours, theirs = bpe(tmp_path / "ours.gguf", pre), bpe(tmp_path / "theirs.gguf", pre)
    digits = [] if pre == "gpt-2" else [pre_tokenizers.Digits(individual_digits=True)]
    theirs.pre_tokenizer = pre_tokenizers.Sequence([*digits, pre_tokenizers.ByteLevel(add_prefix_space=False)])
    same_tokens(ours, theirs, TEXTS[:5])


@pytest.mark.parametrize(
    ("pre", "parts"),
    [
        ("qwen2", ["x", "1", "2", " +=\n\n", "  ", " y"]),
        ("llama-bpe", ["x", "123", "4", " +=\n\n", "  ", " y"]),
        ("dbrx", ["x", "123", "4", " +=\n\n", "  ", " y"]),
        ("seed-coder", ["x", "1", "2", "3", "4", " +=", "\n\n", "  ", " y"]),
        ("deepseek-coder", ["x", "1", "2", "3", "4", " +=", "\n", "\n", "  ", " y", " ()", "\r", "日本", "é"]),
    ],
)
def test_each_way_to_split_text(pre: str, parts: list[str], tmp_path: Path) -> None:
    made = bpe(tmp_path / "a.gguf", pre)
    text = "".join(parts)
    assert made.pre_tokenizer is not None
    assert [text[begin:end] for _, (begin, end) in made.pre_tokenizer.pre_tokenize_str(text)] == parts


@pytest.mark.parametrize(
    ("more", "words"),
    [
        ({"token_types": [1] * 9}, "lacks scores, or tokens for single bytes"),
        ({"token_types": [1] * 9, "token_scores": [float("nan")] * 9}, "NaN or infinity"),
        ({"token_types": [1] * 8}, "lacks types"),
    ],
)
def test_a_broken_vocabulary_is_a_clear_error(more: dict[str, object], words: str, tmp_path: Path) -> None:
    file = write_vocabulary(tmp_path / "a.gguf", "llama", "default", list("abcdefghi"), **more)
    with pytest.raises(ModelError, match=words):
        read_tokenizer(header.read_header(file))
