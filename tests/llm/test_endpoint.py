"""Requests to an endpoint: what each way of failing is called, and that no secret comes back."""

import logging

import pytest
from tables import table_of_cases
from waiting import LIMIT_S

from evoflash.errors import UsageError, without_passwords
from evoflash.llm.endpoint import MOST_BYTES, Endpoint, endpoint, post
from evoflash.model_exchange import ANSWERED
from tests.llm import loopback

KEY = "sk-0123456789abcdef"
BODY = {"model": "m", "messages": []}


@table_of_cases()
def test_each_way_of_failing_has_its_words_within_the_limits(
    answer: str, status: str, limit_s: float | None
) -> None:
    with loopback.loopback(vars(loopback)[answer]) as server:
        reply = post(Endpoint("m", server.url, KEY), BODY, limit_s=limit_s or LIMIT_S)
        asked = len(server.requests)
    assert reply.status == status
    assert asked == 1
    assert len(reply.text) <= MOST_BYTES


def test_nobody_at_the_address_is_no_connection() -> None:
    with loopback.loopback(loopback.garbage) as server:
        url = server.url
    assert post(Endpoint("m", url), BODY).status == "no connection (ConnectionRefusedError)"


def test_a_retry_after_is_kept_within_an_hour() -> None:
    for said, seconds in (("30", 30.0), ("999999999", 3600.0), ("soon", 60.0), ("\xb2", 60.0)):
        with loopback.loopback(lambda asked, _, said=said: asked.send(429, "", Retry_After=said)) as server:
            assert post(Endpoint("m", server.url), BODY).retry_after_s == seconds


@table_of_cases()
def test_what_an_endpoint_sends_back_of_a_secret_is_left_out(
    user: str | None, key: str | None, query: str | None, secrets: list[str], caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    with loopback.loopback(loopback.echo) as server:
        url = server.url.replace("://", f"://{user}@") if user else server.url
        where = Endpoint("m", f"{url}?{query}" if query else url, key or "")
        reply = post(where, BODY)
        path, headers, _ = server.requests[0]
    assert reply.status == ANSWERED
    sent = path + headers.get("Authorization", "")
    assert any(secret in sent for secret in secrets)
    for secret in secrets:
        assert secret not in reply.text + repr((where, reply)) + caplog.text + without_passwords(where.url)


@pytest.mark.parametrize(
    "url", ["HTTPS://me:hidden1@h/v1?k=hidden2", "http://hidden1@h?hidden2", "https://h?hidden1"]
)
@pytest.mark.parametrize("word", ["{}", "--llm-url={}", "'{}'", 'a "{}" b'])
def test_an_address_is_written_without_what_may_be_a_secret(word: str, url: str) -> None:
    written = without_passwords(word.format(url))
    assert "hidden" not in written
    assert without_passwords("see https://h.org/a@b/c#d") == "see https://h.org/a@b/c#d"
    assert written[-1] == word.format("*")[-1]


@table_of_cases()
def test_an_address_or_key_that_makes_no_sense_is_one_line_without_it(
    model: str | None, url: str, key: str | None, says: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    if key is not None:
        monkeypatch.setenv("LLM_KEY", key)
    with pytest.raises(UsageError, match=says) as found:
        endpoint(model or "m", url, "LLM_KEY" if key is not None or "LLM_KEY" in says else None)
    assert "secret" not in str(found.value)


def test_a_key_is_read_from_the_variable_that_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LLM_KEY", KEY)
    for url in ("https://example.org/v1", "http://localhost:1/v1", "http://127.0.0.1:1", "http://[::1]:1/v1"):
        assert endpoint("m", url, "LLM_KEY").headers()["Authorization"] == f"Bearer {KEY}"
    assert "Authorization" not in endpoint("m", "http://example.org/v1", None).headers()
