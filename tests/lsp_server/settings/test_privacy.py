"""Files that may hold secrets, and switched-off files, get no fills."""

from pathlib import Path

import msgspec
import pytest

from lsp_server.settings.configuration import Configuration
from lsp_server.settings.privacy import is_secret
from lsp_server.settings.schema import Settings

SECRET = """
    .env  .ENV  .env.production  .env.local  prod.env  .envrc  .env-staging  .flaskenv  .dev.vars  api/.env.test.local
    .env~  .env.bak  .env.old  .env.swp  ..env.swp  .env.local.bak2  #.env#  .#.env  .env.20240131  .env.save.1
    server.pem  server.pem.bak  tls.key  tls.key~  tls.key.example  store.p12  cert.pfx  app.jks  a.keystore  a.ppk
    store.keytab  apns.p8  vault.kdbx  client.ovpn  signing.snk  wg0.conf  site.pvk  dump.psafe3
    id_rsa  id_rsa.old  id_ed25519  id_ecdsa_sk  deploy_rsa  work_ed25519  ssh_host_rsa_key  authorized_keys
    /home/a/.ssh/config  /home/a/.aws/credentials  /home/a/.aws/sso/cache/x.py  /home/a/.gnupg/gpg.conf
    /home/a/.kube/config  /home/a/.kube/cache/a.json  /home/a/.docker/config.json  /home/a/.config/gcloud/a/b.json
    /home/a/.config/gh/hosts.yml  /home/a/.config/rclone/rclone.conf  /home/a/.oci/config  /home/a/.password-store/x.gpg
    /home/a/.local/share/keyrings/login.keyring  /run/secrets/db  /etc/wireguard/home.conf  /etc/shadow  /etc/shadow-
    /home/a/.m2/settings.xml  /home/a/.m2/settings-security.xml  /home/a/.gradle/gradle.properties  /p/.git/config
    /home/a/.cargo/credentials.toml  /home/a/.gem/credentials  /home/a/.config/doctl/config.yaml  /home/a/.chef/a.rb
    .netrc  _netrc  .pgpass  pgpass.conf  .my.cnf  .mylogin.cnf  .pg_service.conf  .npmrc  .yarnrc.yml  .pypirc  pip.ini
    auth.json  .htpasswd  .git-credentials  .dockercfg  .dockerconfigjson  .s3cfg  .boto  .edgerc  .databrickscfg
    .sentryclirc  .authinfo  .msmtprc  .terraformrc  terraform.rc  .vault-token  .vault_pass  .vault_pass.txt
    terraform.tfvars  prod.auto.tfvars  a.tfvars.json  terraform.tfstate  terraform.tfstate.backup  .terraform/x.json
    prod.kubeconfig  kubeconfig  kubeconfig.yaml  rclone.conf  kaggle.json  google-services.json
    GoogleService-Info.plist  app-firebase-adminsdk-1.json  service-account.json  service_account_prod.json
    client_secret_12.apps.json  key.properties  keystore.properties  local.settings.json  a.publishsettings
    credentials  credentials.json  credentials.yml.enc  credentials.csv  config/prod.credentials.toml  Credentials.xml
    aws_credentials  gcp-credentials.json  credentials-prod.yaml  application_default_credentials.json  credentials.bak
    secret  secret.json  secrets.yml  secrets.toml  .secrets.toml  .secrets  secrets.dev.yaml  db-secret.yaml  a.secrets
    my-secrets.json  secrets.yaml.bak  secrets.properties  secrets.xml  .streamlit/secrets.toml  secrets.sh  ip.secrets
    token  token.json  .token  token.txt  github_token  .github-token  access_token.txt  bot.token  token~  .cache/token
    password  passwords.txt  passwords.csv  password.txt  db_password.txt  .passwd-s3fs  passwd  chap-secrets
    apikey  api_key.txt  api-keys.json  .api_key  private_key.json  privkey.txt  accessKeys.csv  rootkey.csv  secret_key
    wp-config.php  wp-config.php.bak  LocalSettings.php  local_settings.py  arduino_secrets.h
    i18n/.env  locales/server.pem  config/credentials/production.yml.enc
    config/initializers/secret_token.rb  master.key  .bash_history  .python_history  .psql_history  fish_history
    sftp-config.json  .ftpconfig  .vscode/sftp.json  filezilla.xml  sitemanager.xml  unattend.xml  wpa_supplicant.conf
    home.nmconnection  otr.private_key  logins.json  wallet.dat  .erlang.cookie
    my-service-account.json  serviceAccountKey.json  prod-service-account-key.json  myproject-123456-1a2b3c4d5e6f.json
    theme/access_tokens.json  theme/tokens.txt  app/tokens.json
    tokens.json  access_tokens.json  gh_token.json  bot-token.yaml  botToken.toml  githubToken.json  api.token.yml
    db-password.json  dbPasswords.yaml  app.secret.json  appSecret.json  client.secret.toml  oauth_creds.json
    env  env.production  env-staging  env_local  env.json  cypress.env.json  env.yml  deploy_key  ssh_key  host-key
    deploy_key.txt  admin.conf  /etc/kubernetes/kubelet.conf  kube_config_cluster.yml  .kubeconfig  talosconfig
    database.yml  config/database.yaml  appsettings.Production.json  appsettings.Development.json
    connectionStrings.json
    application-prod.yml  application-local.properties  ormconfig.json  flyway.conf  tomcat-users.xml  profiles.yml
    netrc  npmrc  my.cnf  .condarc  .yarnrc  bunfig.toml  .Renviron  .mvn/settings.xml  NuGet/NuGet.Config
    /home/a/.config/.wrangler/config/default.toml  /Users/a/Library/x/token  .railway/config.json
    local.properties  sentry.properties  google-services-dev.json  GoogleService-Info-Dev.plist  AuthKey_1.p8
    agconnect-services.json  Secrets.xcconfig  app.provisionprofile  group_vars/all/vault  vault-prod.yml
    prod_vault.yml
    prod.tfbackend  a.pkrvars.hcl  cookies.txt  cookies.sqlite  me.session  storageState.json
    playwright/.auth/user.json
    wallet.json  deployer-keypair.json  seed-phrase.txt  recovery-codes.txt  bitwarden_export.json  keys.txt  key.json
    team-provider-info.json  azureProfile.json  oauth2.json  jwt_key.json  sa-key.json  gcp-sa.json
    google-cloud-key.json  config/prod.secret.exs  config/application.yml  web.Release.config  a.pubxml.user
    .sbt/1.0/credentials.sbt  buildkite-agent.cfg  backend.hcl  .rediscli_auth  .cqlshrc  .odbc.ini  mongo-keyfile
    dbpass.txt  database_url.txt  webhook_url.txt  private.der  .config/hub  .claude.json  .modal.toml
    .wrangler/config/default.toml  .lein/profiles.clj  datadog.yaml  newrelic.yml  /etc/openvpn/auth.txt
    lib/tailscale/tailscaled.state  logins.csv   signing-key.properties  stored_tokens
"""
"""Names from the tables of well-known scanners and ignore files, and copies of them that editors and people make."""
DISGUISED = (
    *(".env ", ".env.", ".env. . ", ".ssh /config", ".ssh./config", ".env::$DATA", ".env:a", "a.pem:b:$DATA"),
    *(".ssh::$INDEX_ALLOCATION/config", ".env/.", ".env/./", "a/../.env", ".env/x/..", "./.env", ".env:HEAD"),
    *("HEAD:.env", "HEAD:.ssh/config", "a.jar!/.env", "a.zip::.env", ".env!", ".e\u200cnv", "．env", "\ufeff.env"),
    *("key.pem.txt", "id_rsa.txt", ".netrc.txt", "key.pem.bak.txt", "key.pem.txt.bak", "key.pem.git", "key.pem.new"),
    *("Copy of key.pem.txt", "Backup of .npmrc", ".npmrc copy 2", ".npmrc (HEAD)", "key.pem (Working Tree)"),
    *(
        ".env:refs/heads/main",
        ".env:a/b",
        "a.jar!/.env:refs/x",
        ".env:a@b/c",
        ".env@123",
        ".env@tip",
        ".npmrc@main",
        "key.pem@v1.2",
    ),
    *("id_rsa@{upstream}", ".env@origin/main", ".npmrc;1", ".npmrc,v", ".npmrc~1~", "id_rsa.~1.2~", "%.env%"),
    *("key.pem.md", "key.pem.json", "key.pem.py", "key.pem.zip", "tls.key.md", "%home%a%.ssh%config", "!p!.npmrc!"),
    *(".npmrc - Kopie", "token - Kopie.txt", ".npmrc (kopia)", ".npmrc Kopie", "Kopie von id_rsa", ".env\x7f"),
    *(".env\ufe0f", ".env\u034f", ".env\u3164", ".env\u2800", ".env\ue000", "key\u115f.p\u2065em", ".npmrc - Kopie~;1"),
    *(".env\0.py", ".env\n", "id_rsa@HEAD~1", "id_rsa@1a2b3c4d", ".npmrc.b64", "id_rsa.log", ".npmrc.rej", ".env\\."),
)
"""Other ways to write such a name: for Windows, for a version of it, in an archive, as a copy."""
CODE = """
    environment.py  keys.py  credentials.py  secrets/views.py  env/a.py  token.py  tokens.ts  secrets.py  secret.go
    tokenizer.py  token_test.py  test_token.py  credentials_form.tsx  password_reset.html  PasswordField.vue  secrets.rs
    secret_manager.tf  auth.py  auth.ts  api_key.rb  private_key.c  apikeys.proto  credentials.ipynb  passwords.php
    kube/config.go  settings.xml  main.tf  .github/workflows/ci.yml  package.json  tsconfig.json  tokenizer.json
    tokenizer_config.json  special_tokens_map.json  added_tokens.json  design.tokens.json
    config/secrets/README.md  docs/secrets.md  credentials.md  secrets.rst  reset-password.yaml  refresh-token.yaml
    change-password.json  environment.yml  env.py  .env.example  .env.sample  .env.local.template  example.env
    terraform.tfvars.example  secrets.yml.example  credentials.json.dist  secrets.example.yaml  wp-config-sample.php
    keyboard.key.ts  monkey.py  turkey.json  keymap.json  .keys.lua  public/monkeys.xml  id_rsa_test.go  rsa.py
    environment.ts  .envrc.d.ts  history.py  config.json  config.toml  .gitconfig  .gitignore  docker-compose.yml
    bin/change-password  scripts/rotate-secrets  sshd_config.py  ssh/config.py  aws/credentials.py  crypt/private_key.rs
    secretary.json  secretariat.txt  tokenise.cfg  passwordless.yaml  shadow.py  etc/shadow.css  auth/token.go
    .docker/php/Dockerfile  src/locales/en/auth.json  i18n/de/password.json  lang/en/token.yml  config/credentials/a.ts
    keypem.py  pem_reader.py  pem.py  dotenv.py  config/prod.env.js  config.token.ts  jwt.secret.ts  user.credentials.ts
    mod/secrets@v1.2/main.go  @secrets/views.py  secrets/@a/b.py  openssl_rsa.c  token_v1.2.py  100%.py  token-,x.py
    semantic-tokens.json  color.tokens.json  stop_tokens.json  max_tokens.txt.py  password-policy.json  secretForm.xml
    token-schema.json  passwordRules.yaml  SecretService.java  TokenStore.kt  password_reset.tsx  tokens.py  token.rs
    serviceAccount.ts  apiKeys.swift  deploy_key.py  env.py  env.ts  env.d.ts  environment.production.ts  database.py
    appsettings.json  application.yml  admin.py  cookies.ts  session.ts  wallet.dart  vault.go  keys.go  monkeys.json
    passwordless.json  tokenized.csv  keyboard.json  profiles.json  settings.json  hotkeys.json  turkeys.txt
    templates/serviceaccount.yaml  service-account.yml  public-key.json  primary_key.json  foreign-key.json  keyfile.py
    web.config  database_url.py  webhook-url.ts  theme/tokens.json  src/design-system/tokens.yaml  styles/tokens.json
    known_secrets_test.go  gradle.properties  settings.py  Makefile  Dockerfile  LICENSE  requirements.txt
"""
"""What looks like it and is not."""


