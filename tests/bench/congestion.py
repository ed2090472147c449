# SPDX-License-Identifier: Apache-2.0
"""Real programs through one congested port: perftest from several hosts to one behind a port that
marks, or drops alone, on a bridge of the kernel (a daemon a host) and on --switch (one
daemon); and the same in virtual time by `uroce sim`. Prints for each profile what arrives, how it
is shared, and what it costs in repeated packets. Needs root, clang and a build."""
import argparse
import json
import os
import platform
import statistics
import subprocess
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests" / "e2e"))

from labs.congested_lab import CongestedLab, RedPort  # noqa: E402
from labs.flows import Flows  # noqa: E402
from labs.switch_lab import SwitchLab  # noqa: E402

PROFILES = ("off", "dcqcn", "dcqcn-mlx", "delay")
BUFFER = 10**6
MARKS = (20_000, 80_000, 20)
TOOLS = {"write": ("ib_write_bw", "-s", 65536), "read": ("ib_read_bw", "-s", 65536),
         "ud": ("ib_send_bw", "-c", "UD", "-s", 4096)}


class Bridge:
    """Namespaces around a bridge of the kernel."""

    def __init__(self, senders, profile, marks, mbps):
        kmin, kmax, pmax = MARKS if marks else (None, None, None)
        self.lab = CongestedLab(senders, RedPort(mbps * 10**6, BUFFER, kmin, kmax, pmax),
                                congestion=profile)

    def drops(self):
        return self.lab.drops()


class Switch:
    """The NICs of one daemon's switch, with links of ten times the port's rate."""

    def __init__(self, senders, profile, marks, mbps, repeat=""):
        ecn = "ecn={}:{}:{}%".format(*MARKS) if marks else "ecn=off"
        self.lab = SwitchLab(f"ports={senders + 1},rate={mbps * 10}M,delay=5us,"
                             f"buffer={BUFFER},{ecn},cc={profile}{repeat}")
        self.lab.set("uroce0", f"rate={mbps}M")

    def drops(self):
        port = self.lab.port("uroce0")
        return port["tail_drops"] + port["early_drops"]


NETWORKS = {"bridge": Bridge, "switch": Switch}
BUILD = Path(os.environ.get("UROCE_BUILD", ROOT / "build"))

SCENARIO = """
title = "run-congestion"
duration = "{duration}s"
warm_up = "{warm_up}s"
seed = {seed}
[network]
topology = "star"
hosts = {hosts}
rate = "{edge}M"
delay = "5us"
[[link_of]]
link = "h0 - s0"
rate = "{port}M"
[switch]
buffer = {buffer}
ecn = "{ecn}"
[nic]
cc = {cc}
selective_repeat = {selective}
ack_timeout = "1073ms"  # Rounded up to perftest's 4.096 us * 2^18.
[[workload]]
kind = "incast"
to = "h0"
operation = "{operation}"
message = 65536
depth = 128
spread = "1s"  # perftest starts them some 0.3 s apart.
"""


def settings_of(profile):
    """"dcqcn,cc.rpg_ai_rate=5" as a value of TOML."""
    name, *parameters = profile.split(",")
    return "{ " + ", ".join([f'profile = "{name}"', *(
        parameter.removeprefix("cc.").replace("=", " = ") for parameter in parameters)]) + " }"


def simulate(options, profile, marks, tool, seed):
    """What `measure` returns, by `uroce sim`, for as long a time. The run is that of the settling,
    which is the same each time, and then goes on."""
    before, after = (totals_of(options, profile, marks, tool, duration_s, seed)
                     for duration_s in (options.settle, options.settle + options.seconds))
    delta = {name: after[name] - before[name] for name in after}
    return {"goodput": after["goodput_bps"] / 1e9, "jain": after["fairness"],
            "resent": 100 * delta["retransmitted"] / delta["frames"],
            "drops": (delta["tail_drops"] + delta["early_drops"]) / options.seconds,
            "marks": delta["marked_frames"] / options.seconds,
            "cnps": delta["cnps"] / options.seconds,
            "handled": delta["cnps"] / options.seconds}


def totals_of(options, profile, marks, tool, duration_s, seed):
    if tool == "ud":
        sys.exit("uroce sim has no datagrams")
    text = SCENARIO.format(
        seed=seed, duration=duration_s, warm_up=min(options.settle, duration_s / 2),
        hosts=options.senders + 1, edge=options.mbps * 10, port=options.mbps, buffer=BUFFER,
        cc=settings_of(profile), ecn="{}:{}:{}%".format(*MARKS) if marks else "off",
        operation=tool, selective="false" if options.go_back_n else "true")
    command = [BUILD / "tools/uroce", "sim", "--json", "/dev/stdin"]
    done = subprocess.run(command, input=text, capture_output=True, check=False, text=True)
    if done.returncode:
        sys.exit(done.stderr)
    return json.loads(done.stdout)["results"]["totals"]


