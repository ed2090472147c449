# SPDX-License-Identifier: Apache-2.0
"""Program-to-program figures: bandwidth against the kernel's TCP over a veth pair, in turn on the
same machine and beside busy processes; one-way latency; memory of idle queue pairs; processor time
of an idle daemon."""
import argparse
import json
import os
import platform
import re
import statistics
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests" / "e2e"))

from labs.lab import BUILD, UdpLab, VethLab, WireLab  # noqa: E402
from labs.memif_lab import MemifLab  # noqa: E402
from labs.netns import Namespace, make_veth_pair  # noqa: E402
from labs.process import (  # noqa: E402
         Process, cpu_seconds, is_listening, resident_kilobytes, run, wait_until)
from labs.programs import perftest, pingpong  # noqa: E402

BENCH = BUILD / "tests" / "bench"


def iperf3_gbps(seconds, mtu):
    """TCP by iperf3's defaults between two namespaces over a veth pair."""
    a, b = Namespace(), Namespace()
    server = None
    try:
        make_veth_pair(a, b, mtu)
        server = Process(a.command(["iperf3", "-s", "-1"]))
        wait_until(lambda: is_listening(server.pid, 5201), "iperf3")
        text = run(b.command(["iperf3", "-c", "10.0.0.1", "-t", seconds, "-J"]), seconds + 30)
        return json.loads(text)["end"]["sum_received"]["bits_per_second"] / 1e9
    finally:
        if server:
            server.kill()
        a.remove()
        b.remove()


def write_gbps(lab, size, seconds):
    """ib_write_bw for some seconds; its average in Gb/s."""
    rows = perftest(lab, "ib_write_bw", "-s", size, "-D", seconds, "--report_gbits",
                    timeout_s=seconds + 60)
    return rows[-1][3]


def bandwidth(rounds, seconds):
    print(f"bandwidth, Gb/s, {rounds} rounds in turn of {seconds} s each")
    def with_icrc():
        return WireLab(keys=["icrc=always"])
    cases = {"64 KB in-process": (WireLab, 65536), "1 MB in-process": (WireLab, 1048576),
             "64 KB in-process, icrc=always": (with_icrc, 65536),
             "1 MB in-process, icrc=always": (with_icrc, 1048576),
             "64 KB two daemons, memif": (MemifLab, 65536)}
    compare(cases, 9000, rounds, seconds)


def interfaces(rounds, seconds):
    """Two daemons over veth, by iface=, udp= and DPDK's driver, against TCP over the same."""
    print(f"two daemons over veth, Gb/s, {rounds} rounds in turn of {seconds} s each")
    for mtu in (9000, 1500):
        print(f"  MTU {mtu}")
        compare({"64 KB iface=": (lambda: VethLab(mtu), 65536),
                 "1 MB iface=": (lambda: VethLab(mtu), 1048576),
                 "64 KB udp= (unprivileged)": (lambda: UdpLab(mtu), 65536),
                 "1 MB udp= (unprivileged)": (lambda: UdpLab(mtu), 1048576),
                 "64 KB net_af_packet":
                     (lambda: VethLab(mtu, device="net_af_packet0;iface=eth0"), 65536)},
                mtu, rounds, seconds)


def compare(cases, mtu, rounds, seconds):
    """Bandwidth of ib_write_bw in labs, and of TCP over a veth pair, in turns."""
    ours = {name: [] for name in cases}
    theirs = []
    for _ in range(rounds):
        theirs.append(iperf3_gbps(seconds, mtu))
        for name, (make_lab, size) in cases.items():
            lab = make_lab()
            try:
                ours[name].append(write_gbps(lab, size, seconds))
            finally:
                lab.close()
    rival = statistics.median(theirs)
    print(f"  {f'iperf3 over veth, MTU {mtu}':43}{rival:8.1f}   ({spread(theirs)})")
    for name, values in ours.items():
        mine = statistics.median(values)
        print(f"  {'ib_write_bw ' + name:43}{mine:8.1f}   ({spread(values)})"
              f"   ratio {mine / rival:.2f}")


def beside(busy, size, seconds):
    """ib_write_bw in-process beside `busy` processes that never sleep: Gb/s and M messages/s."""
    lab = WireLab()
    others = [Process(["sh", "-c", "while :; do :; done"]) for _ in range(busy)]
    try:
        row = perftest(lab, "ib_write_bw", "-s", size, "-D", seconds, "--report_gbits",
                       timeout_s=seconds + 60)[-1]
        return row[3], row[4]
    finally:
        for other in others:
            other.kill()
        lab.close()


def shared_cpus(rounds, seconds):
    print(f"in-process beside busy processes, {rounds} rounds in turn of {seconds} s each")
    for size, unit, column in ((64, "M/s", 1), (65536, "Gb/s", 0)):
        values = {busy: [] for busy in (0, 1, 2)}
        for _ in range(rounds):
            for busy, found in values.items():
                found.append(beside(busy, size, seconds)[column])
        alone = statistics.median(values[0])
        for busy, found in values.items():
            median = statistics.median(found)
            print(f"  ib_write_bw {size:5} B, {busy} busy{median:12.2f} {unit:5}"
                  f"({' '.join(f'{value:.2f}' for value in found)})   ratio {median / alone:.2f}")


