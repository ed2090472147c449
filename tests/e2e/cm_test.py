# SPDX-License-Identifier: Apache-2.0
"""Unmodified librdmacm with its programs: connections, datagrams, rsockets, and their ends."""
import os
import tempfile
import unittest

from cm_programs import LIBRSPRELOAD, ids, listens, rping, run_pair, two_sided
from lab import BUILD, LONG, VethLab, WireLab, next_port
from process import wait_until

CONNECTIONS = 1000 if LONG else 50
CM_STATES = BUILD / "tests" / "e2e" / "cm_states"
SOCKET_ECHO = BUILD / "tests" / "e2e" / "socket_echo"
DISCONNECTED, REJECTED = "RDMA_CM_EVENT_DISCONNECTED", "RDMA_CM_EVENT_REJECTED"
# States of a server and a client, and what each hears when the other one is killed, if anything.
KILLED_IN = (("listening", "bound", None, None),
             ("listening", "resolved", None, None),
             ("listening", "routed", None, None),
             ("requested", "connecting", None, REJECTED),
             ("accepted", "responded", REJECTED, REJECTED),
             ("established", "established", DISCONNECTED, DISCONNECTED))
UDADDY_PORT = 7174  # Its own: it has no flag for another.


class ConnectionManager:
    """What works on every lab."""

    @classmethod
    def setUpClass(cls):
        cls.lab = cls.make_lab()
        cls.addClassCleanup(cls.lab.close)

    def tearDown(self):
        # The programs are gone, and with them all that they had.
        wait_until(lambda: not ids(self.lab.a) and not ids(self.lab.b), "the end of all ids")

    def test_rping(self):
        for version, flags in ((4, ()), (6, ()), (4, ("-q",)), (4, ("-S", 4000))):
            with self.subTest(version=version, flags=flags):
                rping(self.lab, *flags, version=version)

    def test_rping_of_a_server_that_stays(self):
        rping(self.lab, persistent=True)

    def test_connections_migrate_and_carry_a_type_of_service(self):
        for version, flags in ((4, ("-c", CONNECTIONS // 5)), (6, ("-m",)), (4, ("-t", 0x68))):
            with self.subTest(version=version, flags=flags):
                two_sided(self.lab, "ucmatose", *flags, version=version)

    def test_datagrams(self):
        for version in (4, 6):
            with self.subTest(version=version):
                two_sided(self.lab, "udaddy", "-c", 3, version=version, port=UDADDY_PORT)

    def test_synchronous_ids(self):
        for server, client, *flags in (("rdma_server", "rdma_client"),
                                       ("rdma_xserver", "rdma_xclient", "-c", "r")):
            with self.subTest(server):
                port = next_port()
                run_pair(self.lab, [server, "-p", port, *flags],
                         [client, "-s", self.lab.a.address, "-p", port, *flags], port)

    def test_many_connections(self):
        two_sided(self.lab, "cmtime", "-c", CONNECTIONS, server_ends=False, timeout_s=120)

    def test_streams_over_rsockets(self):
        for test in ("v", "b", "n", "r"):
            with self.subTest(test):
                two_sided(self.lab, "rstream", "-T", test, "-S", 4096, "-C", 100, "-I", 1)
        two_sided(self.lab, "rstream", "-S", 65536, "-C", 20, "-I", 1, "-T", "v", version=6)

    def test_streams_of_remote_writes(self):
        two_sided(self.lab, "riostream", "-T", "v", "-S", 4096, "-C", 100, "-I", 1)

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


class WireTest(ConnectionManager, unittest.TestCase):
    @staticmethod
    def make_lab():
        return WireLab()

    def start_end(self, role, state, port):
        """An end of a connection that stays in a state."""
        program = self.lab.a.start(CM_STATES, role, state, self.lab.a.address, port)
        self.addCleanup(program.kill)
        return program

    def start_connection(self, server_state, client_state):
        """Its two ends, in these states."""
        port = next_port()
        server = self.start_end("server", server_state, port)
        wait_until(lambda: listens(self.lab.a, port), "a listener")
        client = self.start_end("client", client_state, port)
        for end, state in ((server, server_state), (client, client_state)):
            wait_until(lambda end=end, state=state: f"at {state}" in end.output(),
                       f"an end at {state}: {end.describe()}")
        return server, client

    def test_what_a_killed_program_had_ends_and_its_peer_learns_of_it(self):
        for *states, told_server, told_client in KILLED_IN:
            for victim, told in ((0, told_client), (1, told_server)):
                with self.subTest(states=states, killed=("server", "client")[victim]):
                    ends = self.start_connection(*states)
                    ends[victim].kill()
                    survivor = ends[1 - victim]
                    if told:
                        self.assertEqual(survivor.wait(30), 0, survivor.describe())
                        self.assertIn(told, survivor.output())
                    survivor.kill()
                    wait_until(lambda: not ids(self.lab.a), "the end of all ids")

    def test_a_program_outlives_its_daemon(self):
        lab = WireLab()
        self.addCleanup(lab.tear_down)
        program = lab.a.start(CM_STATES, "server", "listening", lab.a.address, next_port())
        self.addCleanup(program.kill)
        wait_until(lambda: "at listening" in program.output(), "a listener")
        lab.daemons[0].process.kill()
        self.assertEqual(program.wait(30), 0)
        self.assertIn("RDMA_CM_EVENT_DEVICE_REMOVAL", program.output())


@unittest.skipUnless(LONG, "the same over the wire inside is enough for every day")
class VethTest(ConnectionManager, unittest.TestCase):
    @staticmethod
    def make_lab():
        return VethLab(4200)


if __name__ == "__main__":
    unittest.main()