def counters(network):
    """Sums over all hosts, and the drops of the port."""
    total = {"drops": network.drops()}
    for host in network.lab.hosts:
        for name, value in host.counters().items():
            name = name.removeprefix("counters.")
            if isinstance(value, int):
                total[name] = total.get(name, 0) + value
    return total


def favour(lab):
    for process in {host.daemon.process for host in lab.hosts}:
        for task in os.listdir(f"/proc/{process.pid}/task"):
            os.setpriority(os.PRIO_PROCESS, int(task), -20)


def jain(rates):
    squares = sum(rate * rate for rate in rates)
    return sum(rates) ** 2 / (len(rates) * squares) if squares else 0


def measure(options, network_name, profile, marks, tool, round_number):
    if network_name == "sim":
        return simulate(options, profile, marks, tool, seed=round_number)
    arguments = [options.senders, profile, marks, options.mbps]
    if options.go_back_n and network_name == "switch":
        arguments.append(",selective-repeat=off")
    network = NETWORKS[network_name](*arguments)
    flows = None
    if options.favour:
        favour(network.lab)
    try:
        flows = Flows(network.lab, TOOLS[tool][0], range(1, options.senders + 1), 0,
                      *TOOLS[tool][1:])
        time.sleep(options.settle)
        before, begin = counters(network), time.monotonic()
        rates = flows.gbps(options.seconds)
        after, took_s = counters(network), time.monotonic() - begin
        delta = {name: after[name] - before.get(name, 0) for name in after}
        flows.stop()
        # What programs say of a second is too little where they wait for a CPU.
        messages = delta["rx_write_requests"] * 8 * TOOLS[tool][2] / took_s / 1e9
        return {
            "goodput": messages if tool == "write" else sum(rates), "jain": jain(rates),
            "resent": 100 * delta["retransmitted_pkts"] / max(delta["port_xmit_packets"], 1),
            "drops": delta["drops"] / took_s,
            "marks": delta["np_ecn_marked_roce_packets"] / took_s,
            "cnps": delta["np_cnp_sent"] / took_s, "handled": delta["rp_cnp_handled"] / took_s}
    finally:
        if flows:
            flows.stop()
        network.lab.tear_down()


COLUMNS = (("goodput", "Gb/s", 8, 3), ("jain", "Jain", 7, 3), ("resent", "resent %", 9, 3),
           ("drops", "drops/s", 8, 0), ("marks", "marks/s", 8, 0), ("cnps", "CNPs/s", 8, 0),
           ("handled", "handled", 8, 0))


def main():
    parser = argparse.ArgumentParser(prog="tests/bench/run-congestion", description=__doc__)
    parser.add_argument("--senders", type=int, default=4)
    parser.add_argument("--favour", action="store_true",
                        help="daemons come before programs, which spin, at the CPUs")
    parser.add_argument("--go-back-n", action="store_true",
                        help="no selective repeat, on --switch and in uroce sim")
    parser.add_argument("--mbps", type=int, default=1000, help="the rate of the port")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--settle", type=float, default=3, help="seconds before each measurement")
    parser.add_argument("--seconds", type=float, default=10, help="of each measurement")
    parser.add_argument("--profiles", nargs="+", default=PROFILES,
                        help="also with parameters: dcqcn,cc.rpg_ai_rate=5")
    parser.add_argument("--networks", nargs="+", choices=[*NETWORKS, "sim"],
                        default=list(NETWORKS))
    parser.add_argument("--tools", nargs="+", choices=TOOLS, default=["write"])
    parser.add_argument("--marks", nargs="+", choices=["marked", "unmarked"],
                        default=["marked", "unmarked"])
    options = parser.parse_args()
    print(f"{platform.node()}: {os.cpu_count()} cores, Linux {platform.release()}, load "
          f"{os.getloadavg()[0]:.1f}; {options.senders}:1 through {options.mbps / 1000:g} Gb/s, "
          f"medians of {options.rounds} rounds of {options.seconds:g} s")
    print(f"{'network':8}{'port':9}{'tool':6}{'profile':26}"
          + "".join(f"{title:>{width}}" for _, title, width, _ in COLUMNS), flush=True)
    for network in options.networks:
        for marks in options.marks:
            for tool in options.tools:
                runs = {profile: [] for profile in options.profiles}
                for number in range(options.rounds):
                    for profile, its in runs.items():
                        its.append(measure(options, network, profile, marks == "marked", tool,
                                           number + 1))
                for profile, its in runs.items():
                    print(f"{network:8}{marks:9}{tool:6}{profile:26}" + "".join(
                        f"{statistics.median(run[name] for run in its):{width}.{digits}f}"
                        for name, _, width, digits in COLUMNS), flush=True)


if __name__ == "__main__":
    main()
