"""Takes rights away from this process by the kernel's own means: Landlock, seccomp, limits, capabilities.

Run as a program it does so and then becomes the command behind `--`: `confinement.py JSON -- COMMAND`. It
imports the standard library only, so that it starts before anything of evoflash is loaded. What is taken away
does not come back, neither here nor in what this process starts. Linux, and for the filter of system calls
x86-64.
"""

import ctypes
import json
import os
import platform
import resource
import struct
import sys
from collections.abc import Sequence

_PR_SET_DUMPABLE, _PR_SET_SECCOMP, _PR_SET_NO_NEW_PRIVS = 4, 22, 38
_LANDLOCK_CREATE, _LANDLOCK_ADD, _LANDLOCK_RESTRICT = 444, 445, 446
_LANDLOCK_VERSION = 1  # a flag: answer with the version
_CAPSET, _CAPABILITIES_V3 = 126, 0x20080522
LEAST_LANDLOCK = 4  # from which it also forbids TCP (Linux 6.7)
# Rights on files, by the version of Landlock that brought them: execute, write, read, list, remove, make ...
_FILES = ((1, (1 << 13) - 1), (2, 1 << 13), (3, 1 << 14), (5, 1 << 15))
_LIST = 1 << 3
_READ = 1 | 1 << 2 | _LIST  # execute, read a file, list a folder
_OF_FILES = 1 | 1 << 1 | 1 << 2 | 1 << 14 | 1 << 15  # what a file, rather than a folder, can be given
_TCP, _SCOPES = 3, 3  # bind and connect; abstract sockets and signals

# System calls of x86-64 that neither a compiler nor a kernel needs.
_ALWAYS = {
    **{"socket": 41, "connect": 42, "accept": 43, "sendto": 44, "recvfrom": 45, "sendmsg": 46, "recvmsg": 47},
    **{"bind": 49, "listen": 50, "accept4": 288, "recvmmsg": 299, "sendmmsg": 307},
    **{"ptrace": 101, "process_vm_readv": 310, "process_vm_writev": 311, "kcmp": 312, "pidfd_getfd": 438},
    **{"bpf": 321, "perf_event_open": 298, "userfaultfd": 323},
    **{"io_uring_setup": 425, "io_uring_enter": 426, "io_uring_register": 427},
    **{"mount": 165, "umount2": 166, "pivot_root": 155, "chroot": 161, "unshare": 272, "setns": 308},
    **{"open_tree": 428, "move_mount": 429, "fsopen": 430, "fsmount": 432, "mount_setattr": 442},
    **{"init_module": 175, "finit_module": 313, "delete_module": 176, "kexec_load": 246, "reboot": 169},
    **{"swapon": 167, "swapoff": 168, "settimeofday": 164, "clock_settime": 227, "sethostname": 170},
    **{"add_key": 248, "request_key": 249, "keyctl": 250, "acct": 163, "quotactl": 179, "syslog": 103},
    **{"name_to_handle_at": 303, "open_by_handle_at": 304, "iopl": 172, "ioperm": 173, "personality": 135},
    **{"shmget": 29, "shmat": 30, "shmctl": 31, "semget": 64, "msgget": 68, "mq_open": 240},
}
# And those by which a kernel would start or reach a process.
_IN_KERNEL = {
    **{"fork": 57, "vfork": 58, "execve": 59, "execveat": 322, "socketpair": 53},
    **{"kill": 62, "tkill": 200, "rt_sigqueueinfo": 129, "rt_tgsigqueueinfo": 297},
    **{"pidfd_open": 434, "pidfd_send_signal": 424, "setpgid": 109, "setsid": 112},
    **{"prlimit64": 302, "setrlimit": 160, "sched_setaffinity": 203, "setpriority": 141, "ioprio_set": 251},
}
# What CUDA's driver asks for when it begins: a local socket under a name of its own, from which other
# processes would get its memory. Nobody can connect to it: accept stays refused.
_OF_DRIVER = ("socket", "bind", "listen")
_AF_UNIX, _SEQPACKET, _TYPE_BITS = 1, 5, 0xF
_CLONE, _CLONE3, _TGKILL = 56, 435, 234
_CLONE_THREAD = 0x10000
_ALLOW, _KILL, _ERRNO = 0x7FFF0000, 0x80000000, 0x00050000
_EPERM, _ENOSYS = 1, 38
_AUDIT_X86_64, _X32 = 0xC000003E, 0x40000000
_LOAD, _EQUAL, _AT_LEAST, _HAS_BIT, _AND, _RETURN = 0x20, 0x15, 0x35, 0x45, 0x54, 0x06


