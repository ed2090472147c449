# SPDX-License-Identifier: Apache-2.0
"""The whole data check by programs without a privilege, and by those that only seem to have one."""
import os
import unittest

from lab import LONG, VERBS_CHECK, WireLab
from process import run_status
from programs import DataCheck, seed

DATA_OPS = 20000 if LONG else 1000
NOBODY = ("setpriv", "--reuid=65534", "--regid=65534", "--clear-groups")
USER_NAMESPACE = ("unshare", "--user", "--map-root-user")


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

    def test_nobody(self):
        self.check(*NOBODY)

    def test_root_of_a_user_namespace(self):
        self.check(*USER_NAMESPACE)

    def test_nobody_as_root_of_a_user_namespace(self):
        self.check(*NOBODY, *USER_NAMESPACE)
