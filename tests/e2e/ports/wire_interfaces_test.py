# SPDX-License-Identifier: Apache-2.0
"""Addresses of a wire's NICs that the kernel has too, for programs that use TCP beside RDMA."""
import signal
import unittest

from labs.lab import UROCED, WireLab, next_port
from labs.process import Failed, Process, is_listening, run, run_status, wait_until


def lab_with_interfaces():
    lab = WireLab("--wire-interfaces")
    lab.a.dump("devices")  # Answered once the interfaces are there.
    return lab


def interfaces(namespace):
    return namespace.ip("-o", "link").count("uroce")


def qperf(lab, *tests):
    """qperf from `b` to a server of `a`. It meets by TCP, and tests RDMA, at the NIC's address. Its
    client does not wait until its server listens by librdmacm: what is rejected is tried again."""
    port = next_port()
    server = lab.a.start("qperf", "-lp", port)
    try:
        wait_until(lambda: lab.a.is_listening(server, port), "qperf")
        for attempts_left in (2, 1, 0):
            try:
                return lab.b.run("qperf", lab.a.address, "-lp", port, "-cm", 1, "-t", 1, *tests)
            except Failed as failure:
                if "Event rejected" not in str(failure) or attempts_left == 0:
                    raise
    finally:
        server.kill()


class WireInterfacesTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.lab = lab_with_interfaces()
        cls.addClassCleanup(cls.lab.close)

    def test_each_nic_has_an_interface_with_its_addresses(self):
        for host in (self.lab.a, self.lab.b):
            shown = host.namespace.ip("addr", "show", "dev", host.device)
            self.assertIn(f"inet {host.address}/24", shown)
            self.assertIn(f"inet6 {host.address6}/64", shown)
            self.assertNotIn("tentative", shown.split(host.address6)[1].splitlines()[0])

    def test_routes_of_the_kernel_stay_as_they_are(self):
        self.assertEqual(self.lab.a.namespace.ip("route"), "")

    def test_tcp_reaches_both_families(self):
        for address in (self.lab.a.address, self.lab.a.address6):
            with self.subTest(address):
                port = next_port()
                server = Process(self.lab.a.namespace.command(["iperf3", "-s", "-1", "-p", port]))
                wait_until(lambda its=server, at=port: is_listening(its.pid, at), "iperf3")
                run(self.lab.b.namespace.command(
                    ["iperf3", "-c", address, "-p", port, "-n", "10M"]))
                server.expect_success(10)

    def test_qperf_meets_at_the_address_and_measures_rdma(self):
        tests = ("tcp_lat", "rc_lat", "rc_bw", "rc_rdma_write_bw")
        output = qperf(self.lab, *tests)
        for test in tests:
            self.assertRegex(output, rf"{test}:\n(warning: .*\n)* +(latency|bw) +=")

    def test_a_second_daemon_is_told_who_has_the_name(self):
        status, output = run_status(self.lab.a.namespace.command(
            [UROCED, "--socket", f"{self.lab.directory}/second.sock", "--no-huge",
             "--wire-interfaces"]))
        self.assertEqual(status, 2, output)
        self.assertIn("--wire-interfaces: uroce0: another program has it", output)


class WithoutWireInterfacesTest(unittest.TestCase):
    def test_the_kernel_does_not_know_the_addresses(self):
        lab = WireLab()
        try:
            self.assertEqual(interfaces(lab.a.namespace), 0)
            status, _ = run_status(lab.a.namespace.command(["ping", "-c", 1, lab.a.address]))
            self.assertNotEqual(status, 0)
        finally:
            lab.close()

    def test_interfaces_end_with_the_daemon_however_it_ends(self):
        lab = lab_with_interfaces()
        try:
            self.assertEqual(interfaces(lab.a.namespace), 2)
            lab.daemons[0].process.signal(signal.SIGKILL)
            lab.daemons.pop().process.wait(10)
            wait_until(lambda: interfaces(lab.a.namespace) == 0, "the interfaces' end")
        finally:
            lab.close()

    def test_without_the_capability_one_line_names_it(self):
        lab = WireLab()
        try:
            status, output = run_status(lab.a.namespace.command(
                ["setpriv", "--bounding-set", "-net_admin", "--inh-caps", "-net_admin",
                 UROCED, "--socket", f"{lab.directory}/second.sock", "--no-huge",
                 "--wire-interfaces"]))
            self.assertEqual(status, 2, output)
            self.assertEqual(output.strip().splitlines()[-1],
                             "uroced: --wire-interfaces: uroce0 needs the capability CAP_NET_ADMIN")
        finally:
            lab.close()


if __name__ == "__main__":
    unittest.main()
