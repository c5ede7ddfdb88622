"""One request to an endpoint of OpenAI's chat protocol, within limits of time and bytes. Judges no answer.

Whatever goes wrong is a Reply that says so; nothing is raised. The key and whatever of the address may be a
secret are left out of everything that comes back, for an endpoint may send back what it was sent.
"""

import base64
import http.client
import json
import os
import re
import socket
import ssl
import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import SplitResult, parse_qsl, quote, unquote, urlsplit

from evoflash.errors import UsageError
from evoflash.model_exchange import ANSWERED

LIMIT_S = 180.0  # for the whole of a request, however slowly bytes come
MOST_BYTES = 256 * 1024  # of a response
MOST_OF_OTHERS = 2_000  # characters kept of a response that is no answer
_SHORTEST_SECRET = 6  # characters: leaving out shorter ones would only tear texts apart
_MOST_WAIT_S = 3600.0  # that a Retry-After may ask for


@dataclass(frozen=True, slots=True)
class Endpoint:
    """Where a model answers. Its repr shows no secret."""

    model: str
    url: str = field(repr=False)
    key: str = field(default="", repr=False)

    @property
    def parts(self) -> SplitResult:
        return urlsplit(self.url)

    def headers(self) -> dict[str, str]:
        """With the key, or with the user and password of the address."""
        parts, said = self.parts, {"Content-Type": "application/json", "Accept-Encoding": "identity"}
        if self.key:
            said["Authorization"] = f"Bearer {self.key}"
        elif parts.username:
            said["Authorization"] = f"Basic {_basic(parts)}"
        return said

    def secrets(self) -> list[str]:
        """Texts that must be shown nowhere, the longest first."""
        parts = self.parts
        values = [value for _, value in parse_qsl(parts.query)]
        found = [self.key, parts.query, parts.username or "", parts.password or "", *values]
        found += [unquote(each) for each in found] + [quote(each, safe="") for each in found]
        found += [_basic(parts)] if parts.username else []
        found += [json.dumps(each)[1:-1] for each in found]
        return sorted({each for each in found if len(each) >= _SHORTEST_SECRET}, key=len, reverse=True)

    def without_secrets(self, text: str) -> str:
        for secret in self.secrets():
            text = text.replace(secret, "***")
        return text


def _basic(parts: SplitResult) -> str:
    pair = f"{unquote(parts.username or '')}:{unquote(parts.password or '')}"
    return base64.b64encode(pair.encode()).decode()


def endpoint(model: str, url: str, key_variable: str | None) -> Endpoint:
    """A checked endpoint, its key from the environment. UsageError, which repeats neither address nor key."""
    if not re.fullmatch(r"[ -~]{1,200}", model):
        raise UsageError("--llm names a model in at most 200 printable ASCII characters.")
    try:
        parts = urlsplit(url)
        host, _ = parts.hostname, parts.port
    except ValueError:
        host, parts = None, SplitResult("", "", "", "", "")
    if parts.scheme not in ("http", "https") or not host or not re.fullmatch(r"[!-~]+", url):
        raise UsageError("--llm-url is no web address: write it as http://127.0.0.1:8080/v1.")
    key = ""
    if key_variable is not None:
        key = os.environ.get(key_variable, "")
        if not re.fullmatch(r"[!-~]+", key):
            why = "holds no key in printable ASCII" if key else "is not set"
            raise UsageError(
                f"the variable {key_variable} of --llm-key-env {why}: export it, or leave it out."
            )
        if parts.username:
            raise UsageError("--llm-url has a user and --llm-key-env a key: leave one of them out.")
    is_here = host == "localhost" or host == "::1" or re.fullmatch(r"127(\.\d+){3}", host)
    if parts.scheme == "http" and not is_here and (key or parts.username or parts.query):
        raise UsageError("http would send the key of --llm-url or --llm-key-env in clear text: write https.")
    return Endpoint(model, url, key)


