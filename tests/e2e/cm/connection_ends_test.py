# SPDX-License-Identifier: Apache-2.0
"""How connections by librdmacm end: programs and daemons that are killed, interfaces that go, and
what is left of many of them."""
import unittest

from labs.cm_programs import ids, listens, rping, two_sided
from labs.killed_pairs import MortalLab, holdings_at_rest, wait_until_back
from labs.lab import BUILD, LONG, VethLab, WireLab, next_port
from labs.process import resident_kilobytes, wait_until
from ports.port_changes_test import TwoAddresses, second_ports, uroce

CM_STATES = BUILD / "tests" / "e2e" / "cm_states"
ADDRESS_CHANGE = "RDMA_CM_EVENT_ADDR_CHANGE"
DEVICE_REMOVAL = "RDMA_CM_EVENT_DEVICE_REMOVAL"
DISCONNECTED, REJECTED = "RDMA_CM_EVENT_DISCONNECTED", "RDMA_CM_EVENT_REJECTED"
# States of a server and a client, and what each hears when the other one is killed, if anything.
KILLED_IN = (("listening", "bound", None, None),
             ("listening", "resolved", None, None),
             ("listening", "routed", None, None),
             ("requested", "connecting", None, REJECTED),
             ("accepted", "responded", REJECTED, REJECTED),
             ("established", "established", DISCONNECTED, DISCONNECTED))
CONNECTIONS = 10_000 if LONG else 500
MOST_GROWTH_KB = 4096 + CONNECTIONS * 1  # What allocators keep.
FAULTS = "drop=0.1,duplicate=0.1,reorder=0.1"


class Ends:
    """On a lab: two ends of a connection, each in a state."""

    def start_end(self, role, state, port):
        host = self.lab.a if role == "server" else self.lab.b
        program = host.start(CM_STATES, role, state, self.lab.a.address, port)
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

    def expect(self, program, event):
        """What ended the program's stay in its state."""
        self.assertEqual(program.wait(30), 0, program.describe())
        self.assertIn(event, program.output())


class KilledProgramsTest(Ends, unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.lab = WireLab()
        cls.addClassCleanup(cls.lab.close)

    def test_what_a_killed_program_had_ends_and_its_peer_learns_of_it(self):
        for *states, told_server, told_client in KILLED_IN:
            for victim, told in ((0, told_client), (1, told_server)):
                with self.subTest(states=states, killed=("server", "client")[victim]):
                    ends = self.start_connection(*states)
                    ends[victim].kill()
                    survivor = ends[1 - victim]
                    if told:
                        self.expect(survivor, told)
                    survivor.kill()
                    wait_until(lambda: not ids(self.lab.a), "the end of all ids")


class ManyConnectionsTest(unittest.TestCase):
    def setUp(self):
        self.lab = MortalLab("--workers", "1")
        self.addCleanup(self.lab.tear_down)

    def open_all_at_once_and_close_them(self):
        two_sided(self.lab, "cmtime", "-c", CONNECTIONS, server_ends=False, timeout_s=300)

    def test_nothing_is_left_of_them(self):
        self.open_all_at_once_and_close_them()  # What the daemon takes once and keeps.
        before = holdings_at_rest(self.lab)
        resident = resident_kilobytes(self.lab.daemons[0].process.pid)
        self.open_all_at_once_and_close_them()
        wait_until(lambda: not ids(self.lab.a), "the end of all ids")
        wait_until_back(self.lab, before)
        growth = resident_kilobytes(self.lab.daemons[0].process.pid) - resident
        print(f"   {CONNECTIONS} connections: {growth} KB more resident", flush=True)
        self.assertLess(growth, MOST_GROWTH_KB)


class DeadDaemonTest(Ends, unittest.TestCase):
    def test_a_program_outlives_its_daemon(self):
        self.lab = WireLab()
        self.addCleanup(self.lab.tear_down)
        program = self.start_end("server", "listening", next_port())
        wait_until(lambda: "at listening" in program.output(), "a listener")
        self.lab.daemons[0].process.kill()
        self.expect(program, DEVICE_REMOVAL)


class InterfaceTest(Ends, unittest.TestCase):
    """Beside the kernel: its interface is changed, and taken away."""

    def setUp(self):
        self.lab = VethLab(4200)
        self.addCleanup(self.lab.close)

    def test_another_mac_and_the_end_of_an_interface_are_told(self):
        listener = self.start_end("server", "listening", next_port())
        wait_until(lambda: "at listening" in listener.output(), "a listener")
        self.lab.a.namespace.ip("link", "set", "eth0", "address", "02:00:00:00:77:01")
        self.expect(listener, ADDRESS_CHANGE)
        ends = self.start_connection("established", "established")
        self.lab.b.namespace.ip("link", "del", "eth0")  # And with it the other end of the pair.
        for end in ends:
            self.expect(end, DEVICE_REMOVAL)


class RemovedPortTest(Ends, unittest.TestCase):
    """Of two ports of a daemon one goes: its ids are told, those of the other one stay."""

    def test_ids_of_the_port_alone_are_told(self):
        first = TwoAddresses()
        self.addCleanup(first.close)
        first.add()
        self.lab = first
        staying = self.start_connection("established", "established")
        self.lab = second_ports(first)
        for state in ("listening", "established"):
            with self.subTest(state):
                if state == "established":
                    server, client = self.start_connection(state, state)
                else:
                    server, client = self.start_end("server", state, next_port()), None
                    wait_until(lambda program=server: "at listening" in program.output(),
                               "a listener")
                uroce(first.a, "port", "remove", "uroce1")
                self.expect(server, DEVICE_REMOVAL)
                if client:
                    self.assertTrue(client.running(), "peers are told nothing")
                    client.kill()
                uroce(first.a, "port", "add", *first.spec(first.a))
                rping(self.lab)
        for end in staying:  # All are asked before one is killed: its peer would learn of that.
            self.assertTrue(end.running(), end.describe())
        for end in staying:
            end.kill()


if LONG:
    class FaultyWireTest(unittest.TestCase):
        """A tenth of all frames is lost, a tenth comes twice, a tenth too late. Messages of the
        connection manager are repeated after seconds."""

        def test_connections_complete(self):
            lab = WireLab("--fault", f"uroce0:{FAULTS},seed=1",
                          "--fault", f"uroce1:{FAULTS},seed=2")
            self.addCleanup(lab.close)
            two_sided(lab, "ucmatose", "-c", 20, timeout_s=200)
            two_sided(lab, "cmtime", "-c", 200, server_ends=False, timeout_s=200)
            wait_until(lambda: not ids(lab.a), "the end of all ids", timeout_s=120)


if __name__ == "__main__":
    unittest.main()
