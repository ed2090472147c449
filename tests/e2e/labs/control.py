# SPDX-License-Identifier: Apache-2.0
"""A program as the daemon sees it: it says what it likes on the control socket. By itself, run
under whatever user: `control.py SOCKET KIND COUNT` makes so many objects, says how far it came,
and holds them until it is killed."""
import array
import json
import re
import socket
import struct
import sys
import time
from pathlib import Path

_ABI = Path(__file__).resolve().parents[3] / "pipeline" / "shm" / "abi"
NONE = 0xFFFFFFFF


def _commands():
    """The numbers of the commands' enums, which count up from a given one."""
    body = "".join(re.search(rf"enum {name} \{{(.*?)\}}", (_ABI / file).read_text(encoding="ascii"),
                             re.S).group(1)
                   for name, file in (("uroce_command", "uroce_commands.h"),
                                      ("uroce_cm_command", "uroce_cm_commands.h")))
    numbers, next_number = {}, 0
    for name, value in re.findall(r"UROCE_(\w+)(?: = (\d+))?", body):
        next_number = int(value) if value else next_number
        numbers[name] = next_number
        next_number += 1
    return numbers


COMMANDS = _commands()
ABI_VERSION = int(re.search(r"UROCE_ABI_VERSION (\d+)",
                            (_ABI / "uroce_arena.h").read_text(encoding="ascii")).group(1))


class Refused(Exception):
    """The daemon's errno and its reason."""

    def __init__(self, number, text):
        super().__init__(f"{number}: {text}")
        self.number = number
        self.text = text


class Client:
    """One connection. Fds that come along are closed at once, but those of rdma_cm files."""

    def __init__(self, path):
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self.socket.connect(path)

    def call(self, command, layout="", *values):
        """Runs a command; returns the body of the reply."""
        body = struct.pack("<" + layout, *values)
        header = struct.pack("<II", COMMANDS[command], 8 + len(body))
        try:
            self.socket.send(header + body)
        except BrokenPipeError:
            pass  # Turned away: why was said before.
        try:
            reply, rights, *_ = self.socket.recvmsg(65536, 4096)
        except ConnectionResetError:
            reply, rights, *_ = self.socket.recvmsg(65536, 4096)
        for _, _, data in rights:
            fds = array.array("i")
            fds.frombytes(data)
            for fd in fds:
                if command != "OPEN_CM":  # The file is open as long as its fd.
                    socket.close(fd)
        if not reply:
            raise Refused(0, "hung up")
        error, _, text = struct.unpack("<iI120s", reply[:128])
        if error:
            raise Refused(error, text.rstrip(b"\0").decode())
        return reply[128:]

    def handle_of(self, command, layout, *values):
        return struct.unpack("<I", self.call(command, layout, *values)[:4])[0]


MR_NULL = 4
CREATE_ID, PORT_SPACE_TCP = 0, 0x106


def own_gid():
    """uroce0's IPv4 address in the labs."""
    return bytes(10) + b"\xff\xff" + bytes((10, 0, 0, 1))


class Maker:
    """Makes objects of one kind over and over."""

    def __init__(self, path):
        self.path = path
        self.clients = []
        self.kinds = {"session": self.session, "context": self.context, "pd": self.pd,
                      "cq": self.cq, "qp": self.qp, "deep_qp": self.deep_qp,
                      "channel": self.channel, "ah": self.ah, "mw": self.mw, "srq": self.srq,
                      "segment": self.segment,
                      "mcast": self.mcast, "capture": self.capture, "mr": self.mr, "id": self.id}

    def session(self):
        self.clients.append(Client(self.path))
        self.clients[-1].call("HELLO", "II", ABI_VERSION, 0)

    def prepare(self):
        self.session()
        self.client = self.clients[-1]
        self.in_context = self.context()
        self.in_pd = self.pd()

    def context(self):
        return self.client.handle_of("OPEN_CONTEXT", "II", 0, 0)

    def pd(self):
        return self.client.handle_of("ALLOC_PD", "II", self.in_context, 0)

    def channel(self):
        return self.client.handle_of("CREATE_CHANNEL", "II", self.in_context, 0)

    def cq(self, entries=64):
        return self.client.handle_of("CREATE_CQ", "IIQIIII", self.in_context, entries, 1, NONE, 0,
                                     0, 0)

    def deep_qp(self):
        """One whose works take the daemon as much memory as can be."""
        return self.qp(2, 128, 512)

    def qp(self, qp_type=2, works=16, inline=0):
        if not hasattr(self, "in_cq"):
            self.in_cq = self.cq()
        return self.client.handle_of("CREATE_QP", "IIIIQI5III", self.in_pd, qp_type, self.in_cq,
                                     self.in_cq, 1, 0, works, 16, 1, 1, inline, 0, 0)

    def mcast(self):
        """One more group for a UD queue pair."""
        if not hasattr(self, "in_groups"):
            self.in_groups, self.group = self.qp(4), 0
        self.group += 1
        gid = bytes(10) + b"\xff\xff" + bytes((239, 0, 0, self.group))
        self.client.call("ATTACH_MCAST", "II16s", self.in_groups, 0, gid)

    def ah(self):
        """Of the device's own address, which takes no asking."""
        return self.client.handle_of("CREATE_AH", "I16sIBBBBBB2x", self.in_pd, own_gid(),
                                     0, 1, 64, 0, 1, 0, 1)

    def mw(self):
        return self.client.handle_of("ALLOC_MW", "II", self.in_pd, 2)

    def srq(self):
        return self.client.handle_of("CREATE_SRQ", "IIIIQIIII", self.in_pd, 16, 1, 0, 1, 0, 0, 0,
                                     0)

    def segment(self):
        return self.client.handle_of("CREATE_SEGMENT", "QQ", 0x10000, 1 << 20)

    def mr(self):
        """Of no memory."""
        address, length = 0x10000, 4096
        return self.client.handle_of("REG_MR", "IIQQQIIQQIIQII", self.in_pd, 1, address, length,
                                     address, 1, NONE, address, length, MR_NULL, NONE, 0, 0, 0)

    def id(self):
        """An id of librdmacm, in one file."""
        if not hasattr(self, "in_file"):
            self.in_file = self.client.handle_of("OPEN_CM", "")
        reply = self.client.call("WRITE_CM", "IIIHHQQHB5x", self.in_file, 0, CREATE_ID, 24, 4, 1, 0,
                                 PORT_SPACE_TCP, 2)
        error, = struct.unpack("<i", reply[:4])
        if error:
            raise Refused(error, "id: the limit of --max-cm-ids or --max-cm-ids-per-user")

    def capture(self):
        self.clients.append(Client(self.path))
        self.clients[-1].call("CAPTURE", "64sIIQ", b"", 0, 0, 65536)


def main(path, kind, count):
    maker = Maker(path)
    made, reason = 0, None
    try:
        if kind not in ("session", "capture"):
            maker.prepare()
        while made < count:
            maker.kinds[kind]()
            made += 1
    except Refused as refused:
        reason = [refused.number, refused.text]
    print(json.dumps({"made": made, "refused": reason}), flush=True)
    while True:
        time.sleep(60)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], int(sys.argv[3]))
