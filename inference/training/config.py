"""A run's configuration, from a TOML file. An unknown key is an error."""

from pathlib import Path

import msgspec


class ConfigError(ValueError):
    """An unusable configuration file; the message says which and why."""


class ModelConfig(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """The shape of the network. `heads * head_size` need not be `hidden_size`."""

    hidden_size: int
    layers: int
    heads: int
    head_size: int
    mlp_size: int
    vocabulary_size: int
    expert_size: int = 32
    """Of DiffusionGemma's one expert."""
    sliding_window_tokens: int = 1024
    max_positions: int = 4096


class DataConfig(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Lengths of a stream and its canvases in tokens, and how much to read of each source (10^6 bytes)."""

    prefix_tokens: int
    canvas_tokens: int
    canvases: int = 2
    source_mb: float = 40.0
    sources: tuple[str, ...] = ()
    """Names from `inference.training.corpus`; empty for all of them."""


class TrainingConfig(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """The objective and the loop. `streams` is the batch; a step is `streams * (prefix + canvases * canvas)` rows."""

    streams: int
    matrix_lr: float = 0.02
    other_lr: float = 3e-3
    warmup_steps: int = 200
    causal_weight: float = 0.3
    """The weight of left-to-right text, relative to 1 for text in holes."""
    self_conditioning: float = 0.3
    loss_rows: float = 0.5
    """The share of a stream's canvas rows that can carry loss; further hole rows carry none."""
    average_steps: int = 300
    """The memory of the averaged weights that snapshots ship."""
    autocast: bool = True
    compile: bool = True
    seed: int = 0
    workers: int = 0
    """Processes that draw batches ahead; 0 draws them in between, which is best if the CPU does the training."""


class LoraConfig(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Tunes a large checkpoint. `slack_token`: one of its tokens that no text uses, which learns to pad holes."""

    base: str
    slack_token: str
    rank: int = 16
    alpha: int = 32


class ReportConfig(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """When the run reports and saves."""

    log_steps: int = 50
    evaluate_steps: int = 500
    evaluate_batches: int = 6
    save_minutes: float = 10.0
    keep_checkpoints: int = 3


class RunConfig(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A whole run: of a new model, or of adapters (`lora`) for an existing one."""

    data: DataConfig
    training: TrainingConfig
    model: ModelConfig | None = None
    lora: LoraConfig | None = None
    report: ReportConfig = ReportConfig()


def read(file: Path) -> RunConfig:
    """The configuration in a TOML file. Raises ConfigError."""
    try:
        config = msgspec.toml.decode(file.read_bytes(), type=RunConfig)
    except OSError as error:
        raise ConfigError(f"{file} cannot be read: {error.strerror}") from error
    except msgspec.DecodeError as error:
        raise ConfigError(f"{file}: {error}") from error
    _check(file, config)
    return config


def _check(file: Path, config: RunConfig) -> None:
    model, data = config.model, config.data
    if (model is None) == (config.lora is None):
        raise ConfigError(f"{file}: either [model] or [lora] is needed, not both")
    if model is None:
        return
    if model.sliding_window_tokens < data.prefix_tokens + data.canvas_tokens:
        raise ConfigError(f"{file}: model.sliding_window_tokens must hold a prefix and a canvas")
    if model.max_positions < data.prefix_tokens + data.canvas_tokens:
        raise ConfigError(f"{file}: model.max_positions must hold a prefix and a canvas")
    if model.vocabulary_size < 300:
        raise ConfigError(f"{file}: model.vocabulary_size must hold all bytes and some words: at least 300")
