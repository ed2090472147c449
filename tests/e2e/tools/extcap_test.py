# SPDX-License-Identifier: Apache-2.0
"""uroce's devices in Wireshark's own list of interfaces, by tshark."""
import os
import re
import unittest

from labs.lab import BUILD, UROCE, WireLab
from labs.process import Process, run, run_status, wait_until
from labs.programs import pingpong
from labs.roce import read_capture

EXTCAP = BUILD / "tools" / "uroce-extcap"


class ExtcapTest(unittest.TestCase):
    """Root's Wireshark looks into one folder of the system only; here another one is mounted over
    it, in a mount namespace of each command."""

    @classmethod
    def setUpClass(cls):
        cls.lab = WireLab()
        cls.addClassCleanup(cls.lab.close)
        cls.folder = f"{cls.lab.directory}/extcap"
        os.mkdir(cls.folder)
        os.symlink(EXTCAP, f"{cls.folder}/uroce-extcap")
        folders = run(["tshark", "-G", "folders"])
        cls.system_folder = re.search(r"(?im)^(?:global )?extcap path:\s*(\S+)", folders).group(1)

    def in_folder(self, *words, socket=None):
        """A command for which uroce-extcap is in Wireshark's folder."""
        return self.lab.a.namespace.command(
            ["env", f"UROCE_SOCKET={socket or self.lab.a.daemon.socket}",
             f"HOME={self.lab.directory}", "unshare", "--mount", "sh", "-c",
             f"mount --bind {self.folder} {self.system_folder} && exec \"$@\"", "sh", *words])

    def tshark_captures(self, *flags):
        """What tshark, capturing by itself, prints of ten packets of a pingpong."""
        path = f"{self.lab.directory}/tshark.pcapng"
        capture = Process(self.in_folder("tshark", "-i", "uroce0", "-c", 10, "-w", path, *flags))
        try:
            # tshark says that it captures before its child, which runs uroce-extcap, does.
            while capture.running():
                pingpong(self.lab, "-n", 10)
            capture.expect_success(30)
        finally:
            capture.kill()
        return run(["tshark", "-r", path, "--disable-protocol", "rpcordma", "-T", "fields", "-e",
                    "frame.cap_len", "-e", "ip.src", "-e", "frame.packet_flags_direction", "-e",
                    "_ws.col.Protocol"])

    def test_tshark_lists_the_devices(self):
        output = run(self.in_folder("tshark", "-D"))
        for name in ("uroce0", "uroce1", "uroce"):
            self.assertRegex(output, rf"(?m)^\d+\. {name} \(.*RoCEv2 NICs? of uroced")

    def test_tshark_captures_on_a_device_with_a_filter(self):
        output = self.tshark_captures("-f", "src host 10.0.0.2")
        rows = [line.split("\t") for line in output.splitlines() if "\t" in line]
        self.assertEqual(len(rows), 10, output)
        self.assertEqual({(row[1], row[3]) for row in rows}, {("10.0.0.2", "RRoCE")})

    def test_options_of_a_capture_are_wiresharks_preferences(self):
        output = self.tshark_captures("-o", "extcap.uroce0.snaplength:80",
                                      "-o", "extcap.uroce0.direction:out")
        rows = [line.split("\t") for line in output.splitlines() if "\t" in line]
        self.assertEqual(len(rows), 10, output)
        self.assertLessEqual(max(int(row[0]) for row in rows), 80)
        self.assertEqual({int(row[2], 0) for row in rows}, {2})

    def test_options_are_those_that_a_capture_takes(self):
        options = run([EXTCAP, "--extcap-config", "--extcap-interface", "uroce0"])
        flags = set(re.findall(r"\{call=(--[a-z-]+)\}", options))
        self.assertEqual(flags, {"--snap-length", "--direction", "--only", "--socket"})
        kinds = ",".join(re.findall(r"value \{arg=2\}\{value=(\w+)\}", options))
        path = f"{self.lab.directory}/only.pcapng"
        capture = Process(self.in_folder(EXTCAP, "--capture", "--extcap-interface", "uroce0",
                                         "--fifo", path, "--only", kinds))
        try:
            wait_until(lambda: os.path.exists(path) and os.path.getsize(path), "the capture")
            pingpong(self.lab, "-n", 10)
            self.assertEqual(capture.stop(), 0, capture.output())
        finally:
            capture.kill()
        # Nothing was dropped, sent again or marked.
        self.assertEqual(list(read_capture(path)), [])
        self.assertEqual(capture.output(), "")

    def test_without_a_daemon_nothing_is_listed_and_nothing_fails(self):
        socket = f"{self.lab.directory}/none.sock"
        status, output = run_status(self.in_folder("tshark", "-D", socket=socket))
        self.assertEqual(status, 0, output)
        self.assertNotIn("RoCEv2", output)
        self.assertNotIn("uroce-extcap:", output)

    def test_filter_is_checked_without_a_capture(self):
        for text, is_good in (("udp and host 10.0.0.1", True), ("udp and", False), ("", True)):
            output = run([EXTCAP, "--extcap-interface", "uroce0", "--extcap-capture-filter", text])
            self.assertEqual(output == "", is_good, output)

    def test_capture_on_an_unknown_device_is_one_line(self):
        status, output = run_status(self.in_folder(
            EXTCAP, "--capture", "--extcap-interface", "none0", "--fifo", "/dev/null"))
        self.assertEqual(status, 1)
        self.assertEqual(len(output.splitlines()), 1, output)
        self.assertIn("none0", output)

    def test_install_links_into_wiresharks_folder_and_remove_takes_it_away(self):
        os.unlink(f"{self.folder}/uroce-extcap")
        try:
            link, dissector = run(self.in_folder(UROCE, "extcap", "--install")).split()
            self.assertEqual(link, f"{self.system_folder}/uroce-extcap")
            self.assertTrue(dissector.startswith(self.lab.directory), dissector)
            self.assertTrue(os.path.samefile(dissector, UROCE.parent / "uroce.lua"))
            self.assertTrue(os.path.samefile(f"{self.folder}/uroce-extcap", EXTCAP))
            self.assertEqual(run(self.in_folder(UROCE, "extcap")).strip(), link)
            run(self.in_folder(UROCE, "extcap", "--remove"))
            self.assertEqual(os.listdir(self.folder), [])
            self.assertFalse(os.path.lexists(dissector))
            status, _ = run_status(self.in_folder(UROCE, "extcap"))
            self.assertEqual(status, 1)
        finally:
            if not os.path.lexists(f"{self.folder}/uroce-extcap"):
                os.symlink(EXTCAP, f"{self.folder}/uroce-extcap")
