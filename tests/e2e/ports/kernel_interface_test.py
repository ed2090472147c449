# SPDX-License-Identifier: Apache-2.0
"""A port on a kernel interface (iface=): superframes, and interfaces that are slow or down."""
import ctypes
import os
import pathlib
import platform
import re
import struct
import unittest

from labs.lab import UNPRIVILEGED, UROCED, Daemon, Host, VethLab, find_list
from labs.process import Process, run, run_status, wait_until
from labs.programs import data_check, perftest, seed


# Prints the hdr_len of the first superframe of more than 30,000 bytes: how many bytes the sender's
# kernel has kept in its first block.
FIRST_BLOCK = """
import socket
s = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(3))  # ETH_P_ALL
s.setsockopt(263, 15, 1)  # SOL_PACKET, PACKET_VNET_HDR
s.bind(("eth0", 3))
print("ready", flush=True)
message = b""
while len(message) < 30000:
    message = s.recv(70000)
print(int.from_bytes(message[2:4], "little"))
"""


def has_free_blocks():
    """Whether blocks of 64 KB and more have four times what the daemon asks for, so that it has
    that whatever other programs do. The kernel lists blocks by powers of two pages."""
    path = pathlib.Path("/proc/buddyinfo")  # Sandboxes lack it.
    lines = path.read_text(encoding="ascii").splitlines() if path.exists() else []
    counts = [line.split()[4:] for line in lines]
    page = os.sysconf("SC_PAGE_SIZE")
    return sum(int(count) * page << order for zone in counts
               for order, count in enumerate(zone) if page << order >= 64 << 10) >= 256 << 20


def counter(host, name):
    return host.counters()[f"counters.{name}"]


class SuperframesTest(unittest.TestCase):
    def setUp(self):
        self.lab = VethLab(9000)
        self.addCleanup(self.lab.close)

    def longest_frame(self):
        """Of those that leave while a program writes."""
        path = f"{self.lab.directory}/frames.pcap"
        tcpdump = Process(self.lab.a.namespace.command(
            ["tcpdump", "-i", "eth0", "-s", "128", "--immediate-mode", "-Z", "root", "-c", 200,
             "-w", path, "udp", "port", "4791", "and", "greater", "2000"]))
        self.addCleanup(tcpdump.kill)
        wait_until(lambda: "listening on" in tcpdump.output(), "tcpdump")
        perftest(self.lab, "ib_write_bw", "-s", 65536, "-n", 2000)
        tcpdump.expect_success(30)
        with open(path, "rb") as file:
            raw = file.read()
        lengths, place = [], 24
        while place + 16 <= len(raw):
            captured, length = (int.from_bytes(raw[place + at:place + at + 4], "little")
                                for at in (8, 12))
            lengths.append(length)
            place += 16 + captured
        return max(lengths)

    def test_packets_that_leave_together_are_one_for_the_kernel(self):
        self.assertGreater(self.longest_frame(), 9000)
        self.assertEqual(counter(self.lab.a, "rx_icrc_encapsulated"), 0)
        self.assertEqual(counter(self.lab.a, "out_of_sequence"), 0)

    @unittest.skipUnless(has_free_blocks(), "needs 256 MB of free memory in blocks of 64 KB")
    def test_the_kernel_keeps_them_in_one_block_on_a_veth(self):
        reader = Process(self.lab.a.namespace.command(["python3", "-c", FIRST_BLOCK]))
        self.addCleanup(reader.kill)
        wait_until(lambda: "ready" in reader.output(), "a packet socket")
        perftest(self.lab, "ib_write_bw", "-s", 65536, "-n", 2000)
        reader.expect_success(30)
        self.assertGreater(int(reader.output().split()[-1]), 30000)

    def test_an_interface_slower_than_the_program_holds_back_and_drops_nothing(self):
        """The queue of tbf is full all the time: it is slower than any machine, no congestion
        control keeps it short, and more than it holds is under way at once."""
        run(self.lab.b.uroce("port", "set", "uroce0", "cc=off"))
        self.lab.b.namespace.run(["tc", "qdisc", "add", "dev", "eth0", "root", "tbf", "rate",
                                  "200mbit", "burst", "128k", "limit", "256k"])
        data_check(self.lab, "--seed", seed(), "--ops", 300, "--max-bytes", 100000)
        perftest(self.lab, "ib_write_bw", "-s", 65536, "-n", 1000, "-u", 18)
        queue = run(self.lab.b.namespace.command(["tc", "-s", "qdisc", "show", "dev", "eth0"]))
        self.assertRegex(queue, r"dropped [1-9]", "the queue was full")
        self.assertEqual(counter(self.lab.b, "port_xmit_discards"), 0)
        self.assertEqual(counter(self.lab.a, "out_of_sequence"), 0)

    def test_an_interface_that_goes_down_and_comes_back(self):
        self.lab.a.namespace.ip("link", "set", "eth0", "down")
        wait_until(lambda: "PORT_DOWN" in self.lab.a.run("ibv_devinfo", "-d", "uroce0"), "down")
        self.lab.a.namespace.ip("link", "set", "eth0", "up")
        wait_until(lambda: "PORT_ACTIVE" in self.lab.a.run("ibv_devinfo", "-d", "uroce0"), "up")
        data_check(self.lab, "--seed", seed(), "--ops", 100)


