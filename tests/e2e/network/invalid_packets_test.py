# SPDX-License-Identifier: Apache-2.0
"""Frames that no honest peer sends, while honest ones work on."""
import contextlib
import random
import signal
import socket
import unittest

from labs import roce
from labs.lab import VethLab, find_list
from labs.process import Failed, is_listening, run, wait_until
from labs.programs import pingpong, seed

SEND_ONLY, WRITE_ONLY, READ_REQUEST, ACKNOWLEDGE, FETCH_ADD = 0x04, 0x0A, 0x0C, 0x11, 0x14
ICRC_WRONG, BAD_ADDRESS = "counters.rx_icrc_encapsulated", "counters.rx_bad_address"


@contextlib.contextmanager
def standing(*programs):
    """Programs that do nothing meanwhile: their connection stays, however fast the machine is."""
    for program in programs:
        program.signal(signal.SIGSTOP)
    try:
        yield
    finally:
        for program in programs:
            program.signal(signal.SIGCONT)


class Injector:
    """Sends raw frames out of a namespace's eth0, by a small program that runs there."""

    def __init__(self, namespace, directory):
        self.namespace = namespace
        self.path = f"{directory}/frames"

    def send(self, frames):
        script = ("import socket,sys\n"
                  "s=socket.socket(socket.AF_PACKET,socket.SOCK_RAW)\n"
                  "s.bind(('eth0',0))\n"
                  "[s.send(bytes.fromhex(line)) for line in open(sys.argv[1]).read().split()]\n")
        with open(self.path, "w", encoding="ascii") as file:
            file.write("\n".join(frame.hex() for frame in frames))
        run(self.namespace.command(["python3", "-c", script, self.path]), 60)


def mac_of(namespace):
    return namespace.ip("-o", "link", "show", "eth0").split("link/ether ")[1].split()[0]


class BadInputTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.lab = VethLab(9000)
        cls.addClassCleanup(cls.lab.close)
        cls.source_mac = mac_of(cls.lab.b.namespace)
        cls.dest_mac = mac_of(cls.lab.a.namespace)
        cls.injector = Injector(cls.lab.b.namespace, cls.lab.directory)
        cls.random = random.Random(seed())

    def frame(self, transport, **options):
        return roce.frame_v4(self.source_mac, self.dest_mac, "10.0.0.2", "10.0.0.1", transport,
                             **options)

    def inject(self, frames, are_counted=lambda _: True):
        """Sends frames at `a`; returns which of its counters rose, and by how much, once they rose
        as they should or have had time for it."""
        before = self.lab.a.counters()
        self.injector.send(frames)

        def risen():
            after = self.lab.a.counters()
            return {name: after[name] - before.get(name, 0) for name in after
                    if isinstance(after[name], (int, float)) and after[name] != before.get(name, 0)}

        with contextlib.suppress(Failed):
            wait_until(lambda: are_counted(risen()), "the frames")
        return risen()

    def check_counted(self, frames, *hints):
        """All frames are counted under a name that holds one of `hints`, and nothing is sent."""
        def counted(risen):
            return [value for name, value in risen.items()
                    if any(hint in name.lower() for hint in hints)]

        risen = self.inject(frames, lambda risen: len(frames) in counted(risen))
        self.assertIn(len(frames), counted(risen), f"risen: {risen}")
        pingpong(self.lab, "-c", "-n", 50)

    def test_unknown_queue_pair(self):
        self.check_counted([self.frame(roce.bth(SEND_ONLY, 0xABCDE0 + n, n) + b"x" * 64)
                            for n in range(16)], "qp")

    def test_unknown_opcode(self):
        self.check_counted([self.frame(roce.bth(0xDF, 0x100, n) + b"x" * 64) for n in range(20)],
                           "opcode")

    def test_header_version(self):
        frames = []
        for n in range(10):
            head = bytearray(roce.bth(SEND_ONLY, 0x100, n))
            head[1] |= 3
            frames.append(self.frame(bytes(head) + b"x" * 64))
        self.check_counted(frames, "version", "bth", "malformed", "header")

    def test_truncated_packets(self):
        """Cut anywhere behind the Ethernet header, the lengths left as they were."""
        whole = self.frame(roce.bth(WRITE_ONLY, 0x100, 1) + roce.reth(0, 1, 64) + b"x" * 64)
        self.inject([whole[:length] for length in range(15, len(whole))])
        pingpong(self.lab, "-c", "-n", 50)

    def test_packets_too_short_for_their_opcode(self):
        self.check_counted([self.frame(roce.bth(opcode, 0x100, 1))
                            for opcode in (WRITE_ONLY, READ_REQUEST, ACKNOWLEDGE, FETCH_ADD)],
                           "short", "length", "malformed")

    def test_random_frames(self):
        frames = []
        for _ in range(3000):
            frame = bytearray(self.random.randbytes(self.random.randrange(14, 300)))
            if self.random.random() < 0.8:
                frame[0:14] = roce.mac(self.dest_mac) + roce.mac(self.source_mac) + b"\x08\x00"
            frames.append(bytes(frame))
        self.inject(frames)
        pingpong(self.lab, "-c", "-n", 50)

    def test_random_transport_bytes_with_a_right_icrc(self):
        """What passes the ICRC reaches the decoder."""
        self.inject([self.frame(self.random.randbytes(self.random.randrange(12, 200)))
                     for _ in range(3000)])
        pingpong(self.lab, "-c", "-n", 50)

    def start_pingpong(self):
        """A connection under way, and the number of its queue pair on `a`."""
        port_flags = ["-c", "-p", 21999, "-n", 40000, "-s", 1024]
        server = self.lab.a.start("ibv_rc_pingpong", "-d", "uroce0", "-g",
                                  self.lab.a.gid_index(), *port_flags)
        self.addCleanup(server.kill)
        wait_until(lambda: is_listening(server.pid, 21999), "the server")
        client = self.lab.b.start("ibv_rc_pingpong", "-d", "uroce0", "-g",
                                  self.lab.b.gid_index(), *port_flags, "10.0.0.1")
        self.addCleanup(client.kill)
        qps = wait_until(lambda: [qp for qp in find_list(self.lab.a.dump("qp"))
                                  if "RTS" in str(qp)], "a connection")
        number = qps[0].get("qpn", qps[0].get("qp_num"))
        return server, client, int(str(number), 0)

    def test_wrong_icrc_is_counted_and_never_believed(self):
        server, client, qpn = self.start_pingpong()
        frames = [self.frame(roce.bth(SEND_ONLY, qpn, psn) + b"x" * 64, wrong_icrc=True)
                  for psn in range(50)]
        with standing(server, client):
            risen = self.inject(frames, lambda risen: risen.get(ICRC_WRONG, 0) >= 50)
        self.assertEqual(risen.get(ICRC_WRONG), 50, risen)
        client.expect_success(300)
        server.expect_success(60)

    def test_forged_packets_with_a_psn_far_off_do_not_break_a_connection(self):
        server, client, qpn = self.start_pingpong()
        # Beyond both the window of duplicates and the next ones, acknowledges of nothing sent.
        frames = [self.frame(roce.bth(ACKNOWLEDGE, qpn, psn) + b"\x1f\0\0\0")
                  for psn in range(0x400000, 0x400000 + 200)]
        with standing(server, client):
            self.inject(frames, lambda risen: risen.get("counters.port_rcv_packets", 0) >= 200)
        client.expect_success(300)
        server.expect_success(60)

    def test_a_peer_is_its_address_too(self):
        """ReDMArk A1: who is not at the peer's address needs more than numbers."""
        server, client, qpn = self.start_pingpong()
        forged = [roce.frame_v4(self.source_mac, self.dest_mac, "10.0.0.77", "10.0.0.1",
                                roce.bth(opcode, qpn, psn) + payload)
                  for psn in range(0, 1 << 24, 1 << 14)
                  for opcode, payload in ((SEND_ONLY, b"x" * 64), (ACKNOWLEDGE, b"\x62\0\0\0"))]
        with standing(server, client):
            risen = self.inject(forged, lambda risen: risen.get(BAD_ADDRESS, 0) >= len(forged))
        self.assertEqual(risen.get(BAD_ADDRESS), len(forged), risen)
        for end in (server, client):  # One that believed a packet has failed.
            self.assertTrue(end.running() or end.wait(1) == 0, end.describe())

    def test_flood_of_bad_frames_beside_a_pingpong(self):
        server, client, _ = self.start_pingpong()
        for _ in range(3):
            self.injector.send([self.frame(roce.bth(SEND_ONLY, 0x100, n) + b"x" * 1000,
                                           wrong_icrc=True) for n in range(3000)])
        client.expect_success(300)
        server.expect_success(60)


class ClosedSocketTest(unittest.TestCase):
    """Bytes on the control socket that are no command."""

    def test_garbage_on_the_control_socket_disturbs_no_program(self):
        lab = VethLab(1500)
        try:
            for length in (0, 1, 8, 100, 4000):
                with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as peer:
                    peer.connect(lab.a.daemon.socket)
                    peer.send(random.randbytes(length))
                    peer.settimeout(5)
                    try:
                        peer.recv(65536)
                    except OSError:
                        pass
            pingpong(lab, "-c", "-n", 50)
        finally:
            lab.close()
