"""Puts a command into the surroundings of strangers' code. It is run as a file, by an interpreter that imports nothing.

    python -I launch.py WALLS COMMAND...

The process becomes the command, with the same environment. `WALLS` is one of

    none       no new privileges, no core dumps; ends with the process that started it
    user       and a namespace of users: processes outside cannot be looked into
    network    and a namespace of networks that holds a loopback device and nothing else

What cannot be built ends it with status 125 and one line.
"""

from __future__ import annotations

import ctypes
import fcntl
import os
import resource
import shutil
import signal
import socket
import struct
import sys

NONE, USER, NETWORK = "none", "user", "network"
CANNOT = 125

_CLONE_NEWUSER, _CLONE_NEWNET = 0x10000000, 0x40000000
_PR_SET_PDEATHSIG, _PR_SET_NO_NEW_PRIVS = 1, 38
_SIOCGIFFLAGS, _SIOCSIFFLAGS = 0x8913, 0x8914
_IFF_UP = 0x1
_REQUEST = "16sh14x"
"""A `struct ifreq` with flags."""


def _called(function: str, *arguments: int) -> None:
    """Call a function of the C library. Raises `OSError`."""
    library = ctypes.CDLL(None, use_errno=True)
    if getattr(library, function)(*arguments) != 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{function}: {os.strerror(number)}")


def _map(name: str, text: str) -> None:
    with open(f"/proc/self/{name}", "w", encoding="ascii") as file:  # noqa: PTH123, fewer imports
        file.write(text)


def _enter(walls: str) -> None:
    user, group = os.getuid(), os.getgid()
    _called("unshare", _CLONE_NEWUSER | (_CLONE_NEWNET if walls == NETWORK else 0))
    # Without a change of groups the kernel allows everybody to map themselves.
    _map("setgroups", "deny")
    _map("uid_map", f"{user} {user} 1")
    _map("gid_map", f"{group} {group} 1")


def _raise_loopback() -> None:
    """Processes of one training find each other through it."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as any_socket:
        asked = fcntl.ioctl(any_socket, _SIOCGIFFLAGS, struct.pack(_REQUEST, b"lo", 0))
        name, flags = struct.unpack(_REQUEST, asked)
        fcntl.ioctl(any_socket, _SIOCSIFFLAGS, struct.pack(_REQUEST, name, flags | _IFF_UP))


def main(walls: str, command: list[str]) -> None:
    """Become the command."""
    try:
        if sys.platform == "linux":
            starter = os.getppid()
            _called("prctl", _PR_SET_PDEATHSIG, signal.SIGTERM, 0, 0, 0)
            if os.getppid() != starter:
                sys.exit(CANNOT)
            _called("prctl", _PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        if walls != NONE:
            _enter(walls)
        if walls == NETWORK:
            _raise_loopback()
        program = shutil.which(command[0]) or command[0]
        os.execv(program, command)
    except OSError as error:
        print(f"{command[0]}: cannot be started: {error.strerror or error}", file=sys.stderr)
        sys.exit(CANNOT)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2:])
