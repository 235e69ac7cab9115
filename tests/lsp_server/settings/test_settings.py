"""Settings are read key by key: bad ones are reported, good ones are used."""

import argparse

import msgspec
import pytest

from inference.messages import MAX_STEPS
from lsp_server.commands.arguments import add_model_arguments, settings_without_folder
from lsp_server.settings.layers import Layer, Origin, environment_layers, merge_layers
from lsp_server.settings.schema import STARTUP, USER_ONLY, PartnerSettings, ServerSettings, Settings, json_schema


@pytest.mark.parametrize(
    "raw",
    [
        {"marker": 7},
        {"marker": ""},
        {"maxSteps": MAX_STEPS + 1},
        {"idleSeconds": float("nan")},
        {"nonsense": 1},
        {"deadlineMs": {"automatic": "soon"}},
        {"deadlineMs": 5},
        {"marker": "\ud800"},
        {"dtype": "\ud800"},
        {"disabledGlobs": ["\ud800"]},
    ],
)
def test_one_bad_key_is_reported_and_the_rest_is_used(raw: dict[str, object]) -> None:
    settings, problems = merge_layers([Layer("start options", {**raw, "disabledLanguages": ["markdown"]})])
    assert settings == msgspec.structs.replace(Settings(), disabled_languages=("markdown",))
    assert len(problems) == 1
    assert problems[0].startswith("start options: ")
    assert next(iter(raw)) in problems[0]


def test_a_misspelt_key_is_answered_with_the_right_one() -> None:
    _, problems = merge_layers([Layer("a", {"max_steps": 4, "context": {"enabld": False}})])
    assert problems == [
        "a: unknown setting 'max_steps' (did you mean 'maxSteps'?); ignored",
        "a: unknown setting 'context.enabld' (did you mean 'context.enabled'?); ignored",
    ]


def test_settings_that_are_no_object_are_reported() -> None:
    problem = "start options: Expected object, got array; ignored"
    assert merge_layers([Layer("start options", ["x"])]) == (Settings(), [problem])


def test_patterns_of_secret_files_add_up() -> None:
    layers = [Layer("a", {"secretGlobs": ["x"]}), Layer("b", {"secretGlobs": ["y"]}, Origin.EDITOR)]
    assert merge_layers(layers)[0].secret_globs == ("x", "y")


WORKSPACE = Origin.WORKSPACE


@pytest.mark.parametrize(
    ("theirs", "ignored"),
    [
        ({"model": "theirs", "device": "cuda", "maxSteps": 4}, ["device", "model"]),
        (
            {"model": "https://theirs.example", "server": {"plainHttp": True, "tokenizer": "/theirs"}},
            ["model", "server"],
        ),
        ({"server": {"tokenizer": "/theirs"}}, ["server"]),
        ({"server": {"model": "theirs"}}, ["server"]),
        ({"server": {"plainHttp": True}}, ["server"]),
        ({"partner": {"url": "https://evil.example"}, "model": "partner"}, ["model", "partner"]),
        ({"trustWorkspace": True, "model": "theirs"}, ["model", "trustWorkspace"]),
    ],
)
def test_only_a_trusted_workspace_chooses_model_and_server(theirs: dict[str, object], ignored: list[str]) -> None:
    mine = {"model": "http://localhost:8000"}
    layer = Layer("infill-ls.toml", theirs, WORKSPACE)
    settings, problems = merge_layers([Layer("a", mine), layer])
    assert settings == merge_layers([Layer("a", {**mine, "maxSteps": theirs.get("maxSteps")})])[0]
    assert sorted(problem.split()[1] for problem in problems) == ignored
    assert all(problem.startswith("infill-ls.toml: ") for problem in problems)
    assert "--trust-workspace" in " ".join(problems)
    trusted, problems = merge_layers([Layer("a", {"trustWorkspace": True}), layer])
    assert trusted == merge_layers([Layer("a", {**theirs, "trustWorkspace": True})])[0]
    assert problems == []


def test_later_change_cannot_name_another_server() -> None:
    mine = {"model": "http://localhost:8000", "server": {"tokenizer": "/mine"}}
    started, _ = merge_layers([Layer("options", mine)])
    later = {"model": "https://theirs.example", "server": {"tokenizer": None, "plainHttp": False}}
    settings, problems = merge_layers([Layer("options", mine), Layer("settings", later, Origin.EDITOR)], started)
    advice = "set it in the start options and restart the server"
    assert problems == [f"settings: {name} is read only at start: {advice}" for name in ("model", "server")]
    assert settings == started
    same = {**mine, "server": {"tokenizer": "/mine", "plainHttp": False, "model": None}}
    assert merge_layers([Layer("options", mine), Layer("settings", same, Origin.EDITOR)], started)[1] == []


