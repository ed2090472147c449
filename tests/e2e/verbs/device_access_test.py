# SPDX-License-Identifier: Apache-2.0
"""The verbs surface beside queue pairs, and programs that reach it in other ways than by linking:
files of devices, dlopen, other namespaces and users; programs that cannot be served."""
import os
import shutil
import tempfile
import unittest

from labs.lab import BUILD, E2E, VERBS_CHECK, WireLab, run_status
from labs.process import wait_until

PYVERBS = E2E / "programs" / "pyverbs"
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

# As above, by the version of each function.
BY_VERSION = """
import ctypes
libc = ctypes.CDLL(None)
libc.dlvsym.restype = ctypes.c_void_p
libc.dlvsym.argtypes = (ctypes.c_void_p, ctypes.c_char_p, ctypes.c_char_p)
handle = ctypes.CDLL("libibverbs.so.1")._handle
address = libc.dlvsym(handle, b"ibv_get_device_list", b"IBVERBS_1.1")
get_list = ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.POINTER(ctypes.c_int))(address)
count = ctypes.c_int()
get_list(ctypes.byref(count))
print(count.value, "devices")
assert libc.dlvsym(handle, b"ibv_rate_to_mult", b"IBVERBS_1.0"), "what is libibverbs's own"
assert not libc.dlvsym(handle, b"ibv_get_device_list", b"IBVERBS_1.99")
"""

# How plugins do it: they are loaded, used and unloaded, and loaded again.
BY_DLOPEN_AGAIN = """
import _ctypes, ctypes, mmap
for turn in range(3):
    library = ctypes.CDLL("libibverbs.so.1")
    count = ctypes.c_int()
    library.ibv_get_device_list.restype = ctypes.c_void_p
    library.ibv_free_device_list.argtypes = (ctypes.c_void_p,)
    library.ibv_free_device_list(library.ibv_get_device_list(ctypes.byref(count)))
    print(count.value, "devices")
    _ctypes.dlclose(library._handle)
    room = [mmap.mmap(-1, 32768) for _ in range(8)]  # Where the library was.
"""

# The library by the name of its file, and one that must be loaded already.
BY_OTHER_NAMES = """
import ctypes, os, pathlib
RTLD_NOLOAD = 4
def devices(name, mode=0):
    count = ctypes.c_int()
    ctypes.CDLL(name, mode=os.RTLD_NOW | mode).ibv_get_device_list(ctypes.byref(count))
    return count.value
for name in ("libibverbs.so.1", "libibverbs.so"):
    try:
        devices(name, RTLD_NOLOAD)
        raise SystemExit(name + " was loaded")
    except OSError:
        pass
file = next(pathlib.Path("/usr/lib").glob("*-linux-gnu/libibverbs.so.1")).resolve()
print(*[devices(name) for name in (str(file), file.name, "libibverbs.so")])
print(*[devices(name, RTLD_NOLOAD) for name in (str(file), file.name, "libibverbs.so.1")])
"""

