"""Files that may hold secrets, and switched-off files, get no fills."""

from pathlib import Path

import msgspec
import pytest

from lsp_server.settings.configuration import Configuration
from lsp_server.settings.privacy import is_secret
from lsp_server.settings.schema import Settings

FIXTURES = Path(__file__).parent / "fixtures"


def names(kind: str) -> list[str]:
    """The file names of a fixture: one a line, with Python's escapes for what cannot be seen.

    `secret`: from the tables of well-known scanners and ignore files, and copies that editors and people make.
    `disguised`: other ways to write such a name: for Windows, for a version of it, in an archive, as a copy.
    `code`: what looks like one and is not.
    """
    lines = (FIXTURES / f"{kind}.txt").read_text(encoding="ascii").splitlines()
    return [line.encode("ascii").decode("unicode_escape") for line in lines]


def settings(**values: object) -> Settings:
    return msgspec.structs.replace(Settings(), **values)


@pytest.mark.parametrize("name", names("secret"))
def test_case_separators_and_endings_hide_no_secret(name: str) -> None:
    bare = name.lstrip("/")
    for form in ("{}", "{}.", "{} ", "{}. .", "{}~", "{}.bak", "{}::$DATA"):
        for spelled in (bare, bare.lower(), bare.upper()):
            for folder in ("/p/", "C:/Users/me/", "C:\\\\Users\\\\me\\\\", "//host/share/", ""):
                assert is_secret(folder + form.format(spelled), Settings()), spelled


@pytest.mark.parametrize("name", names("disguised"))
def test_a_secret_by_another_spelling_is_secret(name: str) -> None:
    assert is_secret(f"/p/{name}", Settings())
    assert is_secret(f"/p/{name}".replace("npmrc", "mine"), settings(secret_globs=(".mine",))) or "npmrc" not in name


@pytest.mark.parametrize("name", names("code"))
def test_code_is_not_secret(name: str) -> None:
    assert not is_secret(f"/p/{name}", Settings())


def test_a_pattern_with_a_slash_is_compared_with_the_path() -> None:
    assert is_secret("/p/vault/deep/a.py", settings(secret_globs=("vault/*",)))
    assert not is_secret("/p/vaults/a.py", settings(secret_globs=("vault/*",)))


def test_a_copy_of_what_the_user_has_named_is_secret_too() -> None:
    mine = settings(secret_globs=("secrets.py", "vault/*.txt"))
    for name in ("secrets.py", "secrets.py~", "secrets.py.bak", ".secrets.py.swp", "vault/deep/a.txt.old"):
        assert is_secret(f"/p/{name}", mine)
    assert not is_secret("/p/my_secrets.py.bak", mine)


def test_the_reason_names_the_setting() -> None:
    disabled_reason = Configuration({}, {}).disabled_reason
    for name, language, own, said in (
        ("/p/a.md", "markdown", settings(disabled_languages=("markdown",)), "for markdown (disabledLanguages)"),
        ("/p/a.gen.py", "python", settings(disabled_globs=("*.gen.py",)), "for this file (disabledGlobs)"),
        ("/p/mine.py", "python", settings(secret_globs=("mine.*",)), "never read (secretGlobs)"),
    ):
        assert str(disabled_reason([name], language, own)).endswith(said)
        linked = disabled_reason(["/p/link", name], language, own)
        assert str(linked).endswith(said if "Languages" in said else f"{said} (it leads to {name})")
    assert "never read (it" in str(disabled_reason(["/p/a.py", "/p/.env"], "python", Settings()))
    assert disabled_reason(["/p/a.py"], "python", Settings()) is None


def test_the_user_allows_a_path_of_the_built_in_list() -> None:
    own = settings(allowed_secret_globs=("app/tokens.json",))
    assert not is_secret("/p/app/tokens.json", own)
    for name in ("/p/tokens.json", "/p/app/tokens.json.bak", "/p/app/.env"):
        assert is_secret(name, own)
    assert is_secret("/p/app/tokens.json", settings(secret_globs=("tokens.*",), allowed_secret_globs=("tokens.json",)))


def test_only_the_user_allows_a_path(tmp_path: Path) -> None:
    """A workspace may only take back what its user has allowed, trusted or not."""
    (tmp_path / "infill-ls.toml").write_text('allowedSecretGlobs = [".env"]\n')
    for options in ({}, {"trustWorkspace": True}):
        configuration = Configuration({}, {}, options, [tmp_path.as_uri()])
        configuration.set_editor_settings({"allowedSecretGlobs": [".env"]})
        assert configuration.unreadable_reason(tmp_path / ".env", "")
        assert any("allowedSecretGlobs" in problem for problem in configuration.problems)
    for user in ({"allowedSecretGlobs": [".env", "b"]}, {}):
        configuration = Configuration(
            {}, {"INFILL_LS_ALLOWED_SECRET_GLOBS": "" if user else '[".env"]'}, user, [tmp_path.as_uri()]
        )
        assert configuration.unreadable_reason(tmp_path / ".env", "") is None


@pytest.mark.parametrize(
    ("name", "rule"),
    [
        *((".env.local", ".env.*"), ("a.pem", "*.pem"), ("home/.ssh/config", "everything in .ssh")),
        *((".docker/config.json", ".docker/config.json"), ("gh_token.json", "words such as token, password or key")),
        *(("a.pem.txt", "a key's extension inside the name"), ("config/gcloud/x", None)),
    ],
)
def test_the_reason_names_the_built_in_rule(name: str, rule: str | None) -> None:
    reason = Configuration({}, {}).disabled_reason([f"/p/{name}"], "", Settings())
    assert (reason is None) == (rule is None)
    assert rule is None or f"the built-in rule for {rule}" in str(reason)


def test_a_hard_link_to_a_secret_met_before_is_secret(tmp_path: Path) -> None:
    configuration = Configuration({}, {}, {}, [tmp_path.as_uri()])
    secret, link, other = tmp_path / ".env", tmp_path / "settings.py", tmp_path / "other.py"
    secret.write_text("A=1\n")
    link.hardlink_to(secret)
    other.write_text("x = 1\n")
    (tmp_path / "copy.py").hardlink_to(other)
    assert configuration.unreadable_reason(link, "python") is None, "its secret was not met"
    assert configuration.unreadable_reason(secret, "python")
    assert str(configuration.unreadable_reason(link, "python")).endswith(f"(it leads to {secret})")
    assert configuration.unreadable_reason(other, "python") is None
    secret.unlink()
    assert configuration.unreadable_reason(link, "python") is None, "the secret's name is gone"
