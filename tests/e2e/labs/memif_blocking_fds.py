# SPDX-License-Identifier: Apache-2.0
"""A peer of a memif that hands its server fds whose close takes a minute.
`memif_blocking_fds.py SOCKET PID KIND` does it in one way to the server PID, says "done"
and lives on."""
import array
import contextlib
import fcntl
import os
import signal
import socket
import struct
import sys

from labs.blocking_fds import StuckFds

MESSAGE_BYTES = 128
ACK, INIT, ADD_REGION, ADD_RING, CONNECT, CONNECTED = 1, 3, 4, 5, 6, 7
VERSION = 0x0200
RING_COOKIE = 0x3e31f20
LOG2_SLOTS = 5
RING_BYTES = 128 + (16 << LOG2_SLOTS)
MEMORY_BYTES = 65536
SURPLUS = 6  # More than any peer has room for.
# More than wait to be let in, and those are more than a server has at a time.
MANY = 40


def message(kind, layout="", *values):
    return struct.pack("<H" + layout, kind, *values).ljust(MESSAGE_BYTES, b"\0")


REGION = message(ADD_REGION, "HQ", 0, MEMORY_BYTES)
NONSENSE = message(ACK)


def ring(to_server):
    return message(ADD_RING, "HHHIBH", int(to_server), 0, 0, 0 if to_server else RING_BYTES,
                   LOG2_SLOTS, 0)


def make_memory():
    """A memory file with two rings, as a server wants it."""
    memory = os.memfd_create("memif", os.MFD_ALLOW_SEALING)
    os.ftruncate(memory, MEMORY_BYTES)
    fcntl.fcntl(memory, fcntl.F_ADD_SEALS, fcntl.F_SEAL_SHRINK)
    for offset in (0, RING_BYTES):
        os.pwrite(memory, struct.pack("<I", RING_COOKIE), offset)
    return memory


class Peer:
    """A connection to the server at `path`, which has said hello."""

    def __init__(self, path):
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self.socket.connect(path)
        self.socket.recv(MESSAGE_BYTES)

    def call(self, request, *fds):
        """Sends a request; returns the type of the answer."""
        rights = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", fds))] if fds else []
        self.socket.sendmsg([request], rights)
        return struct.unpack_from("<H", self.socket.recv(MESSAGE_BYTES))[0]

    def init(self):
        assert self.call(message(INIT, "HIB", VERSION, 0, 0)) == ACK
        return self

    def connect(self):
        self.init()
        assert self.call(REGION, make_memory()) == ACK
        for to_server in (True, False):
            assert self.call(ring(to_server), os.eventfd(0)) == ACK
        assert self.call(message(CONNECT)) == CONNECTED
        return self


class UntrustedPeer:
    """Sends fds to the server at `path`, which is process `pid`."""

    def __init__(self, path, pid):
        self.path = path
        self.pid = pid
        self.stuck = StuckFds()

    @contextlib.contextmanager
    def server_stopped(self):
        """Has it come to the fds that are sent meanwhile when it alone has them."""
        os.kill(self.pid, signal.SIGSTOP)
        try:
            yield
        finally:
            os.kill(self.pid, signal.SIGCONT)

    def send(self, to, data, *first):
        """Sends an fd whose close takes a minute along with `data`, after the fds `first`."""
        with self.stuck.make() as fd:
            rights = array.array("i", [*first, fd.fileno()])
            to.sendmsg([data], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, rights)])

    def send_and_leave(self, peer, data, *first):
        with self.server_stopped():
            self.send(peer.socket, data, *first)
            peer.socket.close()

    def memory(self):
        """An fd that is no memory."""
        self.send_and_leave(Peer(self.path).init(), REGION)

    def eventfd(self):
        """An fd that is no eventfd."""
        self.send_and_leave(Peer(self.path).init(), ring(True))

    def surplus(self):
        """More fds than the one that is asked for, which is good."""
        self.send_and_leave(Peer(self.path).init(), REGION, *[make_memory()] * SURPLUS)

    def connected(self):
        """An fd to a server that expects none any more."""
        self.send_and_leave(Peer(self.path).connect(), NONSENSE)

    def unread(self):
        """Fds in messages that the server does not read: the first ends the connection."""
        self.many(1)

    def many(self, count=MANY):
        """Many such connections, as many as fit."""
        with self.server_stopped():
            for _ in range(count):
                peer = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
                peer.setblocking(False)
                try:
                    peer.connect(self.path)
                except BlockingIOError:
                    break
                peer.send(NONSENSE)
                for _ in range(2):
                    self.send(peer, NONSENSE)
                peer.close()


def main(path, pid, kind):
    peer = UntrustedPeer(path, int(pid))
    getattr(peer, kind)()
    print("done", flush=True)
    signal.pause()


if __name__ == "__main__":
    main(*sys.argv[1:])
