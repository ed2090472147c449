# SPDX-License-Identifier: Apache-2.0
"""The programs of tools/dist need glibc and libibverbs alone, and run from any folder."""
import os
import platform
import re
import subprocess
import sys
import unittest

from built import ROOT
from standalone import PING_PONG, UNPRIVILEGED, StandaloneTestCase

sys.path.insert(0, str(ROOT / "tests" / "e2e"))
from labs.process import run, run_status  # pylint: disable=wrong-import-position

OF_GLIBC = {"libc.so.6", "libm.so.6", "ld-linux-x86-64.so.2"}
# A program with its own libstdc++, which throws through it while the devices are listed.
OTHER_RUNTIME = r"""
#include <infiniband/verbs.h>
#include <iostream>
#include <regex>
#include <stdexcept>
int main() {
  int count = 0;
  ibv_device** list = ibv_get_device_list(&count);
  try {
    if (std::regex_match(ibv_get_device_name(list[0]), std::regex("uroce[0-9]"))) {
      throw std::runtime_error(ibv_get_device_name(list[0]));
    }
  } catch (const std::exception& error) {
    std::cout << "caught " << error.what() << " of " << count << std::endl;
  }
  ibv_free_device_list(list);
}
"""


def elf_files(folder):
    return [path for path in sorted(folder.rglob("*"))
            if path.is_file() and path.read_bytes()[:4] == b"\x7fELF"]


def needed(path):
    return set(re.findall(r"\(NEEDED\).*\[(.*)\]", run(["readelf", "-d", path])))


class DistTest(StandaloneTestCase):
    def test_the_user_nobody_runs_it_from_a_folder_of_another_name(self):
        folder = self.unpack()
        for command in ([f"{folder}/bin/uroce"], ["env", "-C", folder, "bin/uroce"]):
            with self.subTest(command):
                self.expect_ping_pong(run([*UNPRIVILEGED, "env", "-i", f"PATH={os.environ['PATH']}",
                                           *command, "run", "--private", "--", "sh", "-c",
                                           PING_PONG], 120))

    def test_it_needs_glibc_and_libibverbs_alone(self):
        folder = self.unpack()
        files = elf_files(folder)
        ours = {path.name for path in files}
        self.assertLess({"uroced", "uroce", "liburoce.so", "liburoce-verbs.so"}, ours)
        for path in files:
            self.assertLessEqual(needed(path), OF_GLIBC | ours | {"libibverbs.so.1"}, path)

    def test_it_says_which_glibc(self):
        version = re.search(r"glibc (2\.\d+)", self.said)
        newest = max((int(minor) for path in elf_files(self.unpack())
                      for minor in re.findall(r"GLIBC_2\.(\d+)", run(["objdump", "-T", path]))))
        self.assertEqual(version.group(1), f"2.{newest}")
        if platform.libc_ver()[1] == "2.36":  # Debian 12.
            self.assertLessEqual(newest, 34, "Ubuntu 22.04 has 2.35, RHEL 9 has 2.34")

    def test_what_is_preloaded_has_no_name_of_a_cxx_library(self):
        for name in ("liburoce.so", "liburoce-verbs.so"):
            library = next(self.unpack().rglob(name))
            symbols = run(["nm", "-D", library])
            self.assertNotRegex(symbols, r"_Z\w*(St|absl|spdlog|fmt)|GLIBCXX|CXXABI")
            self.assertLessEqual(needed(library), {"libc.so.6", "ld-linux-x86-64.so.2",
                                                   "liburoce.so", "libibverbs.so.1"})

    def test_a_program_may_have_another_cxx_library(self):
        folder = self.unpack()
        (folder / "other.cc").write_text(OTHER_RUNTIME, encoding="ascii")
        for flags in ([], ["-static-libstdc++", "-static-libgcc"]):
            with self.subTest(flags):
                run(["g++", *flags, "-o", folder / "other", folder / "other.cc", "-libverbs"])
                said = run([f"{folder}/bin/uroce", "run", "--private", "--", folder / "other"])
                self.assertIn("caught uroce0 of 2", said)

    def test_the_manual_and_the_licences_are_there(self):
        folder = self.unpack()
        self.assertTrue((folder / "share/man/man1/uroce-run.1").exists())
        self.assertTrue((folder / "share/man/man8/uroced.8").exists())
        self.assertTrue((folder / "share/doc/uroce/LICENSE").exists())
        if os.path.exists("/var/lib/dpkg"):
            known = {path.name for path in (folder / "share/doc/uroce/copyright").iterdir()}
            self.assertLess({"libdpdk-dev", "libabsl-dev", "libmnl0"}, known)

    def test_an_exception_is_caught(self):
        """By the unwinder with the part of glibc that nic/standalone.cc has."""
        folder = self.unpack()
        (folder / "bad.toml").write_text("workers = = 1\n", encoding="ascii")
        status, said = run_status([f"{folder}/sbin/uroced", "--config", f"{folder}/bad.toml"])
        self.assertEqual(status, 2, said)
        self.assertIn("bad.toml:1", said)

    def test_the_service_manager_is_told(self):
        """By a datagram, as systemd's library does it."""
        folder = self.unpack()
        script = f"""
import os, socket, subprocess
server = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
server.bind("{folder}/notify")
daemon = subprocess.Popen(["{folder}/sbin/uroced", "--no-huge", "--socket", "{folder}/s"],
                          env={{"NOTIFY_SOCKET": "{folder}/notify"}}, stderr=subprocess.DEVNULL)
print(server.recv(4096).decode())
daemon.terminate()
print(server.recv(4096).decode(), daemon.wait())
"""
        said = run([sys.executable, "-c", script])
        self.assertRegex(said, r"READY=1\nSTATUS=[^\n]+\nSTOPPING=1 0")


if __name__ == "__main__":
    unittest.main()