def can_filter() -> bool:
    """Whether this machine's system calls have the numbers that stand here."""
    return sys.platform == "linux" and platform.machine() == "x86_64"


def landlock_version() -> int:
    """The version of Landlock that the system offers; 0: none."""
    if sys.platform != "linux":
        return 0
    return max(0, int(_syscall(_LANDLOCK_CREATE, None, ctypes.c_size_t(0), ctypes.c_uint(_LANDLOCK_VERSION))))


def _syscall(number: int, *arguments: object) -> int:
    call = ctypes.CDLL(None, use_errno=True).syscall
    call.restype = ctypes.c_long
    return int(call(ctypes.c_long(number), *arguments))


def _unless_failed(outcome: int) -> int:
    if outcome < 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    return outcome


def refuse_privileges() -> None:
    """No program that this process starts gets more rights than it has, and it gives up root's."""
    libc = ctypes.CDLL(None, use_errno=True)
    _unless_failed(libc.prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0))
    if can_filter():
        header, none = struct.pack("<Ii", _CAPABILITIES_V3, 0), bytes(24)
        _unless_failed(_syscall(_CAPSET, header, none))


def hide_memory() -> None:
    """Processes of the same user cannot look into this one's memory."""
    ctypes.CDLL(None).prctl(_PR_SET_DUMPABLE, 0, 0, 0, 0)


def restrict_files(read: Sequence[str], write: Sequence[str], names: Sequence[str]) -> None:
    """Landlock: nothing but these folders and files can be opened, and neither network nor process reached.

    Of what is below `names` the names alone can be read. What is not there is left out.
    OSError where the system has no Landlock.
    """
    version = landlock_version()
    rights = sum(bits for since, bits in _FILES if since <= version)
    rules = struct.pack("<QQQ", rights, _TCP if version >= 4 else 0, _SCOPES if version >= 6 else 0)
    rules = rules[: 8 if version < 4 else 16 if version < 6 else 24]
    ruleset = _unless_failed(_syscall(_LANDLOCK_CREATE, rules, ctypes.c_size_t(len(rules)), ctypes.c_uint(0)))
    for paths, allowed in ((read, _READ), (write, rights), (names, _LIST)):
        for path in paths:
            _allow(ruleset, path, allowed & rights)
    _unless_failed(_syscall(_LANDLOCK_RESTRICT, ctypes.c_int(ruleset), ctypes.c_uint(0)))
    os.close(ruleset)


def _allow(ruleset: int, path: str, rights: int) -> None:
    try:
        file = os.open(path, os.O_PATH | os.O_CLOEXEC)
    except OSError:
        return
    granted = rights if os.path.isdir(path) else rights & _OF_FILES
    rule = struct.pack("<Qi", granted, file)
    _unless_failed(_syscall(_LANDLOCK_ADD, ctypes.c_int(ruleset), ctypes.c_int(1), rule, ctypes.c_uint(0)))
    os.close(file)


