# Sourced by the scripts beside it: makes .venv on first use, and again when pyproject.toml has changed.
# Covered: two scripts starting at once, an interrupted set-up, a moved checkout, another cuda extra.
# Not covered: a driver that changed since (EVOFLASH_EXTRA=cuda12 or cuda13 switches), Windows.
# Speaks on stderr only, so that the output of what is run afterwards stays clean.

EVOFLASH_ROOT=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd -P)
EVOFLASH_VENV=$EVOFLASH_ROOT/.venv
EVOFLASH_UNFINISHED=$EVOFLASH_ROOT/.venv.unfinished # there while a set-up runs, and after it was cut off
EVOFLASH_LOCK=$EVOFLASH_ROOT/.venv.lock

say() { printf 'evoflash: %s\n' "$*" >&2; }

die() {
    say "$*"
    exit 1
}

# A Python that is new enough and can make virtual environments; version managers leave shims that cannot run.
find_python() {
    local name
    for name in python3.13 python3.12 python3.11 python3; do
        if "$name" -c 'import ensurepip, sys, venv; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then
            printf '%s\n' "$name"
            return
        fi
    done
    die "no Python >= 3.11 with venv found: install one (Debian: apt-get install python3 python3-venv) or uv."
}

# The CUDA 13 wheels need driver 580; without a driver the newest toolkit compiles for every GPU we know.
cuda_extra() {
    local major
    case ${EVOFLASH_EXTRA:-} in
    cuda12* | cuda13*) printf '%s\n' "$EVOFLASH_EXTRA" && return ;;
    ?*) die "EVOFLASH_EXTRA is '$EVOFLASH_EXTRA': set it to cuda12 or cuda13, or unset it." ;;
    esac
    major=$(nvidia-smi --query-gpu=driver_version --format=csv,noheader 2>/dev/null | sed -n '1s/[^0-9].*//p') || true
    if [ -n "$major" ] && [ "$major" -lt 580 ]; then echo cuda12; else echo cuda13; fi
}

pyproject_sum() { cksum <"$EVOFLASH_ROOT/pyproject.toml"; }

stamp() { sed -n "$1p" "$EVOFLASH_VENV/evoflash-setup$2" 2>/dev/null || true; } # line (root, extra, sum), suffix

# Nothing to do? Asked before every run, so it starts no process that is slow.
is_ready() { # suffix: "" or "-dev"
    [ -x "$EVOFLASH_VENV/bin/python" ] && [ -x "$EVOFLASH_VENV/bin/evoflash" ] &&
        [ ! -e "$EVOFLASH_UNFINISHED" ] &&
        [ "$(stamp 1 "$1")" = "$EVOFLASH_ROOT" ] &&
        [ "$(stamp 2 "$1")" = "${EVOFLASH_EXTRA:-$(stamp 2 "$1")}" ] &&
        [ "$(stamp 3 "$1")" = "$(pyproject_sum)" ]
}

# An environment that pip can go on with; anything else is made anew.
is_usable() { # extra
    local root extra
    root=$(stamp 1 "") extra=$(stamp 2 "")
    [ ! -e "$EVOFLASH_UNFINISHED" ] &&
        [ "${root:-$EVOFLASH_ROOT}" = "$EVOFLASH_ROOT" ] && [ "${extra:-$1}" = "$1" ] &&
        "$EVOFLASH_VENV/bin/python" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null &&
        { command -v uv >/dev/null || "$EVOFLASH_VENV/bin/python" -m pip --version >/dev/null 2>&1; }
}

make_venv() {
    local python
    rm -rf "$EVOFLASH_VENV"
    if command -v uv >/dev/null; then
        uv venv --quiet --python '>=3.11' "$EVOFLASH_VENV" >&2 && return
    fi
    python=$(find_python) || exit 1
    "$python" -m venv "$EVOFLASH_VENV" >&2 || die "$python could not make $EVOFLASH_VENV: the lines above say why."
    # A pip that came with an old Python takes half a minute longer to choose versions; without a newer one it will do.
    "$EVOFLASH_VENV/bin/python" -m pip install --quiet --disable-pip-version-check --upgrade pip >&2 || true
}

install_into_venv() { # extras
    if command -v uv >/dev/null; then
        uv pip install --quiet --python "$EVOFLASH_VENV/bin/python" -e "$EVOFLASH_ROOT[$1]" >&2
    else
        # A Python that may keep what it compiled needs only the modules that it loads, a tenth of those installed.
        "$EVOFLASH_VENV/bin/python" -m pip install --quiet --disable-pip-version-check \
            $([ -n "${PYTHONDONTWRITEBYTECODE:-}" ] || echo --no-compile) -e "$EVOFLASH_ROOT[$1]" >&2
    fi
}

# flock lets go by itself when its holder dies; without it, a directory that must be removed by hand then.
lock() {
    local waited=0
    if command -v flock >/dev/null; then
        exec 9>"$EVOFLASH_LOCK"
        flock -n 9 || { say "waiting for another set-up in $EVOFLASH_ROOT to finish" && flock 9; }
        return
    fi
    until mkdir "$EVOFLASH_LOCK.d" 2>/dev/null; do
        [ $((waited += 1)) -le 900 ] || die "another set-up seems to run: if none does, rmdir $EVOFLASH_LOCK.d"
        sleep 1
    done
    trap 'rmdir "$EVOFLASH_LOCK.d"' EXIT
}

unlock() {
    if command -v flock >/dev/null; then
        exec 9>&-
    else
        rmdir "$EVOFLASH_LOCK.d"
        trap - EXIT
    fi
}

build_venv() { # suffix: "" or "-dev"
    local extra extras name
    extra=$(cuda_extra) || exit 1
    extras=$extra${1:+,${1#-}}
    trap 'exit 130' INT TERM # pip catches Ctrl-C and exits as if it had failed: what it left is not to be trusted
    say "setting up $EVOFLASH_VENV with the extra $extras (about 500 MB, once)"
    is_usable "$extra" || { : >"$EVOFLASH_UNFINISHED" && make_venv; }
    : >"$EVOFLASH_UNFINISHED"
    rm -f "$EVOFLASH_VENV"/evoflash-setup*
    if ! install_into_venv "$extras"; then
        [ ! -x "$EVOFLASH_VENV/bin/python" ] || rm -f "$EVOFLASH_UNFINISHED"
        die "the installation failed, the lines above say why; the next run tries again."
    fi
    for name in "" $1; do
        printf '%s\n' "$EVOFLASH_ROOT" "$extra" "$(pyproject_sum)" >"$EVOFLASH_VENV/evoflash-setup$name"
    done
    rm -f "$EVOFLASH_UNFINISHED"
    trap - INT TERM
}

setup() { # "" for users, "-dev" for the tests' tools as well
    is_ready "$1" && return
    local start=$SECONDS
    lock
    is_ready "$1" || build_venv "$1" # the one that held the lock may have done it
    unlock
    say "set-up took $((SECONDS - start)) s"
}