@dataclass(frozen=True, slots=True)
class Reply:
    """What came back. `status` is ANSWERED, or says in a few words why there is no answer."""

    status: str
    text: str = ""  # the model's; of anything else the beginning
    seconds: float = 0.0
    retry_after_s: float = 0.0  # as the endpoint asked
    is_refusal: bool = False  # the endpoint did not take the request as it was put


def post(where: Endpoint, body: Mapping[str, Any], *, limit_s: float = LIMIT_S) -> Reply:
    """Send one request and read what comes back, as far as the limits go."""
    begun, parts = time.monotonic(), where.parts
    kind = http.client.HTTPSConnection if parts.scheme == "https" else http.client.HTTPConnection
    connection = kind(parts.hostname or "", parts.port, timeout=limit_s)
    # A timeout of the socket begins anew with each byte, so that a slow drip would never end.
    clock = threading.Timer(limit_s, _cut, (connection,))
    clock.daemon = True
    clock.start()
    path = f"{parts.path.rstrip('/')}/chat/completions" + (f"?{parts.query}" if parts.query else "")
    try:
        connection.request("POST", path, json.dumps(body).encode(), where.headers())
        response = connection.getresponse()
        reply = _reply(response, _read(response))
    except (OSError, http.client.HTTPException, ValueError) as error:
        reply = Reply(_reason(error))
    finally:
        clock.cancel()
        connection.close()
    seconds = time.monotonic() - begun
    if seconds >= limit_s:
        return Reply(f"no answer within {limit_s:g} s", seconds=seconds)
    text = where.without_secrets(reply.text)
    return Reply(reply.status, text, seconds, reply.retry_after_s, reply.is_refusal)


def _cut(connection: http.client.HTTPConnection) -> None:
    """Wake whoever reads of it."""
    if (sock := connection.sock) is not None:
        try:
            sock.shutdown(socket.SHUT_RDWR)
        except OSError:
            return


def _read(response: http.client.HTTPResponse) -> bytes:
    """At most a byte more than is allowed."""
    found = bytearray()
    while len(found) <= MOST_BYTES and (part := response.read1(MOST_BYTES + 1 - len(found))):
        found += part
    return bytes(found)


def _reply(response: http.client.HTTPResponse, read: bytes) -> Reply:
    text, code = read.decode("utf-8", "replace"), response.status
    kind = response.headers.get_content_type()
    if len(read) > MOST_BYTES:
        return Reply(f"a response of more than {MOST_BYTES // 1024} KiB", text[:MOST_OF_OTHERS])
    if 300 <= code < 400:
        return Reply(f"HTTP {code}, and redirections are not followed", text[:MOST_OF_OTHERS])
    if code != http.client.OK:
        wait = _seconds(response.headers.get("Retry-After", ""))
        refusal = code in (http.client.BAD_REQUEST, http.client.UNPROCESSABLE_ENTITY)
        return Reply(f"HTTP {code}", text[:MOST_OF_OTHERS], retry_after_s=wait, is_refusal=refusal)
    if kind != "application/json" or response.headers.get("Content-Encoding", "identity") != "identity":
        return Reply("a response that is no JSON", text[:MOST_OF_OTHERS])
    try:
        content = json.loads(text)["choices"][0]["message"]["content"]
    except (ValueError, LookupError, TypeError, RecursionError):
        content = None
    if not isinstance(content, str):
        return Reply("a response without a choice's text", text[:MOST_OF_OTHERS])
    return Reply(ANSWERED, content)


def _seconds(text: str) -> float:
    """Of a Retry-After in seconds; a date asks for a minute, which is what most of them mean."""
    if not text:
        return 0.0
    return min(float(text), _MOST_WAIT_S) if re.fullmatch(r"\d{1,9}", text) else 60.0


def _reason(error: Exception) -> str:
    """In words that hold nothing of the request."""
    if isinstance(error, ssl.SSLError):
        return f"no trusted connection ({error.reason or type(error).__name__})"
    if isinstance(error, http.client.HTTPException):
        return f"no HTTP response ({type(error).__name__})"
    return f"no connection ({type(error).__name__})"
