# SPDX-License-Identifier: Apache-2.0
"""Connections by librdmacm beside programs and peers that want to end them, or be the only ones."""
import ipaddress
import struct
import unittest

from cm.connection_ends_test import CM_STATES, Ends
from labs import roce
from labs.cm_programs import ids, listens, rping
from labs.lab import BUILD, LONG, VethLab, WireLab, next_port
from labs.process import Process, wait_until
from network.invalid_packets_test import Injector, mac_of

SEND_ONLY = 0x64
REQ = 0x0010
UNUSED_PORT = 9
FLOOD = BUILD / "tests" / "e2e" / "flood"
FLOOD_SECONDS = 600  # Until it is killed.
CONNECTIONS = 100 if LONG else 5
REQUESTS_PER_SECOND = 200_000
# More than the connection manager ever asks for at a time.
ABSENT_PEERS = 1500


def guid_of(mac):
    """The CA GUID of a device with this MAC."""
    part = bytearray(roce.mac(mac))
    part[0] ^= 2
    return bytes(part[:3]) + b"\xff\xfe" + bytes(part[3:])


def mapped(address):
    return bytes(10) + b"\xff\xff" + ipaddress.ip_address(address).packed


def gsi_packet(attribute, body):
    """A message of the connection manager from BTH on."""
    mad = struct.pack("!BBBBHHQHHI", 1, 7, 2, 3, 0, 0, 77, attribute, 0, 0) + body
    return roce.bth(SEND_ONLY, 1, 0) + struct.pack("!II", 0x80010000, 1) + mad.ljust(256, b"\0")


def request(source, destination, port, comm_id, guid, qpn):
    """A REQ as rdma_cm sends it."""
    body = bytearray(232)
    struct.pack_into("!I", body, 0, comm_id)
    struct.pack_into("!Q", body, 8, 0x1060000 | port)
    body[16:24] = guid
    struct.pack_into("!I", body, 32, qpn << 8 | 1)
    struct.pack_into("!I", body, 36, 1)
    body[43] = 20 << 3
    struct.pack_into("!I", body, 44, 0x123456 << 8 | 20 << 3 | 7)
    struct.pack_into("!H", body, 48, 0xffff)
    body[50], body[51] = 3 << 4 | 7, 15 << 4
    body[56:72], body[72:88] = mapped(source), mapped(destination)
    body[93], body[95] = 64, 19 << 3
    body[140:142] = b"\x00\x40"
    struct.pack_into("!H", body, 142, 50000)
    body[156:160] = ipaddress.ip_address(source).packed
    body[172:176] = ipaddress.ip_address(destination).packed
    return gsi_packet(REQ, bytes(body))


class ClaimsTest(Ends, unittest.TestCase):
    """Another program beside the victim, which names the victim's queue pair to its peer."""

    def setUp(self):
        self.lab = WireLab()
        self.addCleanup(self.lab.close)

    def test_a_program_cannot_name_the_queue_pair_of_another(self):
        victims = self.start_connection("established", "established")
        (qpn,) = [entry["qpn"] for entry in ids(self.lab.b) if entry["state"] == "ESTABLISHED" and
                  entry["remote"].startswith(f"{self.lab.a.address}:")][:1]
        port = next_port()
        self.start_end("server", "established", port)
        wait_until(lambda: listens(self.lab.a, port), "a listener")
        before = self.lab.a.dump("stat")["cm"]
        claimer = self.lab.b.start(CM_STATES, "client", "connecting", self.lab.a.address, port, qpn)
        self.addCleanup(claimer.kill)
        self.assertEqual(claimer.wait(30), 1, claimer.describe())
        self.assertIn("rdma_connect: Invalid argument", claimer.describe())
        after = self.lab.a.dump("stat")["cm"]
        self.assertEqual(after["req_sent"], before["req_sent"])
        self.assertEqual(after["stale"], before["stale"])
        for end in victims:
            self.assertTrue(end.running(), end.describe())


