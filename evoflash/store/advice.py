"""What a database says when it refuses, in one line that says what to do. Opens and reads nothing."""

# What the database says (lower case), and what to tell the user; the first that fits.
_AGAIN = (
    "check that the server runs and can be reached, then run the same command again: what was stored stays"
)
_ADVICE = (
    ("not a database", "is not a database: name another with --db, or move the file away"),
    ("malformed", "is damaged: copy it, try `sqlite3 FILE .recover`, or name another with --db"),
    *(
        (words, "lacks a table: put a copy of the database in its place, or name another with --db")
        for words in ("no such table", 'relation "')
    ),
    *(
        (words, "lacks a column: put a copy of the database in its place, or name another with --db")
        for words in ("no such column", 'column "')
    ),
    *(
        (words, "is locked by another process: wait for it to end, then run the command again")
        for words in ("locked", "lock timeout")
    ),
    *(
        (words, "cannot grow, the disk is full: free some space and run the same command again")
        for words in ("no space left", "is full")
    ),
    ("disk i/o", "cannot be written, the disk refuses: free some space and run the same command again"),
    *(
        (words, "cannot be written: make it and its folder writable, or name another with --db")
        for words in ("readonly", "read-only")
    ),
    ("unable to open", "cannot be opened: check the folder and its permissions, or name another with --db"),
    *(
        (words, "does not let you in: check user and password (a password can stand in ~/.pgpass)")
        for words in ("password authentication failed", "no password supplied", "no pg_hba.conf entry")
    ),
    ('role "', "does not know this user: create it with `createuser`, or name another in the URL"),
    *(
        (words, "has no room for another connection: end a search, or raise max_connections of the server")
        for words in ("too many clients", "too many connections", "connection slots are reserved")
    ),
    *(
        (words, "does not let this user do that: ask its owner to GRANT it")
        for words in ("permission denied", "must be owner")
    ),
    *(
        (words, f"cannot be reached: {_AGAIN}")
        for words in (
            *("connection refused", "failed to resolve", "connection timeout", "no such file or directory"),
            *("is the server running", "starting up", "shutting down", "recovery mode"),
        )
    ),
    ('database "', "does not exist: create it with `createdb`, or name another in the URL"),
    *(
        (words, f"has ended the connection: {_AGAIN}")
        for words in (
            *("terminating connection", "server closed the connection", "connection is lost"),
            *("connection is closed", "could not receive data", "consuming input failed", "ssl syscall"),
            *("connection reset", "connection timed out", "the connection is bad"),
        )
    ),
)


def explain(label: str, error: Exception) -> str:
    """What is wrong with the database `label`, and what to do about it."""
    said = _said(error)
    for words, advice in _ADVICE:
        if words in said.lower():
            return f"{label} {advice} ({said})."
    return f"{label} cannot be used ({said}): check it, or name another with --db."


def _said(error: Exception) -> str:
    """The first line of what the driver said; of attempts at several addresses, that of the first one."""
    lines = [line.strip(" -") for line in str(getattr(error, "orig", None) or error).splitlines()]
    if not lines:
        return type(error).__name__
    several = len(lines) > 1 and lines[0].startswith("Multiple connection attempts failed")
    return lines[1] if several else lines[0].removesuffix(".")
