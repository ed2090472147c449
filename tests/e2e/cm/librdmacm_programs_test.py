# SPDX-License-Identifier: Apache-2.0
"""What else connects by librdmacm: programs of sockets over rsockets, perftest, fio, UCX."""
import os
import tempfile
import unittest

from labs.cm_programs import (LIBRSPRELOAD, build_ucx_example, connect_on_one_host, fio, ids,
                             listens, perftest_by_cm, run_pair, two_sided, ucx)
from labs.lab import BUILD, LONG, VethLab, WireLab, next_port
from labs.memif_lab import MemifLab
from labs.process import wait_until

SOCKET_ECHO = BUILD / "tests" / "e2e" / "socket_echo"
POLLHUP = 16
TOOLS = ("send", "write", "read", "atomic")


class Tools:
    """What works on every lab."""

    @classmethod
    def setUpClass(cls):
        cls.lab = cls.make_lab()
        cls.addClassCleanup(cls.lab.close)

    def tearDown(self):
        wait_until(lambda: not ids(self.lab.a) and not ids(self.lab.b), "the end of all ids")

    def test_streams_of_all_kinds(self):
        for test in ("b", "n", "r"):  # Blocking or not, or resolved by librdmacm.
            with self.subTest(test):
                two_sided(self.lab, "rstream", "-T", test, "-S", 4096, "-C", 100, "-I", 1)
        two_sided(self.lab, "riostream", "-T", "v", "-S", 4096, "-C", 100, "-I", 1)

    def test_streams_that_poll(self):
        # The side that receives last takes the other's hang-up behind its last data for a failure,
        # if it sees both at once; the server sends last.
        port = next_port()
        flags = ["-b", self.lab.a.address, "-p", port, "-T", "a", "-S", 4096, "-C", 100, "-I", 1]
        server = self.lab.a.start("rstream", *flags)
        self.addCleanup(server.kill)
        wait_until(lambda: listens(self.lab.a, port), "a listener")
        client = self.lab.b.start("rstream", "-s", self.lab.a.address, *flags[2:])
        self.addCleanup(client.kill)
        self.assertIn("custom", server.expect_success(60))
        self.assertIn(client.wait(60), (0, POLLHUP), client.describe())

    def test_files_are_copied_whole(self):
        port = next_port()
        with tempfile.TemporaryDirectory() as directory:
            source, copy = os.path.join(directory, "source"), os.path.join(directory, "copy")
            with open(source, "wb") as file:
                file.write(os.urandom(3_000_001))
            run_pair(self.lab, ["rcopy", "-p", port],
                     ["rcopy", source, f"{self.lab.a.address}:{copy}", "-p", port], port,
                     server_ends=False)
            with open(source, "rb") as one, open(copy, "rb") as other:
                self.assertEqual(one.read(), other.read())

    def test_socket_programs_over_rsockets(self):
        port = next_port()
        # Beside what `uroce run` preloads.
        over = ["sh", "-c", f'LD_PRELOAD="$LD_PRELOAD:{LIBRSPRELOAD}" exec "$@"', "sh",
                SOCKET_ECHO, port]
        _, said = run_pair(self.lab, over, [*over, self.lab.a.address], port)
        self.assertEqual(said.strip(), "over rsockets")

    def test_perftest(self):
        tools = [f"ib_{tool}_{kind}" for tool in TOOLS for kind in ("bw", "lat")]
        for tool in tools if LONG else ("ib_write_bw", "ib_send_lat"):
            with self.subTest(tool):
                perftest_by_cm(self.lab, tool, "-n", 200)

    def test_fio(self):
        for verb in ("write", "read", "send"):
            with self.subTest(verb):
                fio(self.lab, verb)

    def test_ucx(self):
        with tempfile.TemporaryDirectory() as directory:
            example = build_ucx_example(directory)
            ucx(self.lab, example, "tag")
            for kind in ("stream", "am"):
                with self.subTest(kind):
                    ucx(self.lab, example, kind, "UCX_TLS=rc_v")


class WireToolsTest(Tools, unittest.TestCase):
    @staticmethod
    def make_lab():
        return WireLab()

    def test_loopback_leads_to_who_listens_on_the_host(self):
        for at, to in (("127.0.0.1", "127.0.0.1"), (self.lab.a.address, "127.0.0.1"),
                       (self.lab.b.address, "127.0.0.1"), ("0.0.0.0", "127.0.0.1"),
                       ("127.0.0.1", self.lab.b.address), ("::1", "::1")):
            with self.subTest(at=at, to=to):
                connect_on_one_host(self.lab, at, to)


if LONG:
    class MemifToolsTest(Tools, unittest.TestCase):
        """Ports that are their own hosts."""

        @staticmethod
        def make_lab():
            return MemifLab()

    class VethToolsTest(Tools, unittest.TestCase):
        """Beside the kernel."""

        @staticmethod
        def make_lab():
            return VethLab(4200)


if __name__ == "__main__":
    unittest.main()
