# SPDX-License-Identifier: Apache-2.0
"""Two daemons find out whether both repeat lost packets alone, and notice when that changes."""
import contextlib
import unittest

from labs.capture import capturing
from labs.lab import Daemon, VethLab, WireLab, find_list, next_port
from labs.process import wait_until
from labs.programs import extended_pingpong, pingpong
from labs.roce import Packet, capabilities_of, read_capture

PORT = "name=uroce0,iface=eth0"
OFF = "selective-repeat=off"


class NegotiationLab(VethLab):
    """Either daemon can be started again with other words in its port."""

    def __init__(self):
        super().__init__(1500)

    def restart(self, host, *words):
        host.daemon.stop()
        self.daemons.remove(host.daemon)
        host.daemon = Daemon(host.namespace, f"{self.directory}/{host.address}",
                             ["--port", ",".join([PORT, *words])])
        self.daemons.append(host.daemon)
        host.forget_gids()


@contextlib.contextmanager
def connected(lab):
    """A connection that stands and works while the body runs."""
    port = next_port()

    def program(host):
        return ["ibv_rc_pingpong", "-d", host.device, "-g", host.gid_index(), "-p", port,
                "-n", 1 << 30]

    server = lab.a.start(*program(lab.a))
    client = None
    try:
        wait_until(lambda: lab.a.is_listening(server, port), "the server")
        client = lab.b.start(*program(lab.b), lab.server_address)
        for host in (lab.a, lab.b):
            wait_until(lambda host=host: states(host) == ["RTS"], f"a connection of {host.address}")
        yield
    finally:
        server.kill()
        if client:
            client.kill()


def queue_pairs(host):
    return [qp for qp in find_list(host.dump("qp")) if qp["device"] == host.device]


def states(host):
    return [qp["state"] for qp in queue_pairs(host)]


def recovery(host):
    return {qp["recovery"] for qp in queue_pairs(host)}


def peers(host):
    return [peer for peer in find_list(host.dump("peers")) if peer["device"] == host.device]


def agreed(host):
    return {peer["agreed"] for peer in peers(host)}


def await_recovery(host, name):
    wait_until(lambda: recovery(host) == {name}, f"{name} on {host.address}")


class NegotiationTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.lab = NegotiationLab()
        cls.addClassCleanup(cls.lab.close)

    def setUp(self):
        for host in (self.lab.a, self.lab.b):
            self.lab.restart(host)

    def test_both_agree_and_say_so(self):
        with connected(self.lab):
            for host, other in ((self.lab.a, self.lab.b), (self.lab.b, self.lab.a)):
                wait_until(lambda host=host: agreed(host) == {"selective-repeat"}, "agreement")
                await_recovery(host, "selective")
                peer = peers(host)[0]
                self.assertEqual((peer["local"], peer["remote"], peer["state"]),
                                 (host.address, other.address, "answers"))
                self.assertLess(peer["heard_ms_ago"], 60_000)
                self.assertEqual(peer["queue_pairs"], 1)

    def test_peer_restarted_without_it_is_noticed(self):
        with connected(self.lab):
            wait_until(lambda: agreed(self.lab.a) == {"selective-repeat"}, "agreement")
        self.lab.restart(self.lab.b, OFF)
        with connected(self.lab):
            wait_until(lambda: agreed(self.lab.a) == {""}, "the other instance's no")
            for host in (self.lab.a, self.lab.b):
                await_recovery(host, "go-back-n")
            self.assertEqual(peers(self.lab.b), [], "who does not offer it does not ask")
        self.lab.restart(self.lab.b)
        with connected(self.lab):
            for host in (self.lab.a, self.lab.b):
                wait_until(lambda host=host: agreed(host) == {"selective-repeat"}, "agreement")
                await_recovery(host, "selective")

    def test_extended_connections_agree_as_well(self):
        path = f"{self.lab.directory}/xrc.pcapng"
        with capturing(self.lab.a, path):
            extended_pingpong(self.lab)
        self.assertTrue(questions(path))


class NoNegotiationTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.lab = NegotiationLab()
        cls.addClassCleanup(cls.lab.close)
        cls.lab.restart(cls.lab.b, OFF)

    def test_peer_that_does_not_offer_it_is_asked_once_and_left_alone(self):
        path = f"{self.lab.directory}/off.pcapng"
        with capturing(self.lab.a, path):
            pingpong(self.lab, "-n", 1000)
            with connected(self.lab):
                wait_until(lambda: agreed(self.lab.a) == {""} and
                           peers(self.lab.a)[0]["state"] == "answers", "an answer")
        asked = questions(path)
        self.assertEqual({packet.source for packet in asked}, {self.lab.a.address})
        # Three tries, and the same again for a connection that comes much later on a slow machine.
        self.assertLessEqual(len(asked), 6)

    def test_datagrams_and_unreliable_connections_ask_no_peer(self):
        path = f"{self.lab.directory}/unreliable.pcapng"
        with capturing(self.lab.a, path):
            pingpong(self.lab, "-n", 10, service="ud")
            pingpong(self.lab, "-n", 10, service="uc")
        self.assertEqual(questions(path), [])


class OneDaemonTest(unittest.TestCase):
    """The NICs of one daemon ask each other as those of two do."""

    def agreed_over_a_wire(self, *words):
        lab = WireLab("--wire", "uroce2=10.1.0.1/24,uroce3=10.1.0.2/24" + "".join(words))
        try:
            lab.a.device, lab.b.device = "uroce2", "uroce3"
            lab.a.address, lab.b.address = "10.1.0.1", "10.1.0.2"
            with connected(lab):
                if words:
                    return {name for host in (lab.a, lab.b) for name in recovery(host)}
                for host in (lab.a, lab.b):
                    wait_until(lambda host=host: agreed(host) == {"selective-repeat"}, "agreement")
                    await_recovery(host, "selective")
                return {"selective"}
        finally:
            lab.close()

    def test_ends_of_a_wire_agree(self):
        self.assertEqual(self.agreed_over_a_wire(), {"selective"})

    def test_both_ends_of_a_wire_go_without(self):
        self.assertEqual(self.agreed_over_a_wire(f",{OFF}"), {"go-back-n"})


def questions(path):
    """Packets of a capture that ask for capabilities."""
    packets = filter(None, map(Packet.parse, read_capture(path)))
    return [packet for packet in packets if capabilities_of(packet) == "Get"]
