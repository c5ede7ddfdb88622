"""Calls somebody else's Python with PyTorch tensors, inside of a sandbox, and answers with bytes.

The program of a process that python_forms.py starts. Inputs come with each call; there are no right answers
here, and no time is taken: both are the judge's, outside. Judges nothing.
"""

import inspect
import json
import math
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

    def __init__(self, path: str, form: str, style: str, device: str) -> None:
        self._path, self._style, self._device = path, style, torch.device(device)
        self._held: dict[tuple[int, int], torch.Tensor] = {}
        self.made: list[torch.Tensor] = []
        self._call = _told_by_line(path, lambda: self._load(form))
        asked = getattr(self._call, "forward", self._call)  # of a model
        try:
            self._takes = list(inspect.signature(asked).parameters.values())
        except (TypeError, ValueError):
            self._takes = []

    def _load(self, form: str) -> Callable[..., Any]:
        names: dict[str, Any] = {"__name__": "submission", "__file__": self._path}
        with open(self._path, encoding="utf-8") as file:
            exec(compile(file.read(), self._path, "exec"), names)  # it is what a sandbox is for
        found = names[form]
        if self._style == "tuple":
            return lambda *inputs: found(tuple(inputs))
        if self._style != "model":
            return found  # type: ignore[no-any-return]
        given = names["get_init_inputs"]() if "get_init_inputs" in names else ()
        return found(*given).to(self._device).eval()  # type: ignore[no-any-return]

    def memory_of(self, told: dict[str, Any]) -> list[torch.Tensor]:
        """The memory that inputs have in that place, each time the same as long as they fit into it."""
        found = []
        for at, (_, dtype, shape) in enumerate(each for each in told["inputs"] if each[1]):
            kind, place = _DTYPES[dtype], (int(told["place"]), at)
            size = math.prod(shape) * kind.itemsize
            if place not in self._held or self._held[place].numel() < size:
                self._held[place] = torch.empty(size, dtype=torch.uint8, device=self._device)
            found.append(self._held[place][:size].view(kind).reshape(shape))
        return found

    def fill(self, told: dict[str, Any], body: memoryview) -> list[torch.Tensor]:
        """The inputs, in that memory."""
        at, tensors = 0, self.memory_of(told)
        for tensor in tensors:
            size = tensor.numel() * tensor.element_size()
            if size:
                raw = torch.frombuffer(bytearray(body[at : at + size]), dtype=torch.uint8)
                tensor.copy_(raw.view(tensor.dtype).reshape(tensor.shape))
            at += size
        return tensors

    def call(
        self, told: dict[str, Any], tensors: Sequence[torch.Tensor], *, is_timed: bool
    ) -> list[torch.Tensor]:
        """Its outputs, as many as are wanted, each an ordinary tensor of the right kind; and further ones, as
        far as it was given them or returns what can be one.
        """
        left, wanted = iter(tensors), told["outputs"]
        given = {name: next(left) if dtype else value for name, dtype, value in told["inputs"]}
        made = [self._output(*each, is_timed=is_timed) for each in (*wanted, *told["further"])]
        made = made if self._style == "outputs" else []
        listed, named = self._arguments(given, made, by_name=told["by_name"])
        with torch.no_grad():
            found = _told_by_line(self._path, lambda: self._call(*listed, **named))
        if made:
            passed = [*listed, *named.values()]
            found = [each for each in made if any(each is one for one in passed)]
        outputs = list(found) if isinstance(found, tuple | list) else [found]
        if len(outputs) < len(wanted):
            raise _ForeignError("wrong", f"it returns {len(outputs)} outputs, {len(wanted)} are wanted")
        for output, (dtype, shape) in zip(outputs, wanted, strict=False):
            if type(output) is not torch.Tensor:
                raise _ForeignError(
                    "lazy", f"it returns a {type(output).__name__} in place of a torch.Tensor"
                )
            if not _is_of(output, dtype, shape):
                said = f"{tuple(output.shape)} of {output.dtype}, wanted is {tuple(shape)} of {dtype}"
                raise _ForeignError("wrong", f"it returns a tensor of shape {said}")
            if output.device.type != self._device.type or not output.data_ptr():
                raise _ForeignError("lazy", "it returns a tensor that lies nowhere on the device")
        further = zip(outputs[len(wanted) :], told["further"], strict=False)
        kept = [each for each, (dtype, shape) in further if _is_of(each, dtype, shape)]
        return [output.contiguous() for output in (*outputs[: len(wanted)], *kept)]

    def _output(self, dtype: str, shape: Sequence[int], *, is_timed: bool) -> torch.Tensor:
        """One to be written: of NaN, but in a timed call, in which each call's are others."""
        empty = torch.empty(shape, dtype=_DTYPES[dtype], device=self._device)
        return empty if is_timed else empty.fill_(torch.nan)

    def _arguments(
        self, given: dict[str, Any], made: Sequence[torch.Tensor], *, by_name: bool
    ) -> tuple[list[Any], dict[str, Any]]:
        """Of a function that names the first three inputs, the inputs that it names, and outputs for what
        else it has to be given; of another one all inputs in order, and as many outputs as it takes.
        """
        names = [each.name for each in self._takes]
        if by_name and names[:3] == [*given][:3]:
            unknown = [each.name for each in self._takes if each.default is each.empty]
            outputs = zip((name for name in unknown if name not in given), made, strict=False)
            return [], {**{name: given[name] for name in names if name in given}, **dict(outputs)}
        has_any = any(each.kind is each.VAR_POSITIONAL for each in self._takes)
        room = len(made) if has_any else max(1, len(names) - len(given))
        return [*given.values(), *made[:room]], {}


def _is_of(output: Any, dtype: str, shape: Sequence[int]) -> bool:
    return (
        type(output) is torch.Tensor
        and tuple(output.shape) == tuple(shape)
        and output.dtype == _DTYPES[dtype]
    )


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
        outputs = foreign.call(told, inputs, is_timed=False)
        return {"outputs": len(outputs)}, [*map(_bytes_of, outputs), *map(_bytes_of, inputs)]
    # Many calls, each on columns in another order; all that they write is in the sums.
    held, foreign.made = foreign.memory_of(told), []
    sums = []
    for shifts in told["shifts"]:
        moved = [torch.roll(x, by, -1) if by else x for x, by in zip(held, shifts, strict=True)]
        (output, *_) = foreign.call(told, moved, is_timed=True)
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


def main(path: str, form: str, style: str, device: str, answers: int) -> None:
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
                foreign = _Foreign(path, form, style, device)
            say(*_answer(foreign, told, body))
        except _ForeignError as error:
            say({"kind": error.kind, "error": str(error), "line": error.line})


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], sys.argv[3], sys.argv[4], int(sys.argv[5]))
