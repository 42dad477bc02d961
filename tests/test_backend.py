"""The page's backend: it loads behind an open page, and says what went wrong when it can't."""

from __future__ import annotations

import time

import pytest

from kvrescue import zero
from kvrescue.backend import ModelBackend
from kvrescue.config import ConfigError, make_config
from kvrescue.presets import Choice
from kvrescue.stop import Stop
from tests.models.test_load import saved


def settled(backend: ModelBackend) -> ModelBackend:
    backend.start()
    deadline = time.monotonic() + 60
    while not (backend.status().ready or backend.status().error):
        assert time.monotonic() < deadline
        time.sleep(0.05)
    return backend


def test_before_and_after_loading(tmp_path):
    backend = ModelBackend(Choice(base=str(saved(tmp_path / "tiny"))))
    assert backend.count_tokens("abc") is None
    with pytest.raises(ConfigError, match="not ready yet"):
        backend.run("p", make_config(), Stop())
    settled(backend)
    status = backend.status()
    assert status.ready and status.models == "tiny" and "same weights" in status.note and status.device
    assert backend.count_tokens("abc") == 3
    events = list(backend.run("Count.", make_config(n=1, max_tokens=6), Stop()))
    assert events[0].type == "header" and events[-1].type == "end"
    with pytest.raises(ConfigError, match="reads at most"):
        backend.run("word " * 300, make_config(), Stop())


def test_models_that_cannot_be_loaded(tmp_path):
    backend = settled(ModelBackend(Choice(base=str(tmp_path))))
    assert "no config.json" in backend.status().error
    with pytest.raises(ConfigError, match=r"no config\.json"):
        backend.run("p", make_config(), Stop())


def test_a_crash_while_loading_is_told_without_details(tmp_path, monkeypatch, caplog):
    def crash(*_args, **_kwargs):
        raise RuntimeError(str(tmp_path))

    monkeypatch.setattr("kvrescue.models.load.load", crash)
    backend = settled(ModelBackend(Choice(base=str(tmp_path))))
    assert backend.status().error == "The models could not be loaded (RuntimeError)." and str(tmp_path) not in caplog.text


def test_models_that_were_given_back_are_loaded_again(tmp_path):
    backend = settled(ModelBackend(Choice(base=str(saved(tmp_path / "tiny")))))
    going = backend.run("Count.", make_config(n=1, max_tokens=6), Stop())
    next(going)
    assert not backend.release(), "a run goes on"
    list(going)
    assert backend.release() and not backend.status().ready
    with pytest.raises(ConfigError, match="not ready yet"):
        backend.run("Count.", make_config(n=1, max_tokens=6), Stop())
    settled(backend)
    assert list(backend.run("Count.", make_config(n=1, max_tokens=6), Stop()))[-1].type == "end"


def test_loading_that_failed_is_tried_again_when_asked(tmp_path):
    backend = settled(ModelBackend(Choice(base=str(tmp_path / "tiny"))))
    assert "not a folder" in backend.status().error
    saved(tmp_path / "tiny")
    assert settled(backend).status().ready


def test_a_run_without_gpu_time_left_is_told_in_a_sentence(tmp_path, monkeypatch):
    def refused(*_given):
        raise RuntimeError("You have exceeded your GPU quota (60s requested vs. 12s left)")
        yield

    monkeypatch.setattr(zero, "ACTIVE", True)
    monkeypatch.setattr(zero, "_call", refused)
    backend = settled(ModelBackend(Choice(base=str(saved(tmp_path / "tiny")))))
    assert "at a time" in backend.status().note
    with pytest.raises(ConfigError, match="free GPU time does not suffice"):
        list(backend.run("Count.", make_config(n=1, max_tokens=6), Stop()))
    backend.release()
