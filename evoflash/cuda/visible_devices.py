"""Which GPUs this process may use, by the words of CUDA_VISIBLE_DEVICES; launches nothing on them."""

import os

from evoflash.cuda import launcher
from evoflash.errors import DeviceError, UsageError

_VARIABLE = "CUDA_VISIBLE_DEVICES"


def restrict(text: str) -> None:
    """Let this process see the GPUs at these positions alone, `0,1` or `all`, counted among those that it saw
    before; to be called before anything has loaded CUDA. UsageError for what is no such list.
    """
    if text == "all":
        return
    words = text.split(",")
    if not all(word.isdecimal() for word in words) or len(set(map(int, words))) < len(words):
        raise UsageError(f"--gpus {text}: give numbers with commas between, each once, as in 0,1, or all.")
    before = [word.strip() for word in os.environ.get(_VARIABLE, "").split(",") if word.strip()]
    if before and max(map(int, words)) >= len(before):
        raise UsageError(f"--gpus {text}: {_VARIABLE} allows {len(before)}, the first of which is 0.")
    chosen = [before[int(word)] for word in words] if before else [str(int(word)) for word in words]
    os.environ[_VARIABLE] = ",".join(chosen)


def devices() -> tuple[str, ...]:
    """For each visible GPU what CUDA_VISIBLE_DEVICES calls it.

    DeviceError where there is none, where one that was asked for is not there, and where they are of several
    models: times of those are not compared.
    """
    runtime = launcher.cupy().cuda.runtime
    launcher.present_gpu()
    names = [runtime.getDeviceProperties(at)["name"].decode() for at in range(runtime.getDeviceCount())]
    wanted = [word.strip() for word in os.environ.get(_VARIABLE, "").split(",") if word.strip()]
    if wanted and len(names) < len(wanted):  # CUDA sees those before the first that is not there
        raise DeviceError(
            f"GPU {wanted[len(names)]} is not there: see nvidia-smi; {len(names)} before it are."
        )
    if len(set(names)) > 1:
        raise DeviceError(
            f"the GPUs here are of several models ({', '.join(names)}): name those of one, as in --gpus 0,1."
        )
    return tuple(wanted) or tuple(map(str, range(len(names))))
