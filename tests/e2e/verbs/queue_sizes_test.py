# SPDX-License-Identifier: Apache-2.0
"""Queues hold what was granted, and that is as much as Soft-RoCE grants."""
import unittest

from labs.lab import BUILD, WireLab

QUEUE_ROOM = BUILD / "tests" / "e2e" / "queue_sizes"


class QueueRoomTest(unittest.TestCase):
    def test_a_send_queue_takes_what_it_says_and_a_batch_ahead(self):
        lab = WireLab()
        self.addCleanup(lab.close)
        output = lab.a.run(QUEUE_ROOM, lab.a.gid_index(), lab.b.gid_index())
        self.assertIn("as much room as was granted", output)