def kernel_takes_programs():
    """Whether Linux is 6.6 or newer and lets this process load a program of two instructions for
    its tcx ingress hook (BPF_PROG_LOAD of bpf(2)). It says nothing of uroced."""
    if tuple(map(int, re.findall(r"\d+", platform.release())[:2])) < (6, 6):
        return False
    number = {"x86_64": 321, "aarch64": 280}[platform.machine()]
    code = ctypes.create_string_buffer(struct.pack("<BBhiBBhi", 0xb7, 0, 0, -1, 0x95, 0, 0, 0))
    licence = ctypes.create_string_buffer(b"Apache-2.0")
    tcx_ingress, sched_cls, prog_load = 46, 3, 5
    attributes = struct.pack("<IIQQIIQII16sII", sched_cls, 2, ctypes.addressof(code),
                             ctypes.addressof(licence), 0, 0, 0, 0, 0, b"", 0, tcx_ingress)
    loaded = ctypes.CDLL(None).syscall(number, prog_load, attributes, len(attributes))
    if loaded < 0:
        return False
    os.close(loaded)
    return True


def drops_early(host):
    return find_list(host.dump("devices"))[0]["kernel_drops_early"]


class IpTest(unittest.TestCase):
    """The kernel's IP has no work with RoCE packets."""

    def received(self, host):
        text = run(host.namespace.command(["cat", "/proc/net/snmp"]))
        names, values = (line.split() for line in text.splitlines() if line.startswith("Ip:"))
        return int(values[names.index("InReceives")])

    @unittest.skipUnless(kernel_takes_programs(), "needs CAP_BPF and Linux 6.6")
    def test_it_sees_none_of_them(self):
        lab = VethLab(9000)
        self.addCleanup(lab.close)
        self.assertTrue(drops_early(lab.a))
        before = self.received(lab.a)
        perftest(lab, "ib_write_bw", "-s", 64, "-n", 20000)
        self.assertGreater(counter(lab.a, "port_rcv_packets"), 20000)
        self.assertLess(self.received(lab.a) - before, 1000, "TCP of the programs alone")


# Binds the UDP port as any user may who wants to share it. Arguments: family, address, interface.
TAKE_UDP_PORT = """
import socket, sys, time
family, address, interface = sys.argv[1:]
s = socket.socket(getattr(socket, family), socket.SOCK_DGRAM)
for option in (socket.SO_REUSEADDR, socket.SO_REUSEPORT):
    s.setsockopt(socket.SOL_SOCKET, option, 1)
if interface:
    s.setsockopt(socket.SOL_SOCKET, socket.SO_BINDTODEVICE, interface.encode())
s.bind((address, 4791))
print("bound", flush=True)
time.sleep(600)
"""


