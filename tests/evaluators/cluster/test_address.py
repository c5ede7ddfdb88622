"""Which schedulers may be talked to: loopback without TLS, every other one with it."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tables import table_of_cases

from evoflash.errors import UsageError
from evoflash.evaluators.cluster.address import MAKE_CERTIFICATE, address


@pytest.fixture
def folder(tmp_path):
    for name in ("cert.pem", "key.pem"):
        (tmp_path / name).touch()
    return tmp_path


@table_of_cases()
def test_a_scheduler_of_this_machine_needs_no_certificate(text, url):
    assert (address(text).url, address(text).certificate) == (url, None)


@pytest.mark.parametrize(
    "text", ["tcp://gpu-node:8786", "10.0.0.7", "tcp://0.0.0.0:8786", "localhost.evil.org"]
)
def test_another_machine_without_tls_is_refused_in_one_line_that_makes_a_certificate(text):
    with pytest.raises(UsageError) as refused:
        address(text)
    said = str(refused.value)
    assert MAKE_CERTIFICATE in said
    assert "\n" not in said


def test_tls_without_a_certificate_is_refused():
    with pytest.raises(UsageError, match="--tls"):
        address("tls://gpu-node:8786")


def test_a_certificate_is_its_own_authority_unless_the_folder_has_one(folder):
    own = address("gpu-node", folder)
    assert (own.url, own.certificate.authority) == ("tls://gpu-node:8786", str(folder / "cert.pem"))
    (folder / "ca.pem").touch()
    assert address("gpu-node", folder).certificate.authority == str(folder / "ca.pem")


def test_with_a_certificate_nothing_goes_unencrypted(folder):
    assert address("tcp://127.0.0.1:1", folder).url == "tls://127.0.0.1:1"


def test_a_folder_that_lacks_a_file_is_named_with_what_makes_it(folder):
    (folder / "key.pem").unlink()
    with pytest.raises(UsageError, match=r"lacks key\.pem: in it, run `openssl"):
        address("gpu-node", folder)


@pytest.mark.parametrize(
    "text",
    ["", "tcp://", "http://localhost:8786", "localhost:x", "localhost:99999", "a b", "tcp://localhost/x"],
)
def test_what_is_no_address_is_said_to_be_none(text):
    with pytest.raises(UsageError, match="is no scheduler's address"):
        address(text)


@given(st.text(max_size=30))
def test_any_text_is_an_address_of_this_machine_or_a_stated_error(text):
    try:
        found = address(text)
    except UsageError:
        return
    assert found.url.startswith(("tcp://127.", "tcp://localhost:", "tcp://[::"))
