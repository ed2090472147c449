# SPDX-License-Identifier: Apache-2.0
"""The verbs surface beside queue pairs, and programs that reach it in other ways than by linking:
files of devices, dlopen, other namespaces and users; programs that cannot be served."""
import os
import unittest
from pathlib import Path

from lab import WireLab, run, run_status

SURFACE = Path(__file__).parent / "surface"
PYTHON = "/usr/bin/python3"  # For which Debian has pyverbs.

# What NCCL does: the functions come from a handle, and the library was not linked.
BY_DLOPEN = """
import ctypes
library = ctypes.CDLL("libibverbs.so.1")
assert "liburoce" in open("/proc/self/maps").read()
count = ctypes.c_int()
library.ibv_get_device_list.restype = ctypes.POINTER(ctypes.c_void_p)
library.ibv_get_device_name.restype = ctypes.c_char_p
devices = library.ibv_get_device_list(ctypes.byref(count))
print(*[library.ibv_get_device_name(ctypes.c_void_p(devices[i])).decode()
        for i in range(count.value)])
"""


class SurfaceTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.lab = WireLab()
        cls.addClassCleanup(cls.lab.tear_down)

    @classmethod
    def tearDownClass(cls):
        cls.lab.close()

    def run_script(self, name):
        return self.lab.a.run(PYTHON, SURFACE / name, "uroce0", "uroce1")

    def test_regions_change_come_on_demand_and_lie_in_device_memory(self):
        self.assertIn("regions: right", self.run_script("regions.py"))

    def test_windows_grant_what_they_are_bound_to_and_no_longer(self):
        self.assertIn("windows: right", self.run_script("windows.py"))

    def test_processes_share_a_protection_domain_and_its_regions(self):
        self.assertIn("share: right", self.run_script("share.py"))

    def test_files_of_devices_are_at_their_usual_places(self):
        device = "/sys/class/infiniband/uroce0"
        host = self.lab.a
        self.assertEqual(host.run("cat", f"{device}/ports/1/state"), "4: ACTIVE\n")
        self.assertEqual(host.run("cat", f"{device}/ports/1/gid_attrs/types/1"), "RoCE v2\n")
        self.assertIn("ffff:0a00:0001", host.run("cat", f"{device}/ports/1/gids/1"))
        self.assertIn("uroce1", host.run("ls", "/sys/class/infiniband/"))
        self.assertIn("character special",
                      host.run("stat", "-c", "%F", "/dev/infiniband/uroce0"))
        # What is not the devices' stays the kernel's.
        self.assertIn("lo", host.run("ls", "/sys/class/net"))

    def test_files_of_devices_go_with_the_daemon(self):
        lab = WireLab()
        tree = lab.daemons[0].socket + ".d"
        lab.a.dump("devices")  # Who is answered finds them there.
        self.assertTrue(os.path.exists(f"{tree}/sys/class/infiniband/uroce1/node_guid"))
        directory = lab.directory
        lab.daemons[0].stop()
        left = os.path.exists(tree)
        lab.tear_down()
        self.assertFalse(left, directory)

    def test_dlopen_of_libibverbs_finds_the_devices(self):
        self.assertEqual(self.lab.a.run(PYTHON, "-c", BY_DLOPEN), "uroce0 uroce1\n")

    def test_programs_in_other_namespaces_are_served(self):
        output = self.lab.a.run("unshare", "--net", "--pid", "--mount", "--fork", "ibv_devinfo",
                                "-d", "uroce0")
        self.assertIn("PORT_ACTIVE", output)

    def test_a_static_program_is_refused_with_the_reason(self):
        status, output = run_status(self.lab.a.verbs("/sbin/ldconfig", "--version"))
        self.assertEqual(status, 2)
        self.assertIn("/sbin/ldconfig: it is statically linked", output)


if __name__ == "__main__":
    unittest.main()
