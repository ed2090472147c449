# SPDX-License-Identifier: Apache-2.0
"""Belief in a daemon that means harm: (name, file under verbs-shim, text, what it becomes)."""

MUTATIONS = [
    ("shim-slots-may-be-small", "queue_pair.cc",
     "return slot_bytes >= sizeof(uroce_send_wqe) + tail;",
     "return slot_bytes + tail >= sizeof(uroce_send_wqe);"),
    ("shim-rings-anywhere", "completion_rings.h",
     "         size_bytes <= UROCE_ARENA_BYTES - offset;", "         size_bytes != 0;"),
    ("shim-arena-may-shrink", "session.cc",
     "!IsSealedMemory(arena_fd, UROCE_ARENA_BYTES)", "arena_fd < 0"),
    ("shim-anything-wakes", "session.cc",
     "!IsAnonymous(fds[1 + worker])", "fds[1 + worker] < 0"),
    ("shim-events-of-any-kind", "event_table.cc",
     "source->kind != (is_completion ? EventKind::kCq : kind)", "source->object == nullptr"),
    ("shim-waits-for-what-the-daemon-says", "completion_queue.cc",
     "cq.events.completion_events);", "reply.comp_events_reported);"),
    ("shim-any-error-is-one", "session.h",
     "error >= 0 && error <= kGreatest", "error != kGreatest"),
    ("shim-retires-what-was-not-posted", "poll.cc",
     "advance <= queue.ring.index() - retired", "advance <= queue.ring.layout().depth"),
    ("shim-queue-pair-completes-anywhere", "poll.cc",
     "found->verbs.qp_base.recv_cq != VerbsOf(&cq)", "false"),
]
