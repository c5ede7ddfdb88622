"""Calls somebody else's Python with PyTorch tensors, inside of a sandbox, and answers with bytes.

The program of a process that python_forms.py starts. Inputs come with each call; there are no right answers
here, and no time is taken: both are the judge's, outside. Judges nothing.
"""

import json
import os
import struct
import sys
import traceback
from collections.abc import Callable, Sequence
from typing import Any

import torch

FRAME = struct.Struct("<QQ")  # bytes of the head, which is JSON, and of the arrays behind it
_DTYPES = {
    "fp16": torch.float16,
    "bf16": torch.bfloat16,
    "fp32": torch.float32,
    "e4m3": torch.float8_e4m3fn,
    "int32": torch.int32,
}
_MODEL_FORMS = ("ModelNew", "Model")
_MOST_WORDS = 300


class _ForeignError(Exception):
    """What the foreign code did wrong; `kind` says how."""

    def __init__(self, kind: str, words: str, line: int = 0) -> None:
        self.kind, self.line = kind, line
        super().__init__(words)


def _told_by_line(path: str, work: Callable[[], Any]) -> Any:
    """What it returns; whatever it raises is told with the line of the file."""
    try:
        return work()
    except _ForeignError:
        raise
    except BaseException as error:
        frames = traceback.extract_tb(error.__traceback__)
        line = next((each.lineno or 0 for each in reversed(frames) if each.filename == path), 0)
        said = f"{type(error).__name__}: {error}"
        raise _ForeignError("raised", said[:_MOST_WORDS], line) from None


class _Foreign:
    """The file's function, and the tensors that it is called with."""

    def __init__(self, path: str, form: str, device: str) -> None:
        self._path, self._device = path, torch.device(device)
        self._held: dict[tuple[str, int], list[torch.Tensor]] = {}
        self.made: list[torch.Tensor] = []
        self._call = _told_by_line(path, lambda: self._load(form))

    def _load(self, form: str) -> Callable[..., Any]:
        names: dict[str, Any] = {"__name__": "submission", "__file__": self._path}
        with open(self._path, encoding="utf-8") as file:
            exec(compile(file.read(), self._path, "exec"), names)  # it is what a sandbox is for
        found = names[form]
        if form == "custom_kernel":
            return lambda *inputs: found(tuple(inputs))
        if form not in _MODEL_FORMS:
            return found  # type: ignore[no-any-return]
        given = names["get_init_inputs"]() if "get_init_inputs" in names else ()
        return found(*given).to(self._device).eval()  # type: ignore[no-any-return]

    def memory_of(self, told: dict[str, Any]) -> list[torch.Tensor]:
        """The memory that inputs of these shapes have in that place, each time the same."""
        place = json.dumps(told["inputs"]), int(told["place"])
        if place not in self._held:
            self._held[place] = [
                torch.empty(shape, dtype=_DTYPES[dtype], device=self._device)
                for dtype, shape in told["inputs"]
            ]
        return self._held[place]

    def fill(self, told: dict[str, Any], body: memoryview) -> list[torch.Tensor]:
        """The inputs, in that memory."""
        at, tensors = 0, self.memory_of(told)
        for tensor in tensors:
            size = tensor.numel() * tensor.element_size()
            raw = torch.frombuffer(bytearray(body[at : at + size]), dtype=torch.uint8)
            tensor.copy_(raw.view(tensor.dtype).reshape(tensor.shape))
            at += size
        return tensors

    def call(self, inputs: Sequence[torch.Tensor], wanted: Sequence[Any]) -> list[torch.Tensor]:
        """Its outputs, as many as are wanted, each an ordinary tensor of the right kind."""
        with torch.no_grad():
            found = _told_by_line(self._path, lambda: self._call(*inputs))
        outputs = list(found) if isinstance(found, tuple | list) else [found]
        if len(outputs) < len(wanted):
            raise _ForeignError("wrong", f"it returns {len(outputs)} outputs, {len(wanted)} are wanted")
        for output, (dtype, shape) in zip(outputs, wanted, strict=False):
            if type(output) is not torch.Tensor:
                raise _ForeignError(
                    "lazy", f"it returns a {type(output).__name__} in place of a torch.Tensor"
                )
            if tuple(output.shape) != tuple(shape) or output.dtype != _DTYPES[dtype]:
                said = f"{tuple(output.shape)} of {output.dtype}, wanted is {tuple(shape)} of {dtype}"
                raise _ForeignError("wrong", f"it returns a tensor of shape {said}")
            if output.device.type != self._device.type or not output.data_ptr():
                raise _ForeignError("lazy", "it returns a tensor that lies nowhere on the device")
        return [output.contiguous() for output in outputs[: len(wanted)]]


def _bytes_of(tensor: torch.Tensor) -> bytes:
    return bytes(tensor.detach().cpu().contiguous().view(torch.uint8).numpy().tobytes())


def _sum_of(tensor: torch.Tensor) -> torch.Tensor:
    return tensor.reshape(-1).view(torch.int16).sum(dtype=torch.int64)


def _answer(foreign: _Foreign, told: dict[str, Any], body: memoryview) -> tuple[dict[str, Any], list[bytes]]:
    if told["do"] == "hold":  # for calls that are timed
        foreign.fill(told, body)
        return {}, []
    if told["do"] == "show":  # one of the outputs that were made
        return {}, [_bytes_of(foreign.made[told["which"]])]
    if told["do"] == "call":
        inputs = foreign.fill(told, body)
        outputs = foreign.call(inputs, told["outputs"])
        return {}, [*map(_bytes_of, outputs), *map(_bytes_of, inputs)]
    # Many calls, each on columns in another order; all that they write is in the sums.
    held, foreign.made = foreign.memory_of(told), []
    sums = []
    for shifts in told["shifts"]:
        moved = [torch.roll(x, by, -1) if by else x for x, by in zip(held, shifts, strict=True)]
        (output, *_) = foreign.call(moved, told["outputs"])
        foreign.made.append(output)
        sums.append(_sum_of(output))
    return {"sums": [int(each) for each in torch.stack(sums).cpu()]}, []


def _begin(device: str) -> None:
    """The GPU is found before anything foreign runs: what fails here is not the foreign code's fault."""
    torch.set_num_threads(1)
    if device != "cpu":
        try:
            torch.zeros(1, device=device).cpu()
        except (RuntimeError, AssertionError) as error:
            raise _ForeignError("machine", f"PyTorch finds no GPU in the sandbox: {error}") from None


def main(path: str, form: str, device: str, answers: int) -> None:
    """Serve requests on stdin until it closes."""
    requests, out = sys.stdin.buffer, os.fdopen(answers, "wb")

    def say(head: dict[str, Any], arrays: Sequence[bytes] = ()) -> None:
        text = json.dumps(head).encode()
        out.write(FRAME.pack(len(text), sum(map(len, arrays))) + text)
        for array in arrays:
            out.write(array)
        out.flush()

    foreign = None
    while head := requests.read(FRAME.size):
        head_size, body_size = FRAME.unpack(head)
        told = json.loads(requests.read(head_size))
        body = memoryview(requests.read(body_size))
        try:
            if foreign is None:
                _begin(device)
                foreign = _Foreign(path, form, device)
            say(*_answer(foreign, told, body))
        except _ForeignError as error:
            say({"kind": error.kind, "error": str(error), "line": error.line})


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], sys.argv[3], int(sys.argv[4]))
