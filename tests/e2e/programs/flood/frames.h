/* SPDX-License-Identifier: Apache-2.0
 * Ethernet frames that no honest RoCE peer sends, made from a seed. */
#ifndef UROCE_TESTS_FLOOD_FRAMES_H_
#define UROCE_TESTS_FLOOD_FRAMES_H_

#include <stddef.h>
#include <stdint.h>

#define FLOOD_MAX_FRAME 9014 /* Of an interface with an MTU of 9000. */

/* What is wrong with a frame. */
enum flood_kind {
  FLOOD_RANDOM,        /* all but the MAC addresses */
  FLOOD_UNDERSIZE,     /* cut anywhere, lengths left as they were */
  FLOOD_OVERSIZE,      /* longer than any RoCE packet */
  FLOOD_FRAGMENT,      /* IPv4 fragments, IPv6 fragment header */
  FLOOD_OPTIONS,       /* IPv4 options, IPv6 hop-by-hop header */
  FLOOD_WRONG_LENGTH,  /* of IP or of UDP */
  FLOOD_WRONG_ICRC,    /* else a good packet of an unknown queue pair */
  FLOOD_RANDOM_OPCODE, /* right up to the ICRC, random BTH and payload */
  FLOOD_KINDS
};

/* Between whom. */
struct flood_ends {
  uint8_t source_mac[6], destination_mac[6];
  uint8_t source_v4[4], destination_v4[4];
  uint8_t source_v6[16], destination_v6[16];
};

/* A small generator, so that a seed makes the same frames everywhere (xorshift64*). */
struct flood_random {
  uint64_t state; /* not 0 */
};
uint64_t flood_next(struct flood_random* random);

/* Makes one frame of up to `room` bytes; `room` is at most FLOOD_MAX_FRAME and at least 1514.
 * Returns its length, 14 or more. */
size_t flood_make(struct flood_random* random, enum flood_kind kind, const struct flood_ends* ends,
                  uint8_t* frame, size_t room);

/* Whether it is a fragment of an IPv4 packet, which the kernel may keep to reassemble it. */
int flood_is_ipv4_fragment(const uint8_t* frame, size_t length);

#endif
