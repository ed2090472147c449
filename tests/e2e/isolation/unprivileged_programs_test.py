# SPDX-License-Identifier: Apache-2.0
"""The whole data check by programs without a privilege, and by those that only seem to have one."""
import os
import unittest

from labs.lab import LONG, VERBS_CHECK, WireLab
from labs.process import run, run_status
from labs.programs import DataCheck, seed

DATA_OPS = 20000 if LONG else 1000
UNPRIVILEGED = ("setpriv", "--reuid=65534", "--regid=65534", "--clear-groups")
GROUP = 61234
USER_NAMESPACE = ("unshare", "--user", "--map-root-user")
# As containers have them, with their own view of processes.
OTHER_NAMESPACES = ("--net", "--ipc", "--pid", "--mount", "--mount-proc", "--fork")


class UnprivilegedTest(unittest.TestCase):
    arguments = ()

    @classmethod
    def setUpClass(cls):
        cls.lab = WireLab(*cls.arguments)
        cls.addClassCleanup(cls.lab.close)
        for directory in (cls.lab.directory, os.path.dirname(cls.lab.a.daemon.socket)):
            os.chmod(directory, 0o711)  # Programs of every user are to find the socket.
        cls.lab.a.gid_index()

    def check(self, *prefix):
        status, output = run_status([*prefix, "test", "-x", VERBS_CHECK])
        if status:
            self.skipTest(f"{' '.join(prefix)} cannot run {VERBS_CHECK}: {output}")
        for mode in ("UROCE_MR=", "UROCE_MR=copied"):
            with self.subTest(mode):
                DataCheck(self.lab, "--seed", seed(), "--ops", DATA_OPS,
                          prefix=(*prefix, "env", mode)).finish()

    def test_the_user_nobody(self):
        self.check(*UNPRIVILEGED)

    def test_the_directory_of_the_socket_says_who_may_connect(self):
        directory = os.path.dirname(self.lab.a.daemon.socket)
        os.chown(directory, 0, GROUP)
        os.chmod(directory, 0o750)
        try:
            member = (*UNPRIVILEGED[:-1], f"--groups={GROUP}")
            self.assertIn("uroce0", run(self.lab.a.verbs(*member, "ibv_devices")))
            self.assertNotIn("uroce0", run(self.lab.a.verbs(*UNPRIVILEGED, "ibv_devices")))
        finally:
            os.chown(directory, 0, 0)
            os.chmod(directory, 0o711)

    def test_root_of_a_user_namespace(self):
        self.check(*USER_NAMESPACE)

    def test_the_user_nobody_in_a_container(self):
        self.check(*UNPRIVILEGED, *USER_NAMESPACE, *OTHER_NAMESPACES)

    def test_the_user_nobody_as_root_of_a_user_namespace(self):
        self.check(*UNPRIVILEGED, *USER_NAMESPACE)
