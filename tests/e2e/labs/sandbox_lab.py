# SPDX-License-Identifier: Apache-2.0
"""A daemon and programs inside of a sandbox (sandbox.c), which this process is in, too."""
import os

from labs.lab import WireLab


class ThisNamespace:
    """The namespaces of this process."""

    def command(self, words):
        return [str(word) for word in words]

    def remove(self):
        """The sandbox ends with its first process."""


class SandboxLab(WireLab):
    """One daemon with two NICs on its wire, started by a user without any privilege."""

    make_namespace = ThisNamespace
    daemon_owner = os.getuid()
    exchange_root = "/tmp"
    are_namespaces_ours = False