def tcp_latency_us(mtu):
    """One way, by qperf between two namespaces over a veth pair."""
    a, b = Namespace(), Namespace()
    server = None
    try:
        make_veth_pair(a, b, mtu)
        server = Process(a.command(["qperf"]))
        wait_until(lambda: is_listening(server.pid, 19765), "qperf")
        text = run(b.command(["qperf", "10.0.0.1", "-t", 2, "-m", 64, "-v", "tcp_lat"]), 60)
        value, unit = re.search(r"latency\s*=\s*([\d.]+) (\w+)", text).groups()
        return float(value) * {"ns": 1e-3, "us": 1, "ms": 1e3}[unit]
    finally:
        if server:
            server.kill()
        a.remove()
        b.remove()


def message_latency(rounds, mtu=9000):
    """One way between two programs, spinning and by events, and TCP's, in turns."""
    labs = {"in-process": WireLab, "iface=": lambda: VethLab(mtu),
            "udp= (unprivileged)": lambda: UdpLab(mtu),
            "net_af_packet": lambda: VethLab(mtu, device="net_af_packet0;iface=eth0")}
    ways = {"spinning": [], "events": ["-e"]}
    found = {(lab, way): [] for lab in labs for way in ways}
    tcp = []
    for _ in range(rounds):
        tcp.append(tcp_latency_us(mtu))
        for name, make_lab in labs.items():
            lab = make_lab()
            try:
                for way, flags in ways.items():
                    row = perftest(lab, "ib_send_lat", "-s", 64, "-n", 20000, *flags)[-1]
                    found[name, way].append((row[4], row[7]))  # Typical, 99 %.
            finally:
                lab.close()
    print(f"one-way latency of 64 B, us, {rounds} rounds in turn; MTU {mtu}")
    print(f"  {'qperf tcp_lat over veth':43}{statistics.median(tcp):8.1f}   ({spread(tcp)})")
    for (name, way), values in found.items():
        p50, p99 = (statistics.median(column) for column in zip(*values))
        print(f"  {f'ib_send_lat {name}, {way}':43}{p50:8.1f}   p99 {p99:.1f}"
              f"   ({spread(value for value, _ in values)})")


def spread(values):
    return " ".join(f"{value:.1f}" for value in values)


def show(lab, program, *arguments):
    """Runs a program of this folder at host `a` and prints what it says."""
    for line in lab.a.run(BENCH / program, *arguments, timeout_s=180).splitlines():
        print("  " + line)


def rates():
    """How exactly rate limits of queue pairs are kept."""
    lab = WireLab()
    try:
        print("rate limits, WRITEs of one program")
        show(lab, "paced_rates", lab.a.gid_index(), lab.b.gid_index())
    finally:
        lab.close()


def latency():
    lab = WireLab()
    try:
        print("one-way latency of an 8 B WRITE, both ends in one program")
        show(lab, "verbs_latency", "-x", lab.a.gid_index(), "-y", lab.b.gid_index())
    finally:
        lab.close()


def calls():
    """What verbs cost their caller, and a program from its start to its first completion."""
    lab = WireLab()
    try:
        print("calls of verbs, medians")
        show(lab, "verbs_calls", lab.a.gid_index(), lab.b.gid_index())
        begin = time.monotonic()
        pingpong(lab, "-n", 1)
        took_s = time.monotonic() - begin
        print(f"  both ends of ibv_rc_pingpong -n 1, by uroce run: {took_s:.2f} s")
    finally:
        lab.close()


def idle_queue_pairs(count):
    """Memory of connected queue pairs that do nothing: the daemon's and the program's share."""
    lab = WireLab()
    program = None
    try:
        daemon = lab.daemons[0].process.pid
        lab.a.run("ibv_devinfo")  # First-time costs of the daemon are not a queue pair's.
        program = lab.a.start(BENCH / "idle_qps", "-n", count, "-x", lab.a.gid_index(), "-y",
                              lab.b.gid_index())
        wait_until(lambda: "before" in program.output(), "the program")
        before = resident_kilobytes(daemon), resident_kilobytes(program.pid)
        os.kill(program.pid, 10)  # SIGUSR1: go on.
        wait_until(lambda: "connected" in program.output() or not program.running(), "them", 120)
        after = resident_kilobytes(daemon), resident_kilobytes(program.pid)
        # Shared pages count in both processes, so the sum is an upper bound.
        daemon_share, program_share = ((after[i] - before[i]) / count for i in (0, 1))
        print(f"memory of {count} connected queue pairs, 128 + 128 WQEs of 1 SGE, KB each:"
              f" daemon {daemon_share:.1f}, program {program_share:.1f} (shared pages in both)")
        begin, used = time.monotonic(), cpu_seconds(daemon)
        time.sleep(5)
        share = (cpu_seconds(daemon) - used) / (time.monotonic() - begin)
        print(f"daemon with {count} idle queue pairs: {share * 100:.2f} % of a core")
    finally:
        if program:
            program.kill()
        lab.close()


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=int, default=5)
    parser.add_argument("--only", choices=["bandwidth", "interfaces", "shared", "latency", "rates",
                                           "memory"])
    options = parser.parse_args()
    print(f"{platform.node()}: {os.cpu_count()} cores, Linux {platform.release()}")
    if options.only in (None, "bandwidth"):
        bandwidth(options.rounds, options.seconds)
    if options.only in (None, "interfaces"):
        interfaces(options.rounds, options.seconds)
    if options.only in (None, "shared"):
        shared_cpus(options.rounds, options.seconds)
    if options.only in (None, "latency"):
        latency()
        message_latency(options.rounds)
        calls()
    if options.only in (None, "rates"):
        rates()
    if options.only in (None, "memory"):
        idle_queue_pairs(1000)


if __name__ == "__main__":
    main()
