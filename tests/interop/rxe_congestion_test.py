# SPDX-License-Identifier: Apache-2.0
"""rdma_rxe and uroced through a slow port that marks or drops. rxe has neither half of DCQCN: it
ignores CNPs, and answers no mark. What uroce sends to it is bounded by losses and round trips, and
what uroce reads from it by the rate that uroce holds for the answers."""
import contextlib
import os
import sys
import unittest
from pathlib import Path

sys.path.append(str(Path(__file__).resolve().parents[1] / "e2e"))
from congested_lab import RedPort, missing  # noqa: E402
from lab import next_port  # noqa: E402
from process import wait_until  # noqa: E402
from programs import seed  # noqa: E402
from rxe_lab import READS_IN_FLIGHT, BridgeLab  # noqa: E402
from tally import counted_data_check  # noqa: E402

PORT_BPS = 100_000_000
ECT0 = 26 << 2 | 2  # rxe sends the ECN bits that its program asks for.
OPS = 1000
MTU = 4200


class SlowPortLab(BridgeLab):
    """A bridge whose port to rxe, or to uroce, is slow."""

    def __init__(self, slow, port, congestion):
        self._slow = {"rxe": "guest0", "uroce": "host0"}[slow]
        self._port = port
        super().__init__(MTU)
        self.uroce.daemon.stop  # noqa: B018
        self.congestion = congestion

    def _make_bridge(self, host):
        super()._make_bridge(host)
        self._port.apply(self.bridge, self._slow, self.directory)


if __name__ == "__main__":
    unittest.main()