# Servers list the devices, then fork their workers; daemons close all fds when they start.
BY_OLD_LIST = """
import ctypes, os
library = ctypes.CDLL("libibverbs.so.1", use_errno=True)
for name in ("ibv_get_device_list", "ibv_open_device"):
    getattr(library, name).restype = ctypes.c_void_p
library.ibv_open_device.argtypes = library.ibv_close_device.argtypes = (ctypes.c_void_p,)
devices = ctypes.cast(library.ibv_get_device_list(None), ctypes.POINTER(ctypes.c_void_p))
def use(who):
    context = library.ibv_open_device(devices[1])
    assert context, who + ": " + os.strerror(ctypes.get_errno())
    assert library.ibv_close_device(context) == 0
    print(who, "opened it", flush=True)
if os.fork() == 0:
    use("child")
    os._exit(0)
os.wait()
os.closerange(3, 1024)
pipe = os.pipe2(os.O_NONBLOCK)
use("parent")
try:
    os.read(pipe[0], 1)
    print("something was written into the program's pipe")
except BlockingIOError:
    pass
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
        return self.lab.a.run(PYTHON, PYVERBS / name, "uroce0", "uroce1")

    def test_regions_change_come_on_demand_and_lie_in_device_memory(self):
        self.assertIn("regions: right", self.run_script("regions.py"))

    def test_windows_grant_what_they_are_bound_to_and_no_longer(self):
        self.assertIn("windows: right", self.run_script("windows.py"))

    def test_atomic_writes_are_of_eight_aligned_bytes(self):
        for way in ("mapped", "copied"):
            with self.subTest(way):
                self.assertIn("atomic_write: right", self.lab.a.run(
                    "env", f"UROCE_MR={way}", PYTHON, PYVERBS / "atomic_write.py", "uroce0",
                    "uroce1"))

    def test_processes_share_a_protection_domain_and_its_regions(self):
        self.assertIn("share: right", self.run_script("share.py"))

    def test_files_of_devices_are_at_their_usual_places(self):
        device = "/sys/class/infiniband/uroce0"
        host = self.lab.a
        host.dump("devices")  # Who is answered finds them there.
        self.assertEqual(host.run("cat", f"{device}/ports/1/state"), "4: ACTIVE\n")
        self.assertEqual(host.run("cat", f"{device}/ports/1/gid_attrs/types/1"), "RoCE v2\n")
        self.assertIn("ffff:0a00:0001", host.run("cat", f"{device}/ports/1/gids/1"))
        self.assertIn("uroce1", host.run("ls", "/sys/class/infiniband/"))
        self.assertIn("character special",
                      host.run("stat", "-c", "%F", "/dev/infiniband/uroce0"))
        self.assertRegex(host.run("realpath", f"{device}/device"), r"/fffe:00:00\.0\n$")
        self.assertIn("/infiniband/uroce0", host.run("readlink", device))
        self.assertEqual(host.run("sh", "-c", f"cd {device} && cat fw_ver"),
                         host.run("cat", f"{device}/fw_ver"))
        # What is not the devices' stays the kernel's.
        self.assertIn("lo", host.run("ls", "/sys/class/net"))

    def test_all_functions_of_libc_find_the_files_of_devices(self):
        self.lab.a.dump("devices")
        for _ in range(2):
            said = self.lab.a.run(BUILD / "tests" / "e2e" / "device_paths", "uroce0")
            self.assertNotIn("missing", said)
            self.assertIn("rdma_cm: found", said)

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

    def test_dlvsym_finds_the_devices(self):
        self.assertEqual(self.lab.a.run(PYTHON, "-c", BY_VERSION), "2 devices\n")

    def test_a_list_of_devices_outlives_a_fork_and_closed_fds(self):
        self.assertEqual(self.lab.a.run(PYTHON, "-c", BY_OLD_LIST),
                         "child opened it\nparent opened it\n")

    def test_a_limit_of_address_space_leaves_the_devices_and_room(self):
        lab = self.lab
        for limit_mib in (512, 2048, 4096, 5120, 8192):
            with self.subTest(limit_mib):
                lab.a.run("sh", "-c", f"ulimit -v {limit_mib * 1024}; exec \"$@\"", "sh",
                          VERBS_CHECK, "--device-a", lab.a.device, "--device-b", lab.b.device,
                          "--gid-a", lab.a.gid_index(), "--gid-b", lab.b.gid_index(), "--ops", 20)

    def test_libibverbs_may_be_unloaded_and_loaded_again(self):
        self.assertEqual(self.lab.a.run(PYTHON, "-c", BY_DLOPEN_AGAIN), "2 devices\n" * 3)

    def test_libibverbs_by_other_names_finds_the_devices(self):
        self.assertEqual(self.lab.a.run(PYTHON, "-c", BY_OTHER_NAMES), "2 2 2\n" * 2)

    def test_dlopen_of_libibverbs_tells_when_the_library_in_front_is_missing(self):
        with tempfile.TemporaryDirectory() as directory:
            shim = shutil.copy(BUILD / "verbs-shim" / "liburoce.so", directory)
            environment = os.environ | {"LD_PRELOAD": shim,
                                        "UROCE_SOCKET": self.lab.daemons[0].socket}
            status, output = run_status([PYTHON, "-c", "import ctypes\nfor _ in range(2):\n"
                                         "    ctypes.CDLL('libibverbs.so.1')"], env=environment)
        self.assertEqual(status, 0, output)
        self.assertEqual(output.count("liburoce-verbs.so cannot be loaded"), 1, output)

    def test_the_tools_tell_when_the_library_in_front_is_missing(self):
        with tempfile.TemporaryDirectory() as directory:
            for name in ("tools/uroce", "verbs-shim/liburoce.so"):
                os.makedirs(os.path.dirname(f"{directory}/{name}"))
                shutil.copy(BUILD / name, f"{directory}/{name}")
            tool = [f"{directory}/tools/uroce", "--socket", self.lab.daemons[0].socket]
            status, said = run_status([*tool, "run", "--", "ibv_devices"])
            _, found = run_status([*tool, "doctor"])
        self.assertEqual(status, 0, said)
        self.assertIn("uroce0", said)
        self.assertIn("liburoce-verbs.so is missing", said)
        self.assertIn("liburoce-verbs.so is not beside liburoce.so", found)

    def test_a_program_with_its_own_dpdk_is_served(self):
        lab = self.lab
        output = lab.a.run("env", f"RUNTIME_DIRECTORY={lab.directory}",
                           BUILD / "tests" / "e2e" / "eal_program", lab.a.gid_index(),
                           lab.b.gid_index(), "--no-pci", "--no-huge", "-m", 64, "--no-shconf",
                           "--no-telemetry")
        self.assertIn("eal: right", output)

    def test_asyncwatch_tells_of_the_end_of_the_device(self):
        lab = WireLab()
        self.addCleanup(lab.tear_down)
        watch = lab.a.start("stdbuf", "-oL", "ibv_asyncwatch", "-d", "uroce0")
        self.addCleanup(watch.kill)
        wait_until(lambda: "async event FD" in watch.output() or not watch.running(), "a start")
        lab.daemons[0].stop()
        wait_until(lambda: "event_type" in watch.output() or not watch.running(), "an event")
        self.assertIn("IBV_EVENT_DEVICE_FATAL", watch.output())

    def test_programs_in_other_namespaces_are_served(self):
        output = self.lab.a.run("unshare", "--net", "--pid", "--mount", "--fork", "ibv_devinfo",
                                "-d", "uroce0")
        self.assertIn("PORT_ACTIVE", output)

    def test_a_static_program_is_refused_with_the_reason(self):
        status, output = run_status(self.lab.a.verbs("/sbin/ldconfig", "--version"))
        self.assertEqual(status, 126)  # As a shell says of what it finds and cannot run.
        self.assertIn("/sbin/ldconfig: it is statically linked", output)


if __name__ == "__main__":
    unittest.main()
