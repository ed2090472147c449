# SPDX-License-Identifier: Apache-2.0
"""Programs of libfabric, over its verbs provider and what it builds above. They need addresses that
the kernel has too: without them they see endpoints, and have no address to listen at."""
import re
import unittest
from functools import partial

from labs.lab import WireLab, next_port
from labs.process import Failed, wait_until

KINDS = {"verbs": "msg", "verbs;ofi_rxm": "rdm"}
IS_DONE = re.compile(r"^1m +100 .*\n", re.MULTILINE)


def providers(host):
    """Pairs of provider and endpoint type that fi_info lists."""
    output = host.run("fi_info")
    return set(re.findall(r"^provider: (\S+)\n(?: .*\n)*? +type: (\S+)", output, re.MULTILINE))


def pingpong(lab, provider, address):
    """fi_pingpong, with data checked, between the hosts. It meets by TCP at `address`."""
    port = next_port()
    family = ["-6"] if ":" in address else []
    program = ["stdbuf", "-oL",
               "fi_pingpong", *family, "-p", provider, "-e", KINDS[provider], "-I", 100, "-c"]
    run = lab.run_pair if provider == "verbs" else partial(run_until_both_are_done, lab)
    outputs = run([*program, "-B", port], [*program, "-P", port, address], port)
    for output in outputs:
        if not IS_DONE.search(output):
            raise AssertionError(f"{provider} at {address}: {output}")


def run_until_both_are_done(lab, server_program, client_program, port):
    """Runs a pair until both have printed their last row, and returns what they said. How they end
    says nothing of the NIC: ofi_rxm destroys its queue pair when the peer has left, before it has
    polled all, and ibv_destroy_qp removes the CQEs of the queue pair, as it does with adapters
    (docs/protocol/verbs-semantics.md, section 6). Where the program had to wait for a CPU just
    then, ofi_rxm reports the last work request as flushed, or the program waits for the last
    message without an end."""
    programs = [lab.a.start(*server_program)]
    try:
        wait_until(lambda: not programs[0].running() or lab.a.is_listening(programs[0], port),
                   f"a listener on {port}", timeout_s=60)
        programs.append(lab.b.start(*client_program))
        for program in programs:
            wait_until(lambda: not program.running() or IS_DONE.search(program.output()),
                       f"all rows: {' '.join(program.command)}", timeout_s=60)
        return [program.output() for program in programs]
    except Failed as error:
        raise Failed("\n-- ".join([str(error), *(p.describe() for p in programs)])) from None
    finally:
        for program in programs:
            program.kill()


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
