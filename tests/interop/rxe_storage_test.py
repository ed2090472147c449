# SPDX-License-Identifier: Apache-2.0
"""The kernel's storage targets in the guest, and programs on uroce as their initiators: iSER, by
the lines of docs/guide/kernel-storage.md. tests/interop/build-storage-guest builds such a guest."""
import shutil
import unittest

from labs.process import run_status
from rxe_lab import RXE_ADDRESS, BridgeLab

PROGRAMS = {"iscsi-inq": "libiscsi-bin", "qemu-io": "qemu-utils", "qemu-img": "qemu-utils"}
BLOCK_DRIVER = "/usr/lib/x86_64-linux-gnu/qemu/block-iscsi.so"
URL = f"iser://{RXE_ADDRESS}:3260/iqn.2026-01.example:disk/0"
LOGINS = 30
# A disk of 64 MB in the guest's memory. libiscsi 1.19 announces data inside a request that it does
# not send, so the target asks for none.
TARGET = f"""set -e
target=/sys/kernel/config/target
disk=$target/core/rd_mcp_0/disk
group=$target/iscsi/iqn.2026-01.example:disk/tpgt_1
mkdir -p $disk
echo rd_pages=16384 >$disk/control
echo 1 >$disk/enable
mkdir -p $target/iscsi
mkdir -p $group
for attribute in authentication=0 demo_mode_write_protect=0 generate_node_acls=1 \\
    cache_dynamic_acls=1; do
  echo ${{attribute#*=}} >$group/attrib/${{attribute%=*}}
done
echo No >$group/param/ImmediateData
mkdir $group/lun/lun_0
ln -s $disk $group/lun/lun_0/disk
mkdir $group/np/{RXE_ADDRESS}:3260
echo 1 >$group/np/{RXE_ADDRESS}:3260/iser
echo 1 >$group/enable
"""


def missing_program():
    absent = {package for program, package in PROGRAMS.items() if not shutil.which(program)}
    if run_status(["test", "-e", BLOCK_DRIVER])[0]:
        absent.add("qemu-block-extra")
    return f"apt-get install {' '.join(sorted(absent))}" if absent else ""


class IserStorageTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        if reason := missing_program():
            raise unittest.SkipTest(reason)
        cls.lab = BridgeLab(9000)
        cls.addClassCleanup(cls.lab.close)
        if run_status(cls.lab.rxe.shell("test -d /sys/kernel/config/target"))[0]:
            raise unittest.SkipTest("the guest has no storage targets: "
                                    "tests/interop/build-storage-guest builds one that has")
        cls.lab.rxe.run("sh", "-c", TARGET)

    def commands(self, *commands):
        """qemu-io prints what went wrong, and its exit status says that something did."""
        words = [word for command in commands for word in ("-c", command)]
        output = self.lab.uroce.run("qemu-io", "-f", "raw", *words, URL)
        self.assertNotIn("failed", output)
        return output

    def counter(self, name):
        return self.lab.uroce.counters()[f"counters.{name}"]

    def test_blocks_are_read_as_they_were_written(self):
        before = self.counter("rx_read_requests"), self.counter("rx_write_requests")
        self.commands("write -P 0x5a 0 256k", "write -P 0xa5 64k 64k", "write -P 0x11 63M 4k")
        self.commands("read -P 0x5a 0 64k", "read -P 0xa5 64k 64k", "read -P 0x5a 128k 128k",
                      "read -P 0x11 63M 4k")
        # The target fetches the data of writes by RDMA READ, and delivers that of reads by WRITE.
        self.assertGreater(self.counter("rx_read_requests"), before[0])
        self.assertGreater(self.counter("rx_write_requests"), before[1])

    def test_many_requests_at_a_time(self):
        for write in ((), ("-w", "--pattern=7")):
            self.lab.uroce.run("qemu-img", "bench", *write, "-f", "raw", "-t", "none", "-c", 200,
                               "-d", 16, "-s", 65536, URL)
        self.commands("read -P 7 0 64k", "read -P 7 10M 128k")

    def test_logins_one_after_the_other(self):
        for number in range(LOGINS):
            with self.subTest(number=number):
                self.assertIn("DIRECT_ACCESS", self.lab.uroce.run("iscsi-inq", URL))


if __name__ == "__main__":
    unittest.main()
