# SPDX-License-Identifier: Apache-2.0
"""What the standard reserves is 0 in all that goes to a peer that has agreed to nothing."""
import unittest

from labs.capture import capturing
from labs.lab import VethLab
from labs.programs import data_check, extended_pingpong, pingpong, seed
from labs.roce import Packet, read_capture, reserved_bits


class ReservedBitsLab(VethLab):
    """Of the two daemons the first offers selective repeat, and the second does not."""

    def _add_daemon(self, namespace, *arguments):
        words = list(arguments)
        if self.daemons:
            words[1] += ",selective-repeat=off"
        return super()._add_daemon(namespace, *words)


class ReservedBitsTest(unittest.TestCase):
    def packets_of(self, talk, *arguments):
        """What two daemons send while `talk` lets programs of a lab talk; all is as it must be."""
        lab = ReservedBitsLab(1500, *arguments)
        self.addCleanup(lab.tear_down)
        path = f"{lab.directory}/all.pcapng"
        with capturing(lab.a, path):
            talk(lab)
        packets = list(filter(None, map(Packet.parse, read_capture(path))))
        lab.close()
        complaints = {complaint for packet in packets for complaint in reserved_bits(packet)}
        self.assertEqual(complaints, set())
        return packets

    def test_all_are_zero_in_every_service(self):
        def talk(lab):
            data_check(lab, "--seed", seed(), "--ops", 500)
            data_check(lab, "--seed", seed(), "--ops", 200, version=6)
            extended_pingpong(lab)
            pingpong(lab, "-n", 10, service="uc")
            pingpong(lab, "-n", 10, service="ud")

        packets = self.packets_of(talk)
        self.assertLessEqual(OPCODES, {packet.opcode for packet in packets})
        self.assertEqual({packet.version for packet in packets}, {4, 6})

    def test_all_are_zero_under_loss(self):
        number = seed()
        print(f"   faults with seed {number}", flush=True)
        packets = self.packets_of(lambda lab: data_check(lab, "--seed", number, "--ops", 250),
                                  "--fault", f"uroce0:drop=0.02,reorder=0.01,seed={number}")
        syndromes = {packet.frame[packet.bth + 12] for packet in packets if packet.opcode == 0x11}
        self.assertIn(NAK_SEQUENCE, syndromes, "nothing was lost")


# SEND, WRITE, READ, atomics and their answers, XRC, UC and UD.
OPCODES = {0x04, 0x0A, 0x0C, 0x10, 0x11, 0x12, 0x13, 0x14, 0xA0, 0xA2, 0xB1, 0x20, 0x22, 0x64}
NAK_SEQUENCE = 0x60
