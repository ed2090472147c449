// SPDX-License-Identifier: Apache-2.0
// Places at which a tracer (bpftrace, perf, gdb) sees what the daemon does: USDT probes of the
// provider "uroce". A probe that nobody watches is a nop: it has no semaphore and no branch, so
// callers pass what they have at hand. docs/guide/tracing.md lists the probes for those who trace;
// tests/e2e/tracing_test.py compares the two.
#pragma once

#include <sys/sdt.h>

#include <cstdint>

namespace uroce::probes {

// NOLINTBEGIN(hicpp-no-assembler): the macros of <sys/sdt.h> are assembler.

/// A worker has taken a send work from its queue.
[[gnu::always_inline]] inline void Post(uint32_t qpn, uint64_t wr_id, uint32_t opcode,
                                        uint32_t length_bytes) {
  DTRACE_PROBE4(uroce, post, qpn, wr_id, opcode, length_bytes);
}

/// A packet of a queue pair is complete and goes to its port.
[[gnu::always_inline]] inline void Send(uint32_t qpn, uint32_t psn, uint32_t opcode,
                                        uint32_t frame_bytes) {
  DTRACE_PROBE4(uroce, send, qpn, psn, opcode, frame_bytes);
}

/// The packet of the Send before is sent again. `cause` is UROCE_RESEND_*.
[[gnu::always_inline]] inline void Retransmit(uint32_t qpn, uint32_t psn, uint32_t cause,
                                              uint32_t number) {
  DTRACE_PROBE4(uroce, retransmit, qpn, psn, cause, number);
}

/// A packet has passed all checks and is shown to the transport of its queue pair.
[[gnu::always_inline]] inline void Receive(uint32_t qpn, uint32_t psn, uint32_t opcode,
                                           uint32_t payload_bytes) {
  DTRACE_PROBE4(uroce, receive, qpn, psn, opcode, payload_bytes);
}

/// A received packet is not used. `reason` is UROCE_REASON_*.
[[gnu::always_inline]] inline void Drop(uint32_t qpn, uint32_t psn, uint32_t reason,
                                        uint32_t detail) {
  DTRACE_PROBE4(uroce, drop, qpn, psn, reason, detail);
}

/// An acknowledgement is sent, or has been received.
[[gnu::always_inline]] inline void Ack(uint32_t qpn, uint32_t psn, uint32_t msn, uint32_t is_sent) {
  DTRACE_PROBE4(uroce, ack, qpn, psn, msn, is_sent);
}

/// A NAK is sent, or has been received.
[[gnu::always_inline]] inline void Nak(uint32_t qpn, uint32_t psn, uint32_t syndrome,
                                       uint32_t is_sent) {
  DTRACE_PROBE4(uroce, nak, qpn, psn, syndrome, is_sent);
}

/// The acknowledgement timer of a queue pair has expired, `count` times by now.
[[gnu::always_inline]] inline void Timeout(uint32_t qpn, uint32_t next_psn, uint64_t count) {
  DTRACE_PROBE3(uroce, timeout, qpn, next_psn, count);
}

/// A completion has been written to its queue.
[[gnu::always_inline]] inline void Complete(uint32_t qpn, uint64_t wr_id, uint32_t status,
                                            uint32_t opcode, uint32_t length_bytes) {
  DTRACE_PROBE5(uroce, complete, qpn, wr_id, status, opcode, length_bytes);
}

/// A memory region can be used from now on. Control thread.
[[gnu::always_inline]] inline void Register(uint32_t key, uint64_t iova, uint64_t length_bytes,
                                            uint32_t access, uint32_t pd) {
  DTRACE_PROBE5(uroce, register, key, iova, length_bytes, access, pd);
}

// NOLINTEND(hicpp-no-assembler)

}  // namespace uroce::probes
