# SPDX-License-Identifier: Apache-2.0
"""Programs of libfabric, over its verbs provider and what it builds above. They need addresses that
the kernel has too: without them they see endpoints, and have no address to listen at."""
import re
import unittest

from labs.lab import WireLab, next_port

KINDS = {"verbs": "msg", "verbs;ofi_rxm": "rdm"}


def providers(host):
    """Pairs of provider and endpoint type that fi_info lists."""
    output = host.run("fi_info")
    return set(re.findall(r"^provider: (\S+)\n(?: .*\n)*? +type: (\S+)", output, re.MULTILINE))


def pingpong(lab, provider, address):
    """fi_pingpong, with data checked, between the hosts. It meets by TCP at `address`."""
    port = next_port()
    family = ["-6"] if ":" in address else []
    program = ["fi_pingpong", *family, "-p", provider, "-e", KINDS[provider], "-I", 100, "-c"]
    outputs = lab.run_pair([*program, "-B", port], [*program, "-P", port, address], port)
    for output in outputs:
        if not re.search(r"^1m +100 ", output, re.MULTILINE):
            raise AssertionError(f"{provider} at {address}: {output}")


class Endpoints:
    """What the tests share."""

    flags = ()

    @classmethod
    def setUpClass(cls):
        cls.lab = WireLab(*cls.flags)
        cls.addClassCleanup(cls.lab.close)
        cls.lab.a.dump("devices")  # Answered once the interfaces are there.

    def test_endpoints_are_there_for_who_names_no_address(self):
        found = providers(self.lab.a)
        for wanted in (("verbs", "FI_EP_MSG"), ("verbs", "FI_EP_DGRAM"),
                       ("verbs;ofi_rxm", "FI_EP_RDM")):
            self.assertIn(wanted, found)


class LibfabricTest(Endpoints, unittest.TestCase):
    """The kernel knows no address of the NICs."""


class LibfabricWithInterfacesTest(Endpoints, unittest.TestCase):
    flags = ("--wire-interfaces",)

    def test_pingpong_between_the_nics(self):
        for provider in KINDS:
            for address in (self.lab.a.address, self.lab.a.address6):
                with self.subTest(provider=provider, address=address):
                    pingpong(self.lab, provider, address)

    def test_pingpong_by_loopback(self):
        for provider in KINDS:
            for address in ("127.0.0.1", "::1"):
                with self.subTest(provider=provider, address=address):
                    pingpong(self.lab, provider, address)


if __name__ == "__main__":
    unittest.main()
