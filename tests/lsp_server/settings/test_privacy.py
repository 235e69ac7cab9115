"""Files that may hold secrets, and files that are switched off, get nothing."""

import msgspec
import pytest

from lsp_server.settings.privacy import is_secret, why_off
from lsp_server.settings.schema import Settings


def settings(**values: object) -> Settings:
    return msgspec.structs.replace(Settings(), **values)


@pytest.mark.parametrize(
    "path",
    [
        "/p/.env",
        "/p/.env.production",
        "/p/.ENV",
        "/home/a/.ssh/config",
        "/home/a/.aws/credentials",
        "/p/server.pem",
        "/p/id_rsa",
        "/p/config/credentials.json",
        "/p/secrets.yml",
        "/p/terraform.tfvars",
        "C:/p/.npmrc",
        "/home/a/.netrc",
        "/home/a/.kube/config",
        "/p/prod.kubeconfig",
        "/p/terraform.tfstate.backup",
        "/p/.terraform/terraform.tfstate",
        "/home/a/.config/gcloud/application_default_credentials.json",
        "/p/k8s/db-secret.yaml",
        "/p/client_secret_12.apps.json",
        "/p/.dev.vars",
        "/home/a/.bash_history",
        "/p/store.keytab",
        "/home/a/.m2/settings.xml",
    ],
)
def test_files_that_may_hold_secrets_are_secret(path: str) -> None:
    assert is_secret(path, Settings())


@pytest.mark.parametrize(
    "path",
    [
        *("/p/environment.py", "/p/keys.py", "/p/credentials.py", "/p/secrets/views.py", "/env/a.py", "/p/token.py"),
        *("/p/kube/config.go", "/p/settings.xml", "/p/main.tf", "/p/.github/workflows/ci.yml", "/p/package.json"),
    ],
)
def test_code_is_not_secret(path: str) -> None:
    assert not is_secret(path, Settings())


def test_a_pattern_with_a_slash_is_compared_with_the_path() -> None:
    assert is_secret("/p/vault/deep/a.py", settings(secret_globs=("vault/*",)))
    assert not is_secret("/p/vaults/a.py", settings(secret_globs=("vault/*",)))


def test_the_reason_names_the_setting() -> None:
    assert "disabledLanguages" in str(why_off("/p/a.md", "markdown", settings(disabled_languages=("markdown",))))
    assert "disabledGlobs" in str(why_off("/p/a.gen.py", "python", settings(disabled_globs=("*.gen.py",))))
    assert why_off("/p/a.py", "python", Settings()) is None
