# SPDX-License-Identifier: Apache-2.0
"""What the daemon may still do once it serves, and a daemon that is its own user."""
import os
import unittest
from pathlib import Path

from labs.lab import UNPRIVILEGED, VethLab, WireLab, preload
from labs.process import Failed
from labs.programs import DataCheck, seed

CAPABILITIES = {"cap_dac_override": 1, "cap_setgid": 6, "cap_setuid": 7, "cap_linux_immutable": 9,
                "cap_net_admin": 12, "cap_net_raw": 13, "cap_ipc_lock": 14,
                "cap_checkpoint_restore": 40}
OF_ALL = ("cap_setgid", "cap_setuid", "cap_checkpoint_restore", "cap_linux_immutable")
OF_KERNEL_PORTS = ("cap_net_admin", "cap_net_raw", "cap_ipc_lock")
OF_SERVICE = ("cap_net_admin", "cap_net_raw")
SERVICE_UID = 61002


def bits(names):
    return sum(1 << CAPABILITIES[name] for name in names)


def threads_of(pid):
    """(name, fields of its status) of each thread of a process."""
    for task in Path(f"/proc/{pid}/task").iterdir():
        try:
            lines = (task / "status").read_text().splitlines()
        except (FileNotFoundError, ProcessLookupError):
            continue  # A side thread that has ended.
        fields = dict(line.split(":\t", 1) for line in lines if ":\t" in line)
        yield fields["Name"], fields


class ElsewhereLab(WireLab):
    """The socket lies in a directory of another user."""

    daemon_owner = SERVICE_UID


class ServiceLab(VethLab):
    """As docs/guide/privilege.md says: each daemon has its own user, with two capabilities."""

    daemon_prefix = ("setpriv", f"--reuid={SERVICE_UID}", f"--regid={SERVICE_UID}",
                     "--clear-groups", "--bounding-set=-all,+net_admin,+net_raw",
                     "--inh-caps=+net_admin,+net_raw", "--ambient-caps=+net_admin,+net_raw")
    daemon_owner = SERVICE_UID

    def _build(self):
        os.chmod(self.directory, 0o711)
        super()._build()


class DeafThreadLab(WireLab):
    """One thread of the daemon takes no signal."""

    daemon_prefix = preload("thread_without_signals")


class WithoutSeccompLab(WireLab):
    daemon_prefix = preload("without_seccomp")


class UnprivilegedLab(WireLab):
    daemon_prefix = UNPRIVILEGED
    daemon_owner = 65534

    def _build(self):
        os.chmod(self.directory, 0o711)
        super()._build()


class DeafThreadUnprivilegedLab(UnprivilegedLab):
    daemon_prefix = (*UNPRIVILEGED, *preload("thread_without_signals"))


class PrivilegesTest(unittest.TestCase):
    def check_threads(self, daemon, expected):
        threads = list(threads_of(daemon.process.pid))
        self.assertGreaterEqual(len(threads), 3, "control thread, DPDK's and a worker at least")
        for name, fields in threads:
            with self.subTest(thread=name):
                for kind in ("CapPrm", "CapEff"):
                    self.assertEqual(int(fields[kind], 16), bits(expected), kind)
                self.assertEqual(int(fields["CapInh"], 16) | int(fields["CapAmb"], 16), 0)
                self.assertEqual(fields["NoNewPrivs"], "1")
                self.assertEqual(fields["Seccomp"], "2", "a filter")

    def open_lab(self, make_lab, *arguments):
        lab = make_lab(*arguments)
        self.addCleanup(lab.close)
        for host in (lab.a, lab.b):
            host.gid_index()  # Answered by a daemon that serves.
        return lab

    def test_on_a_wire(self):
        lab = self.open_lab(WireLab, "--workers", "2")
        self.check_threads(lab.daemons[0], OF_ALL)

    def test_beside_the_kernel(self):
        lab = self.open_lab(VethLab, 1500)
        for daemon in lab.daemons:
            self.check_threads(daemon, OF_ALL + OF_KERNEL_PORTS)
        DataCheck(lab, "--seed", seed(), "--ops", 300).finish()

    def test_a_socket_in_the_directory_of_another_user(self):
        lab = self.open_lab(ElsewhereLab)
        self.check_threads(lab.daemons[0], (*OF_ALL, "cap_dac_override"))
        self.assertIn("uroce0", lab.a.run("ibv_devices"))
        tree = Path(f"{lab.a.daemon.socket}.d/sys/class/infiniband/uroce0")
        self.assertTrue(tree.is_dir(), "files about devices are written there")

    def test_a_daemon_that_cannot_share_userfaultfd_says_so(self):
        line = "--share-userfaultfd has no effect: /dev/userfaultfd: "
        lab = self.open_lab(UnprivilegedLab, "--share-userfaultfd")
        self.assertEqual(lab.daemons[0].process.output().count(line), 1)
        lab = self.open_lab(UnprivilegedLab)
        self.assertNotIn(line, lab.daemons[0].process.output())

    def test_a_thread_that_cannot_be_told_to_give_capabilities_up(self):
        with self.assertRaisesRegex(Failed, "thread [0-9]+ keeps its capabilities"):
            DeafThreadLab().close()

    def test_a_thread_without_capabilities_is_not_asked(self):
        lab = self.open_lab(DeafThreadUnprivilegedLab)
        self.check_threads(lab.daemons[0], ())

    def test_a_kernel_without_filters_of_system_calls(self):
        with self.assertRaisesRegex(Failed, "seccomp: Invalid argument.*--keep-privileges"):
            WithoutSeccompLab().close()
        lab = self.open_lab(WithoutSeccompLab, "--keep-privileges")
        for name, fields in threads_of(lab.daemons[0].process.pid):
            with self.subTest(thread=name):
                self.assertEqual(fields["Seccomp"], "0")

    def test_all_is_kept_where_that_is_wanted(self):
        lab = self.open_lab(WireLab, "--keep-privileges")
        own = int(dict(threads_of(os.getpid()))["python3"]["CapPrm"], 16)
        for name, fields in threads_of(lab.daemons[0].process.pid):
            with self.subTest(thread=name):
                self.assertEqual(int(fields["CapPrm"], 16), own)
                self.assertEqual(fields["Seccomp"], "0")


class OwnUserTest(unittest.TestCase):
    def test_data_beside_the_kernel(self):
        lab = ServiceLab(1500)
        self.addCleanup(lab.close)
        lab.forget_gids()
        for daemon in lab.daemons:
            for name, fields in threads_of(daemon.process.pid):
                with self.subTest(thread=name):
                    self.assertEqual(fields["Uid"].split(), [str(SERVICE_UID)] * 4)
                    self.assertEqual(int(fields["CapPrm"], 16), bits(OF_SERVICE))
        DataCheck(lab, "--seed", seed(), "--ops", 300).finish()
