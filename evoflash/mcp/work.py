"""The process in which one tool works: a request on stdin, and on stdout JSON lines of what it tells.

The last line has the `answer` or the `error`. What anything prints goes to stderr. The process ends when its
stdin does, since then nobody waits for it any more. It knows no protocol.
"""

import json
import os
import re
import signal
import sys
import threading
import traceback
from pathlib import Path
from typing import Any

from evoflash.app.search.stopping import end_on_signals
from evoflash.errors import EvoflashError
from evoflash.mcp.served_folder import ServedFolder
from evoflash.mcp.tools import BY_NAME, listener
from evoflash.notices import heard_by
from evoflash.views.terminal import error_facts, json_text

_OPTION = re.compile(r"--([a-z][a-z-]*)")


def call_tool(name: str, arguments: dict[str, Any], served: ServedFolder) -> dict[str, Any]:
    """`answer`, or `error` where the tool says what the client is to do."""
    call = BY_NAME[name].call
    try:
        answer = call(served, **arguments)
    except EvoflashError as error:
        words = _OPTION.sub(lambda found: found[1].replace("-", "_"), str(error))
        return {"error": _relative(error_facts(words, error.exit_code), served)}
    except OSError as error:
        place = f" ({error.filename})" if error.filename else ""
        said = f"{error.strerror or error}{place}: check the path, its permissions and the free space."
        return {"error": _relative(error_facts(said, 1), served)}
    except Exception as error:
        traceback.print_exc()
        said = f"unexpected error in {name}: {type(error).__name__}: {error}"
        one_line = f"{' '.join(said.split())}: this is a mistake in evoflash, whose log has the traceback."
        return {"error": _relative(error_facts(one_line, os.EX_SOFTWARE), served)}
    return {"answer": _relative(answer, served)}


def _relative(facts: dict[str, Any], served: ServedFolder) -> dict[str, Any]:
    """Files below the root are named as the client names them."""
    inside = json.dumps(f"{served.root}/")[1:-1]
    found: dict[str, Any] = json.loads(json_text(facts).replace(inside, ""))
    return found


def main() -> None:
    out = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    end_on_signals()
    request = json.loads(sys.stdin.readline())
    threading.Thread(target=_end_with_stdin, daemon=True).start()
    served = ServedFolder(Path(request["root"]), request["db"])

    def tell(event: dict[str, Any]) -> None:
        print(json.dumps(event), file=out, flush=True)

    listener.set(tell)
    with heard_by(lambda note: tell({"note": note.replace(f"{served.root}/", "")})):
        ended = call_tool(request["tool"], request["arguments"], served)
    tell(ended)


def _end_with_stdin() -> None:
    sys.stdin.read()
    os.kill(os.getpid(), signal.SIGTERM)


if __name__ == "__main__":
    try:
        main()
    except (KeyboardInterrupt, BrokenPipeError):
        sys.exit(130)
