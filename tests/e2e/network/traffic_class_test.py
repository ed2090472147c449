# SPDX-License-Identifier: Apache-2.0
"""The DSCP that programs ask for is on the wire, and ECT(0) where their priority has a profile."""
import unittest

from labs.capture import capturing, tshark
from labs.cm_programs import perftest_by_cm
from labs.lab import WireLab, next_port

OFF, ON = 3, 5  # Priorities without and with a profile.
CNP = 0x81
READ = range(0x0C, 0x11)  # Requests and responses.
CNP_DSCP = 48


class TrafficClassTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        # Every frame of uroce1 arrives with a mark.
        cls.lab = WireLab("--fault", "uroce0:ce=1", keys=["cc=dcqcn", f"cc.{OFF}=off"])
        cls.addClassCleanup(cls.lab.close)

    def by_sockets(self, tool, *flags):
        port = next_port()
        words = [tool, "-x", self.lab.a.gid_index(), "-p", port, "-F", "-n", 20, *flags]
        self.lab.run_pair([*words, "-d", "uroce0"],
                          [*words, "-d", "uroce1", self.lab.server_address], port, timeout_s=120)

    def classes(self, run_programs, opcodes=()):
        """Of what both NICs send meanwhile, of these opcodes: (DSCP, ECN, whether it is a CNP)."""
        path = f"{self.lab.directory}/classes.pcapng"
        with capturing(self.lab.a, path):
            run_programs()
        fields = ("ip.dsfield.dscp", "ip.dsfield.ecn", "infiniband.bth.opcode",
                  "infiniband.bth.destqp")
        # What leaves; the same frames arrive with their marks.
        words = [word for field in fields for word in ("-e", field)]
        lines = tshark(path, "-Y", "frame.packet_flags_direction == 2 && infiniband", "-T",
                       "fields", *words).splitlines()
        seen = set()
        for line in lines:
            dscp, ecn, opcode, qpn = line.split("\t")
            if opcodes and int(opcode, 0) not in opcodes:
                continue
            if int(qpn, 0) != 1:  # Of the connection manager.
                seen.add((int(dscp, 0), int(ecn, 0), int(opcode, 0) == CNP))
        return seen

    def test_a_class_of_modify_qp_is_kept(self):
        seen = self.classes(lambda: self.by_sockets("ib_write_bw", f"--tclass={ON << 5 | 4 << 2}"))
        self.assertEqual(seen, {(ON << 3 | 4, 2, False), (CNP_DSCP, 2, True)})

    def test_a_priority_that_is_off_has_neither_marks_nor_notifications(self):
        seen = self.classes(lambda: self.by_sockets("ib_write_bw", f"--tclass={OFF << 5 | 2 << 2}"))
        self.assertEqual(seen, {(OFF << 3 | 2, 0, False)})

    def test_ecn_bits_of_a_program_are_kept_where_its_priority_is_off(self):
        seen = self.classes(lambda: self.by_sockets("ib_write_bw", f"--tclass={OFF << 5 | 1}"))
        self.assertEqual(seen, {(OFF << 3, 1, False)})

    def test_datagrams_keep_their_class(self):
        seen = self.classes(lambda: self.by_sockets("ib_send_lat", "-c", "UD",
                                                    f"--tclass={ON << 5}"))
        self.assertEqual(seen, {(ON << 3, 2, False), (CNP_DSCP, 2, True)})

    def test_a_type_of_service_of_rdma_cm_is_kept(self):
        # By both ends: the client asks for it. perftest's first connection, to talk, has none.
        seen = self.classes(lambda: perftest_by_cm(self.lab, "ib_read_bw", "-n", 20,
                                                   f"--tos={ON << 5}"), {*READ, CNP})
        self.assertEqual(seen, {(ON << 3, 2, False), (CNP_DSCP, 2, True)})


if __name__ == "__main__":
    unittest.main()
