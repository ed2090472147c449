# SPDX-License-Identifier: Apache-2.0
"""Limits of NICs and users: what leaves on the wire is never more, from any sender."""
import time
import unittest

from labs.lab import WireLab, next_port
from labs.process import json_of, run, run_status, wait_until

FRAME_OVERHEAD = 24  # Preamble, FCS and gap.
BURST = 256 * 1024   # What may leave at once, of both NICs, with frames that are being counted.
MEASURED_BYTES = 50_000_000  # Two seconds at the rate of these tests; a slow machine takes longer.


def wire_bytes(host):
    counters = host.counters()
    return (counters["counters.port_xmit_bytes"]
            + FRAME_OVERHEAD * counters["counters.port_xmit_packets"])


class Writers:
    """ib_write_bw from `a` to `b`, one for each size of messages, until `stop`."""

    def __init__(self, lab, sizes):
        self.programs = []
        for size in sizes:
            port = next_port()

            def program(host, listen_on=port, length=size):
                return ["ib_write_bw", "-d", host.device, "-x", host.gid_index(), "-p", listen_on,
                        "-F", "-s", length, "-q", 4, "--run_infinitely"]

            server = lab.b.start(*program(lab.b))
            self.programs.append(server)
            wait_until(lambda s=server, p=port: lab.b.is_listening(s, p), "a listener",
                       timeout_s=60)
            self.programs.append(lab.a.start(*program(lab.a), lab.server_address))

    def stop(self):
        for program in self.programs:
            program.kill()


class RatesTest(unittest.TestCase):
    def expect_at_most(self, lab, bps):
        """So many bytes of two programs: on the wire, no more than the rate."""
        writers = Writers(lab, (65536, 1024))
        self.addCleanup(writers.stop)
        wait_until(lambda: wire_bytes(lab.a) > 1_000_000, "traffic", timeout_s=60)
        began, before = time.monotonic(), wire_bytes(lab.a)
        sent = wait_until(lambda: wire_bytes(lab.a) - before > MEASURED_BYTES
                          and wire_bytes(lab.a) - before, "more traffic", timeout_s=120)
        self.assertLessEqual(sent, bps / 8 * (time.monotonic() - began) * 1.01 + BURST)
        writers.stop()

    def test_a_nic_sends_no_more_than_its_rate(self):
        for workers in (1, 2):
            with self.subTest(workers=workers):
                lab = WireLab("--workers", workers, keys=["rate=200M"])
                self.addCleanup(lab.close)
                self.expect_at_most(lab, 200e6)
                devices = json_of(lab.a.uroce("devices", "--json"))["devices"]
                self.assertEqual({device["rate_bps"] for device in devices}, {200_000_000})
                self.assertIn("200 Mb/s", run(lab.a.uroce("devices")))

    def test_a_user_sends_no_more_than_his_rate(self):
        lab = WireLab("--max-rate-per-user", "200M", "--workers", 2)
        self.addCleanup(lab.close)
        self.expect_at_most(lab, 200e6)
        settings = json_of(lab.a.uroce("cc", "parameters", "--json"))["settings"]
        self.assertEqual(settings[0]["max_rate_per_user_bps"], 200_000_000)

    def test_programs_of_a_limited_nic_end_in_time(self):
        lab = WireLab(keys=["rate=10M"])
        self.addCleanup(lab.close)
        port = next_port()
        flags = ["ib_send_lat", "-x", lab.a.gid_index(), "-p", port, "-F", "-n", 100, "-s", 64]
        lab.run_pair([*flags, "-d", "uroce0"], [*flags, "-d", "uroce1", lab.server_address], port,
                     timeout_s=60)


class FlowControlTest(unittest.TestCase):
    def test_a_port_without_link_pause_says_so(self):
        lab = WireLab()
        self.addCleanup(lab.close)
        uroced = lab.daemons[0].process.command
        program = next(word for word in uroced if str(word).endswith("nic/uroced"))
        for port, expected in (
                ("dev=net_memif0;role=server;socket=/tmp/unused.sock", "no link pause"),
                ("iface=lo", "ethtool -A lo rx on tx on"),
                ("dev=net_af_packet0;iface=lo", "ethtool -A lo rx on tx on")):
            with self.subTest(port=port):
                status, output = run_status(lab.a.namespace.command(
                    [program, "--socket", f"{lab.directory}/other.sock", "--no-huge", "--port",
                     f"name=uroce7,{port},ip=10.9.0.1/24,flow-control=full"]))
                self.assertNotEqual(status, 0)
                self.assertIn(expected, output)


if __name__ == "__main__":
    unittest.main()
