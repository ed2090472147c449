# SPDX-License-Identifier: Apache-2.0
"""A flood of frames that no honest peer sends, while programs work: all counted, none disturbed."""
import json
import time
import unittest

from labs.lab import BUILD, LONG, Host, VethLab, WireLab
from labs.process import Failed, Process, resident_kilobytes, run, wait_until
from labs.programs import data_check, data_check_in_one_process, seed

FLOOD = BUILD / "tests" / "e2e" / "flood"
SECONDS = 60 if LONG else 5
LEAST_FRAMES = 50_000
# As fast as it can for the long run. The short one leaves a machine that does other things too
# enough for the programs.
FRAMES_PER_SECOND = [] if LONG else [100_000]
# What the device may count a received frame as besides the packets of connections.
DROPS = ("rx_not_roce", "rx_malformed", "rx_bad_opcode", "rx_icrc_encapsulated", "rx_bad_pkey",
         "rx_unknown_qpn", "rx_bad_address", "rx_bad_state", "rx_ghost", "rp_cnp_ignored")


def mac_of(namespace):
    return namespace.ip("-o", "link", "show", "eth0").split("link/ether ")[1].split()[0]


def sent_by(namespace):
    """Frames out of eth0 that the other end of the veth pair has taken."""
    (link,) = json.loads(namespace.ip("-j", "-s", "link", "show", "eth0"))
    return link["stats64"]["tx"]["packets"]


class FloodTest(unittest.TestCase):
    def setUp(self):
        self.lab = VethLab(9000, "--workers", "1", device="net_af_packet0;iface=eth0")
        self.addCleanup(self.lab.close)

    def counters(self):
        """Those of `a`, and what the two kernels say of the frames between them."""
        counters = {name.removeprefix("counters."): value
                    for name, value in self.lab.a.counters().items() if isinstance(value, int)}
        counters["sent_by_a"] = sent_by(self.lab.a.namespace)
        counters["sent_by_b"] = sent_by(self.lab.b.namespace)
        return counters

    def start_flood(self):
        return Process(self.lab.b.namespace.command(
            [FLOOD, "eth0", mac_of(self.lab.a.namespace), "10.0.0.2", "10.0.0.1", "fd00::2",
             "fd00::1", SECONDS, seed(), *FRAMES_PER_SECOND]))

    def test_flood_beside_checked_data_is_counted_to_the_last_frame(self):
        data_check(self.lab, "--seed", seed(), "--ops", 200)
        before = self.counters()
        memory = resident_kilobytes(self.lab.a.daemon.process.pid)
        flood, checks = self.start_flood(), 0
        try:
            while flood.running() or checks == 0:
                data_check(self.lab, "--seed", seed(), "--ops", 300, "--max-bytes", 20000)
                checks += 1
            result = json.loads(flood.expect_success(30))
        finally:
            flood.kill()
        # The sockets of net_af_packet have the kernel reassemble IPv4: it keeps these fragments.
        kept = result["ipv4_fragments"]
        risen = self.settled(before, kept)
        if LONG:
            print(f"   {result['sent'] / result['seconds'] / 1e6:.2f} M/s sent, "
                  f"{risen['port_rcv_missed']} missed by the port, {checks} checks beside it")
        self.assertGreater(result["sent"], 10000)
        # Every frame received that is no packet of a connection has a counter that says why.
        bad = sum(risen[name] for name in DROPS)
        self.assertGreaterEqual(bad + risen["port_rcv_missed"], result["sent"] - kept)
        self.assertLessEqual(bad, result["sent"] - kept + 1000)  # Neighbours', late acknowledges.
        for name in ("rx_not_roce", "rx_malformed", "rx_bad_opcode", "rx_unknown_qpn"):
            self.assertGreater(risen[name], 100, risen)
        self.assertLess(resident_kilobytes(self.lab.a.daemon.process.pid), memory + 65536)
        log = self.lab.a.daemon.process.output().splitlines()
        self.assertLess(len([line for line in log if " session " not in line]), 100)

    def settled(self, before, kept_by_kernel):
        """By how much counters rose, once every frame is received or missed: those of `b`, and
        those that the kernel of `a` sends itself, which its packet sockets see too."""
        risen = {}

        def complete():
            risen.update({name: value - before.get(name, 0)
                          for name, value in self.counters().items()})
            own = risen["sent_by_a"] - risen["port_xmit_packets"]
            return (risen["port_rcv_packets"] + risen["port_rcv_missed"] ==
                    risen["sent_by_b"] - kept_by_kernel + own)

        try:
            wait_until(complete, "an account of every frame")
        except Failed as error:
            raise Failed(f"{error}: {risen}, {kept_by_kernel} fragments") from None
        return risen


class FileFloodLab(WireLab):
    """The wire, and beside it a port on which the frames of a file arrive again and again, as fast
    as the one worker takes them."""

    MAC = "02:00:00:00:00:99"

    def _build(self):
        frames = f"{self.directory}/flood.pcap"
        run([FLOOD, frames, self.MAC, "10.0.9.2", "10.0.9.1", "fd09::2", "fd09::1", seed()])
        self.arguments = ("--workers", "1", "--port", "name=flood0,mtu=9000,dev=net_pcap0;"
                          f"rx_pcap={frames};infinite_rx=1;mac={self.MAC}")
        super()._build()
        self.flooded = Host(self.a.namespace, self.a.daemon, "flood0", None, None)


class FileFloodTest(unittest.TestCase):
    """No sender that takes its share of the machine: what the daemon itself can bear."""

    def setUp(self):
        self.lab = FileFloodLab()
        self.addCleanup(self.lab.close)

    def account(self):
        """Frames received, and those that a counter says where they went, or why not."""
        counters = {name.removeprefix("counters."): value
                    for name, value in self.lab.flooded.counters().items()}
        others = ("rx_cross_worker_full", "host_rcv_packets", "host_rcv_discards")
        return counters["port_rcv_packets"], sum(counters[name] for name in (*DROPS, *others))

    def test_every_frame_of_a_flood_beside_checked_data_is_counted(self):
        data_check_in_one_process(self.lab, "--seed", seed(), "--ops", 300)
        memory = resident_kilobytes(self.lab.a.daemon.process.pid)
        (before, _), begin, checks = self.account(), time.monotonic(), 0
        while (time.monotonic() - begin < SECONDS
               or self.account()[0] - before < LEAST_FRAMES or checks == 0):
            data_check_in_one_process(self.lab, "--seed", seed(), "--ops", 300)
            checks += 1
        if LONG:
            rate = (self.account()[0] - before) / (time.monotonic() - begin)
            print(f"   {rate / 1e6:.2f} M/s received, {checks} checks beside it")
        run(self.lab.a.uroce("fault", "set", "flood0", "link=down"))
        before_end = self.lab.flooded.counters()["fault_receive.dropped"]
        wait_until(lambda: self.lab.flooded.counters()["fault_receive.dropped"] > before_end,
                   "an end of the flood behind the port")
        # Workers may have frames on their way to each other.
        wait_until(lambda: len(set(self.account())) == 1, "an account of every frame")
        self.assertLess(resident_kilobytes(self.lab.a.daemon.process.pid), memory + 65536)
