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
def test_a_model_has_one_name_until_its_server_says_another(status: Status | None) -> None:
    assert model_name(SERVER, status) == model_name(resolved(SERVER), status) == "localhost:8000"
    assert model_name(SERVER, READY) == "qwen"
    named = WorkerOptions(SERVER.model, server_model="big", partner="chat")
    assert model_name(named, status) == "big", "that of the settings comes first"
    assert model_name(WorkerOptions("/models/mine")) == "mine"
