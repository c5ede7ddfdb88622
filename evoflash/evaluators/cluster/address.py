"""Which schedulers may be talked to, and what two machines must have alike to share a search.

Allowed are those of this machine, and those that prove by TLS who they are, because a Dask scheduler, its
workers and its clients run whatever another of them sends. Alike must be evoflash, its templates and the
compiler. Connects to nothing.
"""

import hashlib
import ipaddress
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from urllib.parse import urlsplit

from evoflash.errors import UsageError
from evoflash.kernels.nvrtc import nvrtc_version
from evoflash.paths import DEVICE, template_folders
from evoflash.version import __version__

PORT = 8786  # of a Dask scheduler where an address names none
_CERTIFICATE, _KEY, _AUTHORITY = "cert.pem", "key.pem", "ca.pem"
MAKE_CERTIFICATE = (
    "openssl req -x509 -newkey rsa:2048 -nodes -days 365 -subj /CN=evoflash "
    f"-keyout {_KEY} -out {_CERTIFICATE}"
)


@dataclass(frozen=True, slots=True)
class Certificate:
    """Files of one certificate, which scheduler, workers and searches all use."""

    authority: str
    certificate: str
    key: str


@dataclass(frozen=True, slots=True)
class Address:
    """A scheduler that may be talked to; without a certificate it is on this machine."""

    url: str
    certificate: Certificate | None = None


def address(text: str, tls: Path | None = None) -> Address:
    """`tcp://host:port` or `tls://host:port`, the port 8786 where none is named; `tls` is the folder with
    cert.pem and key.pem, and with ca.pem where the certificate is not its own authority.

    UsageError for what is no address, for another machine without TLS, and where a file is missing.
    """
    scheme, host, port = _parts(text)
    where = f"[{host}]" if ":" in host else host
    if tls is not None:
        return Address(f"tls://{where}:{port}", _certificate(tls))
    if scheme == "tls":
        raise UsageError(
            f"{text} needs a certificate: name its folder with --tls. `{MAKE_CERTIFICATE}` makes one."
        )
    if not _is_loopback(host):
        raise UsageError(
            f"{text} is not this machine, and without TLS anyone on the way could run code here: make a "
            f"certificate with `{MAKE_CERTIFICATE}` and use tls://{where}:{port} with --tls FOLDER."
        )
    return Address(f"tcp://{where}:{port}")


def _parts(text: str) -> tuple[str, str, int]:
    wanted = "give one such as tcp://127.0.0.1:8786 or tls://gpu-node:8786."
    try:
        parts = urlsplit(text if "://" in text else f"tcp://{text}")
        host, port = parts.hostname, parts.port or PORT
    except ValueError:
        raise UsageError(f"'{text}' is no scheduler's address: {wanted}") from None
    is_bare = not (parts.path.strip("/") or parts.query or parts.fragment or parts.username)
    if parts.scheme not in ("tcp", "tls") or not host or not is_bare or not host.isprintable() or " " in host:
        raise UsageError(f"'{text}' is no scheduler's address: {wanted}")
    return parts.scheme, host, port


def _is_loopback(host: str) -> bool:
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:  # a name, which may lead anywhere
        return False


def _certificate(folder: Path) -> Certificate:
    files = folder / _CERTIFICATE, folder / _KEY
    if missing := [file.name for file in files if not file.is_file()]:
        raise UsageError(f"{folder} lacks {' and '.join(missing)}: in it, run `{MAKE_CERTIFICATE}`.")
    certificate, key = map(str, files)
    own = folder / _AUTHORITY
    return Certificate(str(own) if own.is_file() else certificate, certificate, key)


ON_A_GPU = 2  # questions: one runs, and the next one waits in the queue of the GPU process
_PACKAGE = DEVICE.parent
_KINDS = (".py", ".h", ".cpp", ".cu", ".toml", ".j2")


@cache
def code() -> str:
    """Version, NVRTC, and eight digits over all source files and templates; DeviceError without NVRTC."""
    digest = hashlib.sha256()
    for folder in (_PACKAGE, *template_folders()):
        for file in _sources(folder):
            digest.update(f"{file.relative_to(folder)}\0".encode() + file.read_bytes())
    return f"evoflash {__version__}, NVRTC {nvrtc_version()}, code {digest.hexdigest()[:8]}"


def _sources(folder: Path) -> Iterable[Path]:
    return sorted(path for path in folder.rglob("*") if path.suffix in _KINDS and path.is_file())


def resources(*, gpu: str | None) -> dict[str, float]:
    """What a worker of this machine offers: its code, and a core or one GPU of the named model, each for as
    many questions as it takes at the same time.
    """
    if gpu is None:
        return {code(): 1.0, "CPU": 1.0}
    return dict.fromkeys((code(), "GPU", f"GPU {gpu}"), float(ON_A_GPU))
