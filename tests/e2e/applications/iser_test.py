# SPDX-License-Identifier: Apache-2.0
"""iSER in user space: tgtd is the target on one NIC, libiscsi's and QEMU's programs are initiators
on the other one, by the lines of docs/guide/kernel-storage.md."""
import shutil
import unittest

from labs.lab import LONG, WireLab, next_port
from labs.process import run, run_status, wait_until

PROGRAMS = {"tgtd": "tgt", "tgtadm": "tgt", "iscsi-inq": "libiscsi-bin", "qemu-io": "qemu-utils"}
BLOCK_DRIVER = "/usr/lib/x86_64-linux-gnu/qemu/block-iscsi.so"
NAME = "iqn.2026-01.example:disk"
# tgtd 1.0.85 wants the initiator's address and its name on its lists.
INITIATORS = ("iqn.2007-10.com.github:sahlberg:libiscsi:iscsi-inq", "iqn.2008-11.org.linux-kvm")
DISK_BYTES = 64 << 20
LOGINS = 300 if LONG else 30


def missing():
    """What there is not, to run target and initiators; empty when all is there."""
    absent = {package for program, package in PROGRAMS.items() if not shutil.which(program)}
    if run_status(["test", "-e", BLOCK_DRIVER])[0]:
        absent.add("qemu-block-extra")
    return f"apt-get install {' '.join(sorted(absent))}" if absent else ""


class IserTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        if reason := missing():
            raise unittest.SkipTest(reason)
        cls.lab = WireLab()
        cls.addClassCleanup(cls.lab.close)
        cls.disk = f"{cls.lab.directory}/disk"
        with open(cls.disk, "wb") as file:
            file.truncate(DISK_BYTES)
        cls.control = ("env", f"TGT_IPC_SOCKET={cls.lab.directory}/tgtd")
        cls.tgtd = cls.lab.a.start(*cls.control, "tgtd", "-f", "--iser", "pool_sz_mb=64",
                                   "--iscsi", f"portal=127.0.0.1:{next_port()}")
        cls.addClassCleanup(cls.tgtd.kill)
        wait_until(lambda: not run_status([*cls.control, "tgtadm", "--op", "show", "--mode",
                                           "sys"])[0], "tgtd")
        cls.tell("new", "target", "-T", NAME)
        cls.tell("new", "logicalunit", "--lun", "1", "-b", cls.disk)
        cls.tell("bind", "target", "-I", "ALL")
        for name in INITIATORS:
            cls.tell("bind", "target", "-Q", name)
        cls.url = f"iser://{cls.lab.a.address}:3260/{NAME}/1"

    @classmethod
    def tell(cls, operation, mode, *words):
        run([*cls.control, "tgtadm", "--lld", "iser", "--op", operation, "--mode", mode, "--tid",
             "1", *words])

    def commands(self, *commands):
        """qemu-io prints what went wrong, and its exit status says that something did."""
        words = [word for command in commands for word in ("-c", command)]
        output = self.lab.b.run("qemu-io", "-f", "raw", *words, self.url)
        self.assertNotIn("failed", output)

    def test_blocks_are_read_as_they_were_written(self):
        self.commands("write -P 0x5a 0 256k", "write -P 0xa5 64k 64k", "write -P 0x11 63M 4k")
        self.commands("read -P 0x5a 0 64k", "read -P 0xa5 64k 64k", "read -P 0x5a 128k 128k",
                      "read -P 0x11 63M 4k")
        with open(self.disk, "rb") as file:
            written = file.read(256 << 10)
        self.assertEqual(written, b"\x5a" * (64 << 10) + b"\xa5" * (64 << 10) +
                         b"\x5a" * (128 << 10))

    def test_logins_one_after_the_other(self):
        for number in range(LOGINS):
            with self.subTest(number=number):
                self.assertIn("DIRECT_ACCESS", self.lab.b.run("iscsi-inq", self.url))
        self.assertTrue(self.tgtd.running(), self.tgtd.describe())


if __name__ == "__main__":
    unittest.main()