class HostilePeerTest(Ends, unittest.TestCase):
    """Frames out of the namespace of `b`, with what another host on the network may know or
    guess."""

    def setUp(self):
        self.lab = VethLab(1500)
        self.addCleanup(self.lab.close)
        self.injector = Injector(self.lab.b.namespace, self.lab.directory)
        self.macs = [mac_of(host.namespace) for host in (self.lab.b, self.lab.a)]

    def send_requests(self, requests):
        self.injector.send([roce.frame_v4(*self.macs, source, destination, transport)
                            for source, destination, transport in requests])

    def manager(self):
        return self.lab.a.dump("stat")["cm"]

    def test_requests_of_a_connected_queue_pair_leave_its_connection(self):
        server, client = self.start_connection("established", "established")
        (entry,) = [each for each in ids(self.lab.a) if each["state"] == "ESTABLISHED"]
        port = int(entry["local"].rsplit(":", 1)[1])
        before = self.manager()
        # Its peer's address, GUID and queue pair: an attacker who sees no packets can know no more.
        self.send_requests([("10.0.0.2", "10.0.0.1",
                             request("10.0.0.2", "10.0.0.1", port, 0x5000 + number,
                                     guid_of(self.macs[0]), entry["remote_qpn"]))
                            for number in range(200)])
        wait_until(lambda: self.manager()["stale"] == before["stale"] + 200, "all requests")
        # `b` has been asked, and knows the connection.
        wait_until(lambda: self.lab.b.dump("stat")["cm"]["wrong_state"] > 0, "the inquiry")
        for end in (server, client):
            self.assertTrue(end.running(), end.describe())
        # One claim at a time is asked about, four times at most, however many there are.
        self.assertIn(self.manager()["dreq_sent"] - before["dreq_sent"], range(1, 5))
        client.kill()
        self.expect(server, "RDMA_CM_EVENT_DISCONNECTED")

    def test_honest_peers_connect_beside_a_flood_of_requests(self):
        """From one address that is there, at the rate that the machine bears."""
        before = self.manager()
        frames = f"{self.lab.directory}/requests"
        with open(frames, "w", encoding="ascii") as file:
            for number in range(2048):
                packet = request("10.0.0.77", "10.0.0.1", UNUSED_PORT, 0x7000 + number, bytes(8),
                                 0x100 + number)
                frame = roce.frame_v4(*self.macs, "10.0.0.77", "10.0.0.1", packet)
                file.write(frame.hex() + "\n")
        flood = Process(self.lab.b.namespace.command([FLOOD, "eth0", frames, FLOOD_SECONDS,
                                                      REQUESTS_PER_SECOND]))
        self.addCleanup(flood.kill)
        wait_until(lambda: self.manager()["req_received"] > before["req_received"] + 10_000,
                   "the flood")
        for _ in range(CONNECTIONS):
            rping(self.lab, count=1)
        self.assertTrue(flood.running(), flood.describe())

    def test_requests_from_absent_peers_delay_no_other(self):
        self.lab.a.namespace.ip("addr", "add", "10.9.0.1/16", "dev", "eth0")
        wait_until(lambda: "10.9.0.1" in str(self.lab.a.dump("devices")), "the new address")
        before = self.manager()
        absent = [str(ipaddress.ip_address("10.9.1.0") + number) for number in range(ABSENT_PEERS)]
        self.send_requests([(source, "10.9.0.1",
                             request(source, "10.9.0.1", UNUSED_PORT, 0x6000, bytes(8), 0x77))
                            for source in absent])
        wait_until(lambda: self.manager()["no_listener"] == before["no_listener"] + ABSENT_PEERS,
                   "all requests")
        after = self.manager()
        self.assertEqual(after["rej_sent"], before["rej_sent"] + ABSENT_PEERS)
        self.assertEqual(after["send_queue_full"], before["send_queue_full"])
        self.assertEqual(after["no_neighbour"], before["no_neighbour"])
        asked = [line for line in self.lab.a.namespace.ip("neigh").splitlines() if "10.9." in line]
        self.assertEqual(asked, [], "who sent the frames gets the answers")
        rping(self.lab)


if __name__ == "__main__":
    unittest.main()
