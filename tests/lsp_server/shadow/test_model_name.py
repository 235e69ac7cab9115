"""A model has one name in the records, before and after its server has reported it."""

import pytest

from inference.messages import Status, WorkerState
from lsp_server.shadow.other_model import model_name
from lsp_server.worker import WorkerOptions
from lsp_server.worker.options import resolved

SERVER = WorkerOptions("http://localhost:8000/v1/", partner="chat")
LOADING = Status(WorkerState.LOADING, model="http://localhost:8000")
READY = Status(WorkerState.READY, model="qwen")


@pytest.mark.parametrize("status", [None, LOADING, Status(WorkerState.LOADING)])
def test_until_its_server_has_said_it_a_model_has_one_name(status: Status | None) -> None:
    assert model_name(SERVER, status) == "localhost:8000"
    assert model_name(resolved(SERVER), status) == "localhost:8000"


def test_then_it_is_what_the_server_calls_it() -> None:
    assert model_name(SERVER, READY) == "qwen"


@pytest.mark.parametrize("status", [None, LOADING])
def test_until_then_the_name_of_the_settings_comes_first(status: Status | None) -> None:
    options = WorkerOptions("http://localhost:8000", server_model="big", partner="chat")
    assert model_name(options, status) == "big"


def test_of_a_folder_it_is_the_last_part() -> None:
    assert model_name(WorkerOptions("/models/mine")) == "mine"
