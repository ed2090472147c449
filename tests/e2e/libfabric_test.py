# SPDX-License-Identifier: Apache-2.0
"""Programs of libfabric, over its verbs provider and what it builds above."""
import re
import unittest

from lab import WireLab, next_port
from process import run_status

KINDS = {"verbs": "msg", "verbs;ofi_rxm": "rdm", "verbs;ofi_rxd": "rdm"}


def providers(host, *flags):
    """Pairs of provider and endpoint type that fi_info lists."""
    output = host.run("fi_info", *flags)
    return set(re.findall(r"provider: (\S+)\n(?:.*\n)*?\s+type: (\S+)", output))


def pingpong(lab, provider, address):
    """fi_pingpong, with data checked, between the hosts. It meets by TCP at `address`."""
    port = next_port()
    program = ["fi_pingpong", "-p", provider, "-e", KINDS[provider], "-I", 100, "-c"]
    outputs = lab.run_pair([*program, "-B", port], [*program, "-P", port, address], port)
    for output in outputs:
        if not re.search(r"^1m\s+100\b", output, re.MULTILINE):
            raise AssertionError(f"{provider} at {address}: {output}")


class LibfabricTest(unittest.TestCase):
    """The kernel knows no address of the NICs."""

    @classmethod
    def setUpClass(cls):
        cls.lab = WireLab()
        cls.addClassCleanup(cls.lab.close)

    def test_endpoints_are_there_for_who_names_no_address(self):
        found = providers(self.lab.a)
        for wanted in (("verbs", "FI_EP_MSG"), ("verbs", "FI_EP_DGRAM"),
                       ("verbs;ofi_rxm", "FI_EP_RDM"), ("verbs;ofi_rxd", "FI_EP_RDM")):
            self.assertIn(wanted, found)

    def test_pingpong_by_loopback(self):
        for provider in ("verbs", "verbs;ofi_rxm"):
            for address in ("127.0.0.1", "::1"):
                with self.subTest(provider=provider, address=address):
                    pingpong(self.lab, provider, address)

    def test_an_address_of_a_nic_needs_tcp_there(self):
        status, _ = run_status(self.lab.b.verbs(
            "fi_pingpong", "-p", "verbs", "-P", next_port(), self.lab.a.address))
        self.assertNotEqual(status, 0)


class InterfacesTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.lab = WireLab("--wire-interfaces")
        cls.addClassCleanup(cls.lab.close)

    def test_pingpong_between_the_nics(self):
        for provider in ("verbs", "verbs;ofi_rxm"):
            for address in (self.lab.a.address, self.lab.a.address6):
                with self.subTest(provider=provider, address=address):
                    pingpong(self.lab, provider, address)


if __name__ == "__main__":
    unittest.main()
