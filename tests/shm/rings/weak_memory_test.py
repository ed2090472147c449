# SPDX-License-Identifier: Apache-2.0
"""The protocols of shared memory on a machine that orders as little as arm64 may: x86-64, where all
tests run, hides a missing fence. Each thread is a list of steps that are done in any order that the
architecture allows, on one memory (arm64 is multi-copy atomic), and all orders are tried. A
read-modify-write is a pair of exclusive load and store, the weakest form that compilers make of it.
The steps are those of doorbells.h, completion_queue.h and work_queue.h; each protocol
is tried without its fence too, to see that the search finds what the fence prevents."""
import unittest
from dataclasses import dataclass, field
from typing import Callable


@dataclass(frozen=True)
class Step:
    kind: str  # load, store, fence
    place: str = ""
    to: str = ""  # The register of a load.
    value: Callable | int = 0  # Of a store: of the registers.
    needs: frozenset = field(default_factory=frozenset)  # Registers of value and condition.
    condition: Callable | None = None  # A step whose condition is false does nothing.
    acquires: bool = False
    releases: bool = False
    pair: int = 0  # Load and store of one read-modify-write have the same number.


def load(to, place, acquires=False):
    return Step("load", place, to, acquires=acquires)


def store(place, value, releases=False):
    return Step("store", place, value=value, releases=releases)


FENCE = Step("fence")
_pairs = iter(range(1, 1000))


def change(to, place, value, condition=None, needs=()):
    """A read-modify-write of the order SEQ_CST; `to` gets the old value."""
    pair = next(_pairs)
    return [Step("load", place, to, acquires=True, pair=pair),
            Step("store", place, value=value, needs=frozenset({to, *needs}), condition=condition,
                 releases=True, pair=pair)]


def is_ordered(first, second):
    """Whether arm64 keeps these two in the order of the program."""
    if "fence" in (first.kind, second.kind) or first.place == second.place:
        return True
    if first.acquires or second.releases:
        return True
    return first.to in second.needs  # A store that depends on a load; only stores have needs.


def outcomes(memory, *threads):
    """All that the registers and the memory can be in the end."""
    before = [[{i for i in range(j) if is_ordered(steps[i], steps[j])} for j in range(len(steps))]
              for steps in threads]
    found, seen = set(), set()
    todo = [(tuple(frozenset() for _ in threads), tuple(sorted(memory.items())), (), ())]
    while todo:
        state = todo.pop()
        if state in seen:
            continue
        seen.add(state)
        done, words, registers, reserved = state
        if all(len(own) == len(steps) for own, steps in zip(done, threads)):
            found.add((words, registers))
        for number, steps in enumerate(threads):
            for at, step in enumerate(steps):
                if at in done[number] or not before[number][at] <= done[number]:
                    continue
                after = do(step, dict(words), dict(registers), set(reserved))
                if after is not None:
                    progress = list(done)
                    progress[number] = done[number] | {at}
                    todo.append((tuple(progress), *(tuple(sorted(part)) for part in after)))
    return [dict(words) | dict(registers) for words, registers in found]


def do(step, words, registers, reserved):
    """Memory, registers and reserved pairs after the step; None where an exclusive store fails: the
    whole pair would be done again, later, which is another order that is tried."""
    if step.kind == "load":
        registers[step.to] = words[step.place]
        if step.pair:
            reserved.add((step.pair, step.place))
    elif step.kind == "store" and (step.condition is None or step.condition(registers)):
        if step.pair and (step.pair, step.place) not in reserved:
            return None
        value = step.value(registers) if callable(step.value) else step.value
        words[step.place] = value
        reserved = {entry for entry in reserved if entry[1] != step.place}
    return words.items(), registers.items(), reserved


def ring(fence):
    """rings::Ring of bit 2. The fence is there where the summary bit is set."""
    return [store("produced", 1, releases=True), *change("old", "word", lambda r: r["old"] | 2),
            load("summary seen", "summary"),
            *change("old summary", "summary", 1, lambda r: not r["summary seen"],
                    ("summary seen",)),
            *([FENCE] if fence else []), load("sleeping seen", "sleeping")]


# rings::TakeSome, with the look at the queue behind it.
CLEAR = change("summary taken", "summary", 0)
EXCHANGE = change("taken", "word", 0)
LOOK = load("produced seen", "produced", acquires=True)
TAKE = [*CLEAR, *EXCHANGE, LOOK]
# rings::AnnounceSleep.
ANNOUNCE = [store("sleeping", 1), FENCE, load("rung", "summary")]


