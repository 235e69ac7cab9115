"""The worker that the settings name, and the messages if they name none."""

import pytest

from lsp_server.settings.schema import PartnerSettings, ServerSettings, Settings
from lsp_server.settings.worker_options import is_remote, options_problem, partner_options, worker_options
from lsp_server.worker import WorkerError
from lsp_server.worker.connect import worker_command
from lsp_server.worker.paths import paths_of

PARTNER = PartnerSettings("http://gpu.example:8080/v1/", "gemma", "chat", plain_http=True)
SETTINGS = Settings(partner=PARTNER, server=ServerSettings("other", "/tokenizer"))


def test_the_worker_of_a_partner_is_told_how_it_is_asked() -> None:
    options = partner_options(SETTINGS)
    words = " ".join(worker_command(paths_of(options), options))
    assert "--model http://gpu.example:8080 " in words
    assert "--server-model gemma --plain-http --sends-token --partner chat" in words
    assert "--no-sends-token" not in words
    unsent = partner_options(SETTINGS, sends_token=False)
    assert worker_command(paths_of(unsent), unsent)[-3:] == ["--no-sends-token", "--partner", "chat"]


def test_where_the_partner_is_the_model_it_is_the_worker() -> None:
    alone = Settings(model="partner", partner=PARTNER, device="cuda", dtype="float32")
    assert worker_options(alone) == partner_options(SETTINGS)
    assert worker_options(SETTINGS).partner is None
    assert worker_options(alone, sends_token=False) == partner_options(SETTINGS, sends_token=False)


@pytest.mark.parametrize(
    ("partner", "words"),
    [
        (PartnerSettings(), "partner.url: no URL is set"),
        (PartnerSettings(""), "partner.url: no URL is set"),
        (PartnerSettings("localhost:8080"), "partner.url: 'localhost:8080' is not a URL"),
        (PartnerSettings("http://gpu.example"), "set partner.plainHttp or INFILL_LS_PARTNER_PLAIN_HTTP=1$"),
        (PartnerSettings("ftp://gpu.example"), "partner.url: .* has the scheme ftp"),
        (PartnerSettings("https://me:hush@gpu.example"), "INFILL_LS_PARTNER_TOKEN or the file partner-token"),
        (PartnerSettings("https://gpu.example/?q=1"), "partner.url: .* has a query"),
    ],
)
def test_a_partner_that_cannot_be_one_is_named_by_its_setting(partner: PartnerSettings, words: str) -> None:
    options = worker_options(Settings(model="partner", partner=partner))
    assert is_remote(options)
    assert "hush" not in options_problem(options)
    assert not any(
        other in options_problem(options) for other in ("server.plainHttp", "SERVER", "model:", "--plain-http")
    )
    with pytest.raises(WorkerError, match=words):
        worker_command(paths_of(options), options)
