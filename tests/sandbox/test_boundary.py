"""What a command inside of a boundary can do, with the GPU's driver in it and without."""

import json
import os
import subprocess
import sys
from dataclasses import replace

import pytest

from evoflash.sandbox import boundary
from evoflash.sandbox.boundary import Boundary

# What CUDA's driver does when it begins, and what would be a way out.
_TRIES = """\
import json, os, socket, sys, threading

def can(work):
    try:
        work()
    except OSError:
        return False
    return True

def names_a_thread():
    failed = []
    def work():
        try:
            with open(f"/proc/self/task/{threading.get_native_id()}/comm", "w") as file:
                file.write("cuda")
        except OSError as error:
            failed.append(error)
    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    if failed:
        raise failed[0]

def listens():
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as made:
        made.setsockopt(socket.SOL_SOCKET, socket.SO_PASSCRED, 1)
        made.bind(f"\\0evoflash-test-{os.getpid()}")
        made.listen(4)

def connects():
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as made:
        made.bind(f"\\0evoflash-other-{os.getpid()}")
        made.listen(4)
        with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as other:
            other.connect(made.getsockname())

print(json.dumps({
    "listens": can(listens),
    "names a thread": can(names_a_thread),
    "system": can(lambda: os.open("/proc/sys/vm/swappiness", os.O_WRONLY)),
    "others": can(lambda: os.open(f"/proc/{sys.argv[1]}/oom_score_adj", os.O_WRONLY)),
    "stream": can(lambda: socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)),
    "datagram": can(lambda: socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)),
    "network": can(lambda: socket.socket(socket.AF_INET, socket.SOCK_STREAM)),
    "connects": can(connects),
    "gpu": os.environ.get("CUDA_VISIBLE_DEVICES"),
    "secrets": sorted(set(os.environ) & {"EVOFLASH_TEST_SECRET"}),
}))
"""


@pytest.fixture(params=["bubblewrap", "landlock"])
def found(request) -> Boundary:
    if not boundary._works(request.param):
        pytest.skip(f"no {request.param} here")
    return Boundary(request.param)


@pytest.mark.parametrize("has_gpu", [True, False])
def test_a_driver_can_listen_where_there_is_a_gpu_and_nothing_can_be_reached(
    found, has_gpu, tmp_path, monkeypatch
) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "3")
    monkeypatch.setenv("EVOFLASH_TEST_SECRET", "secret")
    inside = replace(found, has_gpu=has_gpu)
    tmp_path.chmod(0o777)  # whoever it is inside

    said = subprocess.run(
        inside.command([sys.executable, "-S", "-c", _TRIES, str(os.getpid())], write=tmp_path),
        env=inside.environment(tmp_path),
        capture_output=True,
        check=True,
    ).stdout

    assert json.loads(said) == {
        **dict.fromkeys(("system", "others", "stream", "datagram", "network", "connects"), False),
        "listens": has_gpu,
        "names a thread": has_gpu,
        "gpu": "3" if has_gpu else None,
        "secrets": [],
    }