def settings(**values: object) -> Settings:
    return msgspec.structs.replace(Settings(), **values)


@pytest.mark.parametrize("name", SECRET.split())
def test_files_that_may_hold_secrets_are_secret(name: str) -> None:
    for path in (f"/p/{name.lstrip('/')}", f"C:/Users/me/{name.lstrip('/').upper()}"):
        assert is_secret(path, Settings())


@pytest.mark.parametrize("name", DISGUISED)
def test_a_secret_by_another_spelling_is_secret(name: str) -> None:
    assert is_secret(f"/p/{name}", Settings())
    assert is_secret(f"/p/{name}".replace("npmrc", "mine"), settings(secret_globs=(".mine",))) or "npmrc" not in name


@pytest.mark.parametrize(
    "name",
    [
        *CODE.split(),
        *(
            "notes (1).txt",
            "a:b.py",
            "C:/p/a.py",
            "src/Copy of a.py",
            "a@2x.png",
            "token list.py",
            "Secrets - how to.md",
        ),
    ],
)
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


@pytest.mark.parametrize(
    "name", ["serviceAccountKey.json", "env.production", "tokens.json", "deploy_key", "AuthKey_1.p8"]
)
@pytest.mark.parametrize("form", ["{}", "{}.", "{} ", "{}. .", "{}~", "{}.bak", "{}::$DATA"])
def test_case_separators_and_endings_hide_no_secret(name: str, form: str) -> None:
    for spelled in (name, name.lower(), name.upper()):
        for folder in ("/p/", "C:\\\\Users\\\\me\\\\", "//host/share/", ""):
            assert is_secret(folder + form.format(spelled), Settings()), spelled


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
        configuration.take_sent({"allowedSecretGlobs": [".env"]})
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