def test_the_users_last_word_on_trust_counts() -> None:
    theirs = Layer("infill-ls.toml", {"model": "theirs"}, WORKSPACE)
    layers = [Layer("options", {"trustWorkspace": True}), theirs, Layer("flags", {"trustWorkspace": False})]
    assert merge_layers(layers)[0].model == "auto"


def test_repeated_or_overruled_setting_is_no_problem() -> None:
    theirs = Layer("infill-ls.toml", {"model": "theirs"}, WORKSPACE)
    assert merge_layers([Layer("options", {"model": "theirs"}), theirs])[1] == []
    settings, problems = merge_layers([theirs, Layer("flags", {"model": "mine"})])
    assert (settings.model, problems) == ("mine", [])
    assert merge_layers([Layer("theirs", {"statistics": "on"}, Origin.EDITOR)], Settings()) == (Settings(), [])


def test_editor_defaults_do_not_fight_a_trusted_workspace() -> None:
    layers = [
        Layer("options", {"trustWorkspace": True}),
        Layer("settings", {"model": "embedded"}, Origin.EDITOR),
        Layer("infill-ls.toml", {"model": "theirs"}, WORKSPACE),
    ]
    started, problems = merge_layers(layers)
    assert (started.model, problems) == ("theirs", [])
    assert merge_layers(layers, started) == (started, [])


def test_a_workspace_switches_off_more_but_nothing_on() -> None:
    layers = [Layer("a", {"disabledGlobs": ["*.gen.py"], "disabledLanguages": ["sql"]})]
    theirs = Layer("infill-ls.toml", {"disabledGlobs": ["vendor/*"], "disabledLanguages": []}, WORKSPACE)
    settings, _ = merge_layers([*layers, theirs])
    assert settings.disabled_globs == ("*.gen.py", "vendor/*")
    assert settings.disabled_languages == ("sql",)


def test_what_is_read_at_start_stays_until_the_next_start() -> None:
    options = Layer("options", {"trustWorkspace": True})
    started, _ = merge_layers([options, Layer("infill-ls.toml", {"model": "one"}, WORKSPACE)])
    later = Layer("infill-ls.toml", {"model": "two", "marker": "@@"}, WORKSPACE)
    settings, (problem,) = merge_layers([options, later], started)
    assert (settings.model, settings.marker) == ("one", "@@")
    assert problem == "infill-ls.toml: model is read only at start, from the first workspace folder: restart the server"


@pytest.mark.parametrize(
    ("variable", "text", "read"),
    [
        ("INFILL_LS_MAX_STEPS", "8", {"maxSteps": 8}),
        ("INFILL_LS_IDLE_SECONDS", "45", {"idleSeconds": 45.0}),
        ("INFILL_LS_DEADLINE_MS_INVOKED", "500", {"deadlineMs": {"invoked": 500}}),
        ("INFILL_LS_DISABLED_LANGUAGES", "sql, markdown", {"disabledLanguages": ("sql", "markdown")}),
        ("INFILL_LS_DISABLED_GLOBS", '["*.sql", "a, b.py"]', {"disabledGlobs": ("*.sql", "a, b.py")}),
        ("INFILL_LS_DISABLED_GLOBS", "[ab]*.py,*.sql", {"disabledGlobs": ("[ab]*.py", "*.sql")}),
        ("INFILL_LS_TRUST_WORKSPACE", "1", {"trustWorkspace": True}),
        ("INFILL_LS_PREFETCH", "false", {"prefetch": False}),
        ("INFILL_LS_COMPLETION", "never", {"completion": "never"}),
        ("INFILL_LS_SUGGESTIONS", "calm", {"suggestions": "calm"}),
        ("INFILL_LS_CONTEXT_ENABLED", "false", {"context": {"enabled": False}}),
    ],
)
def test_the_environment_sets_what_the_settings_do(variable: str, text: str, read: object) -> None:
    layers = environment_layers({variable: text, "PATH": "/bin", "INFILL_LS_RUNTIME_DIR": "/run"})
    settings, problems = merge_layers(layers)
    assert (settings, problems) == merge_layers([Layer("start options", read)]) != (Settings(), [])


@pytest.mark.parametrize(
    ("variable", "text", "said"),
    [
        ("INFILL_LS_MAX_STEP", "8", "did you mean 'maxSteps'?"),
        ("INFILL_LS_MAX_STEPS", "many", "Expected int"),
        ("INFILL_LS_CONFIDENCE_FLOOR", "0.25", "suggestions replaces it"),
        ("INFILL_LS_COLOUR", "red", "unknown setting 'COLOUR'; ignored"),
        ("INFILL_LS_MARKER", "\udcff", "half a surrogate pair; ignored"),
        ("INFILL_LS_DTYPE", "\udcff", "half a surrogate pair; ignored"),
        ("INFILL_LS_DISABLED_GLOBS", '["*.sql"', "truncated"),
        ("INFILL_LS_DISABLED_GLOBS", '["\udcff"]', "half a surrogate pair; ignored"),
    ],
)
def test_a_bad_variable_is_reported_by_name(variable: str, text: str, said: str) -> None:
    settings, (problem,) = merge_layers(environment_layers({variable: text}))
    assert settings == Settings()
    assert problem.startswith(f"environment variable {variable}: ")
    assert said in problem


