# SPDX-License-Identifier: Apache-2.0
"""The options of rdma-core's examples: each changes the way through the verbs."""
import unittest

from labs.lab import WireLab
from labs.programs import extended_pingpong, pingpong

ITERATIONS = 100
# Without -e -t together: that way ibv_rc_pingpong takes an event whose completion it has polled
# with the one before, which any device may send, for an error ("poll CQ failed 2").
OPTIONS = {
    "rc": (("-e",), ("-t",), ("-N",), ("-N", "-e"), ("-o",), ("-o", "-P"), ("-O",),
           ("-O", "-P"), ("-j",), ("-N", "-j"), ("-m", 256), ("-m", 4096), ("-l", 3), ("-r", 1),
           ("-s", 1), ("-s", 1000000)),
    "uc": (("-e",), ("-m", 4096), ("-l", 3), ("-s", 1)),
    "ud": (("-e",), ("-l", 3), ("-s", 1), ("-s", 4096)),
    "srq": (("-e",), ("-o",), ("-q", 1), ("-q", 50), ("-m", 4096), ("-l", 3), ("-s", 1)),
}
EXTENDED_OPTIONS = (("-e",), ("-m", 4096), ("-l", 3), ("-s", 1), ("-c", 1))


class PingpongOptionsTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.lab = WireLab()
        cls.addClassCleanup(cls.lab.close)

    def test_options_of_every_service(self):
        for service, sets in OPTIONS.items():
            for flags in sets:
                with self.subTest(service, flags=flags):
                    # Of device memory it cannot look at the bytes.
                    check = () if "-j" in flags else ("-c",)
                    pingpong(self.lab, *check, "-n", ITERATIONS, *flags, service=service)

    def test_options_of_extended_connections(self):
        for flags in EXTENDED_OPTIONS:
            with self.subTest(flags=flags):
                extended_pingpong(self.lab, "-n", ITERATIONS, *flags)

    def test_devinfo_tells_all(self):
        text = self.lab.a.run("ibv_devinfo", "-v", "-d", "uroce0")
        for line in ("transport:\t\t\tInfiniBand", "PORT_ACTIVE", "link_layer:\t\tEthernet",
                     "::ffff:10.0.0.1, RoCE v2", "completion timestamp_mask:\t\t\t0xffff"):
            self.assertIn(line, text)


if __name__ == "__main__":
    unittest.main()