def refuse_syscalls(*, also_processes: bool, has_gpu: bool = False) -> None:
    """seccomp: no network, no look into other processes, nothing of an administrator's; with `also_processes`
    no new process and no signal to another one either; with `has_gpu` a GPU's driver can begin. Nothing where
    the numbers are not known.
    """
    if not can_filter():
        return
    refused = {**_ALWAYS, **(_IN_KERNEL if also_processes else {})}
    refused = {name: number for name, number in refused.items() if not (has_gpu and name in _OF_DRIVER)}
    program = [
        (_LOAD, 0, 0, 4),  # the architecture
        (_EQUAL, 1, 0, _AUDIT_X86_64),
        (_RETURN, 0, 0, _KILL),
        (_LOAD, 0, 0, 0),  # the number
        (_AT_LEAST, 0, 1, _X32),
        (_RETURN, 0, 0, _ERRNO | _ENOSYS),
    ]
    for number in sorted(refused.values()):
        program += [(_EQUAL, 0, 1, number), (_RETURN, 0, 0, _ERRNO | _EPERM)]
    if has_gpu:
        program += [(_EQUAL, 0, 7, _ALWAYS["socket"]), (_LOAD, 0, 0, 16), (_EQUAL, 0, 3, _AF_UNIX)]
        program += [(_LOAD, 0, 0, 24), (_AND, 0, 0, _TYPE_BITS), (_EQUAL, 1, 0, _SEQPACKET)]
        program += [(_RETURN, 0, 0, _ERRNO | _EPERM), (_RETURN, 0, 0, _ALLOW)]
    if also_processes:
        program += [(_EQUAL, 0, 1, _CLONE3), (_RETURN, 0, 0, _ERRNO | _ENOSYS)]
        # A new thread is let be.
        program += [(_EQUAL, 0, 4, _CLONE), (_LOAD, 0, 0, 16), (_HAS_BIT, 1, 0, _CLONE_THREAD)]
        program += [(_RETURN, 0, 0, _ERRNO | _EPERM), (_RETURN, 0, 0, _ALLOW)]
        # abort() and raise() send their signal to this very process.
        program += [(_EQUAL, 0, 4, _TGKILL), (_LOAD, 0, 0, 16), (_EQUAL, 1, 0, os.getpid())]
        program += [(_RETURN, 0, 0, _ERRNO | _EPERM), (_RETURN, 0, 0, _ALLOW)]
    program.append((_RETURN, 0, 0, _ALLOW))
    code = ctypes.create_string_buffer(b"".join(struct.pack("<HBBI", *step) for step in program))
    head = ctypes.create_string_buffer(struct.pack("<HxxxxxxQ", len(program), ctypes.addressof(code)))
    libc = ctypes.CDLL(None, use_errno=True)
    _unless_failed(libc.prctl(_PR_SET_SECCOMP, 2, ctypes.c_void_p(ctypes.addressof(head)), 0, 0))


def limit_resources(*, file_bytes: int, files: int, processes: int, cpu_s: int) -> None:
    """Hard limits of this process and of what it starts; one that is lower already stays."""
    for kind, most in (
        (resource.RLIMIT_CORE, 0),
        (resource.RLIMIT_FSIZE, file_bytes),
        (resource.RLIMIT_NOFILE, files),
        (resource.RLIMIT_NPROC, processes),
        (resource.RLIMIT_CPU, cpu_s),
    ):
        hard = resource.getrlimit(kind)[1]
        lower = most if hard == resource.RLIM_INFINITY else min(most, hard)
        resource.setrlimit(kind, (lower, lower))


def _become(arguments: Sequence[str]) -> None:
    told, _, *command = arguments
    wanted = json.loads(told)
    limit_resources(**wanted["limits"])
    refuse_privileges()
    if wanted["has_gpu"]:  # it stays open: looked up anew, the folder would be another one to Landlock
        os.set_inheritable(os.open("/proc/self/task", os.O_PATH), True)
    if wanted["landlock"]:
        restrict_files(wanted["read"], wanted["write"], wanted["names"])
    refuse_syscalls(also_processes=False, has_gpu=wanted["has_gpu"])
    os.execv(command[0], command)


if __name__ == "__main__":
    _become(sys.argv[1:])
