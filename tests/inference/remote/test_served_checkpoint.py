"""Our checkpoints' files satisfy vLLM's requirements."""

import json
from pathlib import Path

import pytest

from inference.models import registry


@pytest.mark.parametrize("model", ["embedded", str(Path(__file__).parents[2] / "data" / "twin")])
def test_a_checkpoint_states_how_it_is_sampled(model: str) -> None:
    """vLLM reads it from generation_config.json, and ends at its start where it is not all there."""
    found = registry.find(model)
    stated, sampler = json.loads((found.folder / "generation_config.json").read_text()), found.properties.sampler
    assert stated["sampler_config"]["_cls_name"] == "EntropyBoundSamplerConfig"
    assert stated["sampler_config"]["entropy_bound"] == sampler.entropy_bound > 0
    assert stated["max_denoising_steps"] == sampler.max_steps
    assert (stated["t_min"], stated["t_max"]) == (sampler.t_min, sampler.t_max)
    assert stated["stability_threshold"] == sampler.stability
    assert stated["confidence_threshold"] == sampler.confidence