class UdpPortTest(unittest.TestCase):
    """Who has UDP port 4791 of the interface or its address receives all RoCE packets."""

    PLACES = (("AF_INET", "10.0.0.1"), ("AF_INET", "0.0.0.0"), ("AF_INET6", "fd00::1"),
              ("AF_INET6", "::"), ("AF_INET6", "::ffff:10.0.0.1"))

    def setUp(self):
        self.lab = VethLab(1500)
        self.addCleanup(self.lab.close)
        self.namespace = self.lab.a.namespace
        self.lab.a.dump("devices")  # It answers when its port is there.

    def taker(self, family, address, interface=""):
        return self.namespace.command(
            [*UNPRIVILEGED, "python3", "-c", TAKE_UDP_PORT, family, address, interface])

    def test_no_other_user_gets_the_port_of_the_interface(self):
        for family, address in self.PLACES:
            for interface in ("", "eth0"):
                status, output = run_status(self.taker(family, address, interface))
                self.assertNotEqual(status, 0, f"{address} of {interface}")
                self.assertIn("Address already in use", output)

    def start_again(self):
        """The exit status and the output of another daemon on the interface."""
        return run_status(self.namespace.command(
            [UROCED, "--socket", f"{self.lab.directory}/again.sock", "--no-huge",
             "--port", "name=again,iface=eth0"]))

    def test_a_daemon_does_not_start_while_another_user_has_the_port(self):
        self.lab.daemons.remove(self.lab.a.daemon)
        self.lab.a.daemon.stop()
        for family, address in self.PLACES:
            taker = Process(self.taker(family, address))
            self.addCleanup(taker.kill)
            wait_until(lambda its=taker: "bound" in its.output(), "the program of another user")
            status, output = self.start_again()
            self.assertEqual(status, 2, output)
            self.assertIn('UDP port 4791 on interface "eth0": a program of user 65534 has it',
                          output)
            taker.kill()

    def test_a_program_of_root_that_has_the_port_is_a_warning(self):
        self.lab.daemons.remove(self.lab.a.daemon)
        self.lab.a.daemon.stop()
        script = TAKE_UDP_PORT.replace("(socket.SO_REUSEADDR, socket.SO_REUSEPORT)", "()")
        taker = Process(self.namespace.command(["python3", "-c", script, "AF_INET", "0.0.0.0", ""]))
        self.addCleanup(taker.kill)
        wait_until(lambda: "bound" in taker.output(), "the program of root")
        again = Daemon(self.namespace, f"{self.lab.directory}/again",
                       ["--port", "name=again,iface=eth0"])
        self.addCleanup(again.process.kill)
        wait_until(lambda: "ready, " in again.process.output(), "a ready daemon")
        self.assertIn("another program has UDP port 4791 of eth0", again.process.output())
        host = Host(self.namespace, again, "again", self.lab.a.address, self.lab.a.address6)
        self.assertFalse(drops_early(host), "the program goes on receiving")

    def test_a_removed_nic_leaves_the_port_to_another_one(self):
        host = self.lab.a
        program = host.start("ibv_asyncwatch", "-d", "uroce0")
        self.addCleanup(program.kill)
        wait_until(lambda: "FD" in program.output(), "a program that has the device open")
        run(host.uroce("port", "remove", "uroce0"))
        wait_until(lambda: "DEVICE_FATAL" in program.output(), "its end of the device")
        run(host.uroce("port", "add", "name=uroce0,udp=eth0"))
        host.forget_gids()
        data_check(self.lab, "--seed", seed(), "--ops", 100)
        self.assertTrue(program.running(), "it has the former device open")


if __name__ == "__main__":
    unittest.main()
