/* SPDX-License-Identifier: Apache-2.0
 * A port of a switch that marks by RED: a program for the egress of an interface (tc, direct
 * action), for kernels that have tbf and cls_bpf but not sch_red. It stands in front of a shaper of
 * RATE_BPS and computes how much that one holds, as if it drained at its rate without a pause.
 * Frames are never dropped here: the shaper's limit does that.
 *
 * RATE_BPS, KMIN_BYTES, KMAX_BYTES and PMAX_PERCENT are given by the compiler's -D. A frame that
 * finds less than KMIN_BYTES is not marked, just below KMAX_BYTES PMAX_PERCENT of them are, and
 * from there on all (docs/protocol/congestion.md, section 5): with two zeros every frame. */
#include <linux/bpf.h>
#include <linux/pkt_cls.h>

#define NANOS_PER_SECOND 1000000000ull
#define DRAIN_NANOS(bytes) ((bytes)*8ull * NANOS_PER_SECOND / (RATE_BPS))
#define RANDOM_RANGE 0x100000000ull

/* Functions of the kernel that every program may call, under any licence. */
static __u64 (*const now_ns)(void) = (void*)BPF_FUNC_ktime_get_ns;
static __u32 (*const random)(void) = (void*)BPF_FUNC_get_prandom_u32;
static long (*const set_ce)(struct __sk_buff*) = (void*)BPF_FUNC_skb_ecn_set_ce;

/* When the shaper will be empty. Two CPUs that send at once lose one of their two sums, a frame. */
__u64 empty_at_ns;

static int is_marked(__u64 queue_ns) {
  const __u64 least = DRAIN_NANOS(KMIN_BYTES), most = DRAIN_NANOS(KMAX_BYTES);
  if (queue_ns >= most) return 1;
  if (queue_ns < least) return 0;
  return random() < RANDOM_RANGE * PMAX_PERCENT / 100 * (queue_ns - least) / (most - least + 1);
}

__attribute__((section("tc"))) int mark(struct __sk_buff* frame) {
  const __u64 now = now_ns();
  const __u64 begin = empty_at_ns > now ? empty_at_ns : now;
  empty_at_ns = begin + DRAIN_NANOS(frame->wire_len);
  /* Marks ECN-capable packets alone; a superframe of several packets as a whole. */
  if (is_marked(begin - now)) set_ce(frame);
  return TC_ACT_OK;
}

char terms[] __attribute__((section("license"))) = "Apache-2.0";