def test_schema_describes_every_setting_with_a_valid_default() -> None:
    schema = json_schema()
    assert set(schema["properties"]) == set(Settings.__struct_encode_fields__)
    assert all({"description", "default", "scope"} <= entry.keys() for entry in schema["properties"].values())
    names = dict(zip(Settings.__struct_fields__, Settings.__struct_encode_fields__, strict=True))
    of_machine = {name for name, entry in schema["properties"].items() if entry["scope"] == "machine"}
    assert of_machine == {names[name] for name in USER_ONLY} | {"statistics", "allowedSecretGlobs"}
    assert {"model", "device", "dtype", "server", "partner", "trustWorkspace"} <= of_machine
    assert "$ref" not in str(schema)
    assert set(Settings.__struct_fields__) >= STARTUP >= USER_ONLY
    defaults = {name: entry["default"] for name, entry in schema["properties"].items()}
    assert merge_layers([Layer("schema", defaults)]) == (Settings(), [])


def test_servers_token_is_no_setting(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    parser = argparse.ArgumentParser()
    add_model_arguments(parser)
    given = {"MODEL": "https://gpu.example", "SERVER_TOKENIZER": "/tokenizer"}
    for name, value in (given | {"SERVER_PLAIN_HTTP": "true", "SERVER_TOKEN": "hush"}).items():
        monkeypatch.setenv(f"INFILL_LS_{name}", value)
    chosen = settings_without_folder(parser.parse_args(["--server-model", "gemma"]))
    assert (chosen.model, chosen.server) == ("https://gpu.example", ServerSettings("gemma", "/tokenizer", True))
    assert capsys.readouterr().err == ""
    assert "hush" not in repr(chosen)
    assert settings_without_folder(parser.parse_args(["--plain-http"])).server.plain_http


OFF: dict[str, object] = {"context": {"enabled": False}}
OFF |= {"prefetch": False, "statistics": "off", "nextEdit": {"model": "off", "plainHttp": False}}
ON = {
    "context.enabled": {"context": {"enabled": True}},
    "prefetch": {"prefetch": True},
    "nextEdit.model": {"nextEdit": {"model": "https://theirs.example"}},
    "nextEdit.plainHttp": {"nextEdit": {"model": "off", "plainHttp": True}},
    "statistics": {"statistics": "on"},
}


@pytest.mark.parametrize("origin", [Origin.EDITOR, Origin.WORKSPACE])
@pytest.mark.parametrize("trusts", [True, False])
@pytest.mark.parametrize("name", ON)
def test_no_workspace_switches_on_that_text_is_sent_or_kept(origin: Origin, trusts: bool, name: str) -> None:
    """It may switch it off; and what the user has said in the end counts."""
    mine, theirs = Layer("mine", {"trustWorkspace": trusts, **OFF}), Layer("theirs", ON[name], origin)
    settings, problems = merge_layers([mine, theirs])
    assert settings == merge_layers([mine])[0]
    why = f"{name} cannot be switched on or widened from here"
    assert problems == [f"theirs: {why}: set it in your editor's start options or the environment"]
    less = Layer("sent", OFF, Origin.EDITOR)
    assert merge_layers([Layer("mine", {"trustWorkspace": trusts, **ON[name]}), less, theirs])[0] == settings
    assert merge_layers([less, theirs, Layer("mine", ON[name])]) == merge_layers([Layer("mine", {**OFF, **ON[name]})])


def test_partners_token_is_no_setting() -> None:
    partner = {"URL": "http://localhost:8080", "MODEL": "gemma", "KIND": "chat", "PLAIN_HTTP": "true", "TOKEN": "hush"}
    found = {f"INFILL_LS_PARTNER_{name}": value for name, value in partner.items()}
    settings, problems = merge_layers(environment_layers(found))
    assert problems == []
    assert settings.partner == PartnerSettings("http://localhost:8080", "gemma", "chat", True)
    assert "hush" not in repr(settings)


def test_server_flags_apply_to_a_partner_model() -> None:
    parser = argparse.ArgumentParser()
    add_model_arguments(parser)
    args = parser.parse_args(["--model", "partner", "--server-model", "gemma", "--plain-http"])
    chosen = settings_without_folder(args)
    assert (chosen.partner, chosen.server) == (PartnerSettings(model="gemma", plain_http=True), ServerSettings())
