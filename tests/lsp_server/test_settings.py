"""Settings are read key by key: what is wrong is reported, what is right is used."""

import msgspec
import pytest

from inference.messages import MAX_STEPS
from lsp_server.settings import STARTUP, Settings
from lsp_server.settings_layers import Layer, resolve


def test_nothing_set_gives_the_defaults() -> None:
    assert resolve([Layer("start options", None)]) == (Settings(), [])


def test_settings_are_read_in_camel_case() -> None:
    settings, problems = resolve([Layer("start options", {"maxSteps": 8, "deadlineMs": {"automatic": 500}})])
    assert (settings.max_steps, settings.deadline_ms.automatic, problems) == (8, 500, [])
    assert settings.deadline_ms.invoked == Settings().deadline_ms.invoked


@pytest.mark.parametrize(
    "raw",
    [
        {"marker": 7},
        {"marker": ""},
        {"maxSteps": 0},
        {"maxSteps": MAX_STEPS + 1},
        {"idleSeconds": float("nan")},
        {"idleSeconds": float("inf")},
        {"nonsense": 1},
        {"deadlineMs": {"automatic": "soon"}},
        {"deadlineMs": 5},
    ],
)
def test_one_bad_key_is_reported_and_the_rest_is_used(raw: dict[str, object]) -> None:
    settings, problems = resolve([Layer("start options", {**raw, "disabledLanguages": ["markdown"]})])
    assert settings == msgspec.structs.replace(Settings(), disabled_languages=("markdown",))
    assert len(problems) == 1
    assert problems[0].startswith("start options: ")
    assert next(iter(raw)) in problems[0]


def test_a_misspelt_key_is_answered_with_the_right_one() -> None:
    _, problems = resolve([Layer("start options", {"max_steps": 4})])
    assert problems == ["start options: unknown setting 'max_steps' (did you mean 'maxSteps'?); ignored"]


def test_settings_that_are_no_object_are_reported() -> None:
    assert resolve([Layer("start options", ["x"])]) == (
        Settings(),
        ["start options: settings must be an object, not an array; ignored"],
    )


def test_later_layers_win_key_by_key() -> None:
    layers = [Layer("a", {"marker": "§", "maxSteps": 4}), Layer("b", {"marker": "@@"}, at_start=False)]
    settings, problems = resolve(layers)
    assert (settings.marker, settings.max_steps, problems) == ("@@", 4, [])


def test_a_later_change_cannot_point_the_model_elsewhere() -> None:
    layers = [Layer("start options", {"model": "mine"}), Layer("changed settings", {"model": "theirs"}, at_start=False)]
    settings, problems = resolve(layers)
    assert settings.model == "mine"
    assert problems == [
        "changed settings: model is read only at start: set it in the start options and restart the server"
    ]


def test_a_later_change_that_repeats_the_model_in_use_is_no_problem() -> None:
    same = {"model": "mine", "idleSeconds": 600}
    assert resolve([Layer("a", same), Layer("b", same, at_start=False)])[1] == []


def test_patterns_of_secret_files_add_up() -> None:
    layers = [Layer("a", {"secretGlobs": ["x"]}), Layer("b", {"secretGlobs": ["y"]}, at_start=False)]
    assert resolve(layers)[0].secret_globs == ("x", "y")


def test_every_field_is_optional_described_and_in_the_schema() -> None:
    schema = msgspec.json.schema(Settings)["$defs"]["Settings"]
    assert schema.get("required", []) == []
    assert all("description" in json_field for json_field in schema["properties"].values())
    assert set(Settings.__struct_fields__) >= STARTUP
