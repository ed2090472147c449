# SPDX-License-Identifier: Apache-2.0
"""Jobs of MPI whose four ranks have a NIC each of one switch, by the lines of
docs/guide/networks.md."""
import os
import unittest
from unittest import mock

from labs.lab import BUILD, LONG
from labs.switch_lab import SwitchLab

RANKS = 4
ROUNDS = 20 if LONG else 2
MPI_CHECK = BUILD / "tests" / "e2e" / "mpi_check"
# Open MPI refuses to run as root, and wants a core for each rank, if not told otherwise.
ENVIRONMENT = {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}
# Each rank is its own host: without these, ranks of one machine meet in shared memory, and all of
# them use the first NICs.
OVER_UCX = ("--mca", "pml", "ucx")
OWN_NIC = 'UCX_NET_DEVICES=uroce$OMPI_COMM_WORLD_RANK:1 exec "$0" "$@"'


class MpiTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        if not MPI_CHECK.exists():
            raise unittest.SkipTest("no mpi_check: libopenmpi-dev was not there when it was built")
        cls.lab = SwitchLab(f"ports={RANKS},rate=10G,delay=5us,buffer=1M,ecn=100K:400K:20%,"
                            "cc=dcqcn")
        cls.addClassCleanup(cls.lab.close)

    def sent(self):
        return [host.counters()["counters.port_xmit_packets"] for host in self.lab.hosts]

    def run_job(self, *flags, program=(MPI_CHECK, ROUNDS)):
        with mock.patch.dict(os.environ, ENVIRONMENT):
            output = self.lab.hosts[0].run("mpirun", "--oversubscribe", "-n", RANKS, *flags,
                                           *program, timeout_s=180)
        self.assertIn("every word right", output)

    def test_each_rank_has_its_own_nic(self):
        for transport in ("rc", "ud"):
            with self.subTest(transport):
                before = self.sent()
                self.run_job(*OVER_UCX, "-x", f"UCX_TLS={transport},self",
                             program=("sh", "-c", OWN_NIC, MPI_CHECK, ROUNDS))
                for rank, (first, last) in enumerate(zip(before, self.sent())):
                    self.assertGreater(last - first, 1000, f"rank {rank}")

    def test_ranks_that_choose_their_nics_themselves(self):
        before = sum(self.sent())
        self.run_job(*OVER_UCX, "-x", "UCX_TLS=rc,self")
        self.assertGreater(sum(self.sent()) - before, 1000)


if __name__ == "__main__":
    unittest.main()