def poll(fence):
    """rings::Arm, and the poll that follows."""
    return [store("armed", 1), *([FENCE] if fence else []), load("generation seen", "generation",
                                                               acquires=True)]


def publish(fence):
    """CqeProducer::Push, and rings::TakeArming."""
    return [store("entry", 7), store("generation", 1, releases=True), *([FENCE] if fence else []),
            *change("was armed", "armed", 0, lambda r: r["was armed"])]


def announce_poller(fence):
    """rings::AnnouncePoller, and the poll before the sleep."""
    return [*change("other pollers", "pollers", 1), *([FENCE] if fence else []),
            load("generation seen", "generation", acquires=True)]


def publish_to_pollers(fence):
    """CqeProducer::Push, and rings::HasPollers after the fence of rings::TakeArming."""
    return [store("entry", 7), store("generation", 1, releases=True), *([FENCE] if fence else []),
            load("pollers seen", "pollers")]


class WeakMemoryTest(unittest.TestCase):
    def lost_bells(self, take):
        """Another bell rings already, so that the summary bit is set while the worker takes."""
        memory = {"produced": 0, "word": 1, "summary": 1, "sleeping": 0}
        return [end for end in outcomes(memory, ring(False), take)
                if end["word"] & 2 and not end["summary"]]

    def test_no_doorbell_is_lost(self):
        self.assertEqual(self.lost_bells(TAKE), [])
        self.assertNotEqual(self.lost_bells([*EXCHANGE, *CLEAR, LOOK]), [])

    def test_who_takes_a_doorbell_sees_what_was_posted(self):
        memory = {"produced": 0, "word": 1, "summary": 1, "sleeping": 0}
        ends = outcomes(memory, ring(False), TAKE)
        self.assertTrue(any(end["taken"] & 2 for end in ends))
        self.assertEqual([end for end in ends if end["taken"] & 2 and not end["produced seen"]], [])

    def slept_through(self, fence):
        memory = {"produced": 0, "word": 0, "summary": 0, "sleeping": 0}
        return [end for end in outcomes(memory, ring(fence), ANNOUNCE)
                if not end["rung"] and not end["sleeping seen"]]

    def test_no_worker_sleeps_through_a_doorbell(self):
        self.assertEqual(self.slept_through(True), [])
        self.assertNotEqual(self.slept_through(False), [])

    def missed_completions(self, program_fence, worker_fence):
        memory = {"entry": 0, "generation": 0, "armed": 0}
        return [end for end in outcomes(memory, poll(program_fence), publish(worker_fence))
                if not end["generation seen"] and end["armed"]]

    def test_who_arms_finds_the_completion_or_gets_a_record(self):
        self.assertEqual(self.missed_completions(True, True), [])
        self.assertNotEqual(self.missed_completions(False, True), [])
        self.assertNotEqual(self.missed_completions(True, False), [])

    def slept_beside_completions(self, program_fence, worker_fence):
        memory = {"entry": 0, "generation": 0, "pollers": 0}
        return [end for end in outcomes(memory, announce_poller(program_fence),
                                        publish_to_pollers(worker_fence))
                if not end["generation seen"] and not end["pollers seen"]]

    def test_who_sleeps_has_polled_the_completion_or_is_woken(self):
        self.assertEqual(self.slept_beside_completions(True, True), [])
        self.assertNotEqual(self.slept_beside_completions(False, True), [])
        self.assertNotEqual(self.slept_beside_completions(True, False), [])

    def torn_entries(self, ordered):
        """One entry in two laps: the second waits until the program has given the first back."""
        consumer = [load("generation seen", "generation", acquires=ordered), load("read", "entry"),
                    store("consumed", 1, releases=ordered)]
        memory = {"entry": 1, "generation": 1, "consumed": 0}
        free = lambda r: r["room"]  # noqa: E731
        producer = [load("room", "consumed", acquires=ordered),
                    Step("store", "entry", value=2, needs=frozenset({"room"}), condition=free),
                    Step("store", "generation", value=2, needs=frozenset({"room"}), condition=free,
                         releases=ordered)]
        return [end for end in outcomes(memory, consumer, producer)
                if end["generation seen"] != end["read"]]

    def test_an_entry_is_read_whole_and_before_it_is_written_again(self):
        self.assertEqual(self.torn_entries(True), [])
        self.assertNotEqual(self.torn_entries(False), [])


if __name__ == "__main__":
    unittest.main()
