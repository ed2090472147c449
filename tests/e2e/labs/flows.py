# SPDX-License-Identifier: Apache-2.0
"""perftest from several hosts of a lab to one, all at once and without end."""
import time

from labs.lab import PATIENT_CLOCK, next_port
from labs.process import Failed, wait_until
from labs.programs import perftest_rows


class Flows:
    """A program pair for each sender, until `stop`. READs are asked for by the receiver: their
    answers are what the senders send. A flow says each second what it has carried."""

    def __init__(self, lab, tool, senders, receiver, *flags):
        self._programs = []
        self._meters = []
        for sender in senders:
            ends = [lab.hosts[receiver], lab.hosts[sender]]
            if tool.startswith("ib_read"):
                ends.reverse()
            self._start(lab, tool, *ends, flags)

    def _start(self, lab, tool, to, source, flags):
        port = next_port()

        def program(host):
            return ["stdbuf", "-oL", tool, "-d", host.device, "-x", host.gid_index(), "-p", port,
                    "-F", "-u", 18, "--run_infinitely", "-D", 1, "--report_gbits", *flags]

        server = to.start(*program(to), preload=PATIENT_CLOCK)
        self._programs.append(server)
        wait_until(lambda: to.is_listening(server, port), "a listener", timeout_s=60)
        client = source.start(*program(source), lab.tcp_address(to), preload=PATIENT_CLOCK)
        self._programs.append(client)
        # Datagrams that were lost count for their sender: what has arrived the receiver knows.
        self._meters.append(server if "UD" in flags else client)

    def running(self):
        return all(program.running() for program in self._programs)

    def gbps(self, seconds):
        """What each flow carries of payload in about the next so many seconds: whole rows, by when
        they were seen, since a late alarm makes a row longer than it says."""
        marks = [[] for _ in self._meters]  # Of each flow: when so many bytes had been carried.
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            for meter, its in zip(self._meters, marks):
                rows = perftest_rows(meter.output())
                carried = sum(row[0] * row[1] for row in rows)
                if not its or len(rows) != its[-1][2]:
                    its.append((time.monotonic(), carried, len(rows)))
            time.sleep(0.02)
        if not self.running():
            raise Failed("\n".join(program.describe() for program in self._programs
                                   if not program.running()))
        return [self._rate(its[1:]) for its in marks]  # The first is no end of a row.

    @staticmethod
    def _rate(marks):
        if len(marks) < 2:
            return 0.0
        (begin, before, _), (end, after, _) = marks[0], marks[-1]
        return (after - before) * 8 / (end - begin) / 1e9

    def stop(self):
        for program in self._programs:
            program.kill()
