# SPDX-License-Identifier: Apache-2.0
"""Programs and libraries of several releases of rdma-core, with the installed perftest and rping:
programs run, verbs that newer releases have are served or refused, and none ends the program.
tests/e2e/build-rdma-core builds the releases, with pyverbs too; those that are not there are
skipped, but for the installed one."""
import os
import unittest
from pathlib import Path

from labs import cm_programs
from labs.lab import BUILD, E2E, WireLab, next_port

PYTHON = "/usr/bin/python3"  # For which Debian has pyverbs, and for which releases are built.
PYVERBS = E2E / "programs" / "pyverbs"
CACHE = Path(os.environ.get("UROCE_RDMA_CORE_CACHE", "/var/cache/uroce-rdma-core"))

# What newer_verbs says, by the node with which libibverbs or librdmacm has the function.
ALWAYS = {
    "ibv_query_port_speed": "0",
    "port 1": "100000 Mb/s",
    "ibv_query_port_speed of port 2": "EINVAL",
    "ibv_reg_mr_ex": "made",
    "ibv_reg_mr_ex with an iova": "made",
    "ibv_reg_mr_ex without memory": "EINVAL",
    "ibv_reg_mr_ex of a DMA-buf": "EINVAL",
    "ibv_reg_mr_ex with a DMA handle": "EOPNOTSUPP",
    "ibv_alloc_buf": "EOPNOTSUPP",
    "ibv_dereg_mr": "0",
    "ibv_dealloc_pd": "0",
    "ibv_close_device": "0",
}
# The daemon refuses the commands of rdma_cm behind these, as a kernel does that lacks them.
SINCE_61 = {
    "ibv_alloc_dmah": "EOPNOTSUPP",
    "rdma_write_cm_event": "-1",
    "rdma_resolve_addrinfo": "-1",
    "rdma_query_addrinfo": "-1",
    "rdma_resolve_addrinfo by the SA": "-1",
    "rdma_destroy_id": "0",
}
SINCE_64 = {
    "ibv_alloc_buf": "made",
    "ibv_reg_buf_mr": "made",
    "ibv_reg_buf_mr behind its end": "EINVAL",
    "ibv_reg_buf_mr in front of it": "EINVAL",
    "ibv_reg_buf_mr by another domain": "EINVAL",
    "ibv_dm_export_dmabuf_fd": "-1",
    "ibv_free_dm": "0",
}
SINCE_65 = {
    "ibv_export_buf_dmabuf_fd": "-1",
    "ibv_create_comp_cntr": "EOPNOTSUPP",
    "ibv_query_comp_cntr_caps": "EOPNOTSUPP",
    "repoll_create": "made",
}


class LibrariesTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.lab = WireLab()
        cls.addClassCleanup(cls.lab.close)

    def check(self, expected, prefix=(), directory=""):
        """Runs its programs with libraries that `prefix` names; `directory` has the programs."""
        a = self.lab.a
        self.check_pair(*prefix, f"{directory}ibv_rc_pingpong", gid="-g", words="1000 iters in")
        self.check_pair(*prefix, "ib_write_bw", "-F", "-n", 100, gid="-x", words="BW average")
        self.check_pair(*prefix, "ib_send_lat", "-F", "-n", 100, "-c", "UD", gid="-x",
                        words="t_avg")
        self.check_connection(*prefix, "rping", "-C", 10, "-V")
        self.assertIn("PORT_ACTIVE", a.run(*prefix, f"{directory}ibv_devinfo", "-v", "-d",
                                           a.device))
        output = a.run(*prefix, BUILD / "tests" / "e2e" / "newer_verbs", a.device)
        said = dict(line.split(": ", 1) for line in output.splitlines())
        self.assertEqual(said, expected)

    def check_pair(self, *program, gid, words):
        """A program between the NICs, of which both ends print `words`."""
        port = next_port()
        a, b = self.lab.a, self.lab.b
        for output in self.lab.run_pair(
                [*program, "-p", port, "-d", a.device, gid, a.gid_index()],
                [*program, "-p", port, "-d", b.device, gid, b.gid_index(),
                 self.lab.server_address], port):
            self.assertIn(words, output)

    def check_connection(self, *program):
        port = next_port()
        a, b = self.lab.a, self.lab.b
        cm_programs.run_pair(self.lab, [*program, "-s", "-a", a.address, "-p", port],
                             [*program, "-c", "-a", a.address, "-I", b.address, "-p", port], port)

    def check_pyverbs(self, prefix=()):
        for name in ("regions", "windows", "share", "atomic_write"):
            with self.subTest(name):
                self.assertIn(f"{name}: right", self.lab.a.run(
                    *prefix, PYTHON, PYVERBS / f"{name}.py", self.lab.a.device, self.lab.b.device))

    def check_release(self, release, expected):
        place = CACHE / release
        if not (place / "bin" / "ibv_rc_pingpong").exists():
            self.skipTest(f"no rdma-core {release} in {CACHE}: tests/e2e/build-rdma-core {release}")
        libraries = ("env", f"LD_LIBRARY_PATH={place}/lib")
        self.check(expected, libraries, f"{place}/bin/")
        if (place / "python" / ".built").exists():
            self.check_pyverbs((*libraries, f"PYTHONPATH={place}/python"))

    def test_the_installed_libraries(self):
        self.check(ALWAYS)
        self.check_pyverbs()

    def test_release_56(self):
        self.check_release("v56.0", ALWAYS)

    def test_release_61(self):
        self.check_release("v61.0", ALWAYS | SINCE_61)

    def test_release_64(self):
        self.check_release("v64.0", ALWAYS | SINCE_61 | SINCE_64)

    def test_the_next_release(self):
        self.check_release("master", ALWAYS | SINCE_61 | SINCE_64 | SINCE_65)


if __name__ == "__main__":
    unittest.main()
