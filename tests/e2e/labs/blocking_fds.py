# SPDX-License-Identifier: Apache-2.0
"""A program that hands the daemon fds whose close takes a minute: TCP sockets with unsent data and
SO_LINGER. `blocking_fds.py SOCKET KIND` does it in one way, says "done" and lives on."""
import array
import errno
import signal
import socket
import struct
import sys
import threading

from labs.control import ABI_VERSION, COMMANDS, Client, Refused

LINGER_SECONDS = 60
LEND_MEMORY, LEND_XRC_FILE = 1, 3
COUNT = 3


class StuckFds:
    """Makes them. Their peers read nothing while this object lives."""

    def __init__(self):
        self.listener = socket.socket()
        self.listener.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        self.listener.bind(("127.0.0.1", 0))
        self.listener.listen()
        self.peers, self.refused = [], []

    def make(self):
        stuck = socket.socket()
        stuck.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 4096)
        stuck.connect(self.listener.getsockname())
        self.peers.append(self.listener.accept()[0])
        stuck.setblocking(False)
        try:
            while True:
                stuck.send(bytes(65536))
        except BlockingIOError:
            pass
        stuck.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER,
                         struct.pack("ii", 1, LINGER_SECONDS))
        return stuck

    def send(self, to, data):
        """Sends one along with `data`. One that the kernel or the daemon refuses is kept: to close
        it takes as long here."""
        fd = self.make()
        rights = array.array("i", [fd.fileno()])
        try:
            to.sendmsg([data], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, rights)],
                       socket.MSG_DONTWAIT)
            # Where the daemon has closed its own already, it is this one that hangs.
            threading.Thread(target=fd.close, daemon=True).start()
        except OSError as error:
            if error.errno not in (errno.EPERM, errno.EPIPE, errno.EAGAIN, errno.ECONNRESET):
                raise
            self.refused.append(fd)


class Program(Client):
    """One that keeps the fds which answers bring along."""

    def call_with_fds(self, command, layout="", *values):
        body = struct.pack("<" + layout, *values)
        self.socket.send(struct.pack("<II", COMMANDS[command], 8 + len(body)) + body)
        _, rights, *_ = self.socket.recvmsg(65536, 4096)
        fds = array.array("i")
        for _, _, data in rights:
            fds.frombytes(data)
        return list(fds)

    def hello(self):
        fds = self.call_with_fds("HELLO", "II", ABI_VERSION, 0)
        self.lend_socket = socket.socket(fileno=fds[-1])  # Behind those of the arena and workers.
        return self


def lend(what):
    return struct.pack("<IIQQQQ", what, 0, 0, 0, 0, 0)


def command(path, stuck):
    """Fds beside a command."""
    stuck.send(Client(path).socket, struct.pack("<II", COMMANDS["HELLO"], 16) +
               struct.pack("<II", ABI_VERSION, 0))


def unread(path, stuck):
    """Fds in messages that the daemon does not read, because the connection ends."""
    for _ in range(COUNT):
        client = Client(path)
        # The answer to the first one finds no reader: the rest stays in the queue.
        client.socket.send(struct.pack("<II", COMMANDS["HELLO"], 8))
        for _ in range(COUNT):
            stuck.send(client.socket, b"unread")
        client.socket.close()


def rdma_cm(path, stuck):
    """Fds to the socket that stands for a file of rdma_cm."""
    for _ in range(COUNT):
        program = Program(path).hello()
        file = socket.socket(fileno=program.call_with_fds("OPEN_CM")[0])
        stuck.send(file, b"x")
        file.close()
        program.socket.close()


def lent(path, stuck):
    """Fds to the socket where they are expected, more than are read before the program ends."""
    for what in (LEND_MEMORY, LEND_XRC_FILE):
        program = Program(path).hello()
        for _ in range(COUNT):
            stuck.send(program.lend_socket, lend(what))
        program.lend_socket.close()
        program.socket.close()


def turned_away(path, stuck):
    """Fds of a program that is not let in, since its user has as many as may be."""
    kept = []
    try:
        while True:
            kept.append(Program(path))
            kept[-1].call("HELLO", "II", ABI_VERSION, 0)
    except Refused:
        pass
    for _ in range(COUNT):
        client = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        client.connect(path)
        stuck.send(client, b"let me in")
        client.close()
    return kept


def main(path, kind):
    stuck = StuckFds()
    kept = globals()[kind](path, stuck)
    print("done", flush=True)
    signal.pause()
    return kept


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2])
