/* SPDX-License-Identifier: Apache-2.0 */
#include "frames.h"

#include <string.h>

#define ETHERNET 14
#define IPV4 20
#define IPV6 40
#define UDP 8
#define BTH 12
#define ICRC 4
#define ROCE_PORT 4791
#define UDP_PROTOCOL 17
#define FRAGMENT_HEADER 44
#define HOP_BY_HOP 0
#define EXTENSION_BYTES 8 /* Also of IPv4 options. */
#define MORE_FRAGMENTS 0x2000
#define LARGEST_ROCE_PAYLOAD 4096
#define CRC32_POLYNOMIAL 0xedb88320u

/* A frame under construction, from the IP header on. */
struct image {
  uint8_t* frame;
  size_t ip, udp, end;
  int is_ipv6;
};

uint64_t flood_next(struct flood_random* random) {
  uint64_t x = random->state;
  x ^= x >> 12;
  x ^= x << 25;
  x ^= x >> 27;
  random->state = x;
  return x * 0x2545f4914f6cdd1dull;
}

static size_t below(struct flood_random* random, size_t bound) {
  return (size_t)((flood_next(random) >> 16) % bound);
}

static void fill(struct flood_random* random, uint8_t* bytes, size_t length) {
  for (size_t i = 0; i < length; ++i) bytes[i] = (uint8_t)(flood_next(random) >> 56);
}

static void put16(uint8_t* at, size_t value) {
  at[0] = (uint8_t)(value >> 8);
  at[1] = (uint8_t)value;
}

static uint32_t crc32_of(uint32_t state, const uint8_t* bytes, size_t length) {
  for (size_t i = 0; i < length; ++i) {
    state ^= bytes[i];
    for (int bit = 0; bit < 8; ++bit) state = state >> 1 ^ (CRC32_POLYNOMIAL & -(state & 1));
  }
  return state;
}

/* ICRC with the fields that routers change as ones (IBTA vol. 1, annex A17). */
static void put_icrc(const struct image* image) {
  static const uint8_t kLocalRoute[8] = {255, 255, 255, 255, 255, 255, 255, 255};
  uint8_t head[IPV6 + UDP + BTH];
  const size_t ip_bytes = image->udp - image->ip;
  const size_t head_bytes = ip_bytes + UDP + BTH;
  memcpy(head, image->frame + image->ip, head_bytes);
  if (image->is_ipv6) {
    head[0] |= 0x0f;
    head[1] = head[2] = head[3] = head[7] = 0xff;
  } else {
    head[1] = head[8] = head[10] = head[11] = 0xff;
  }
  head[ip_bytes + 6] = head[ip_bytes + 7] = 0xff;
  head[ip_bytes + UDP + 4] = 0xff;
  uint32_t state = crc32_of(~0u, kLocalRoute, sizeof(kLocalRoute));
  state = crc32_of(state, head, head_bytes);
  state = ~crc32_of(state, image->frame + image->ip + head_bytes,
                    image->end - ICRC - image->ip - head_bytes);
  for (int i = 0; i < ICRC; ++i) image->frame[image->end - ICRC + i] = (uint8_t)(state >> 8 * i);
}

static void put_ipv4_checksum(uint8_t* ip, size_t header_bytes) {
  uint32_t sum = 0;
  put16(ip + 10, 0);
  for (size_t i = 0; i < header_bytes; i += 2) sum += (uint32_t)(ip[i] << 8 | ip[i + 1]);
  while (sum >> 16) sum = (sum & 0xffff) + (sum >> 16);
  put16(ip + 10, ~sum & 0xffff);
}

/* IP header whose lengths fit; `extra` bytes of options or extension header come behind it. */
static void put_ip(struct image* image, const struct flood_ends* ends, size_t extra,
                   size_t udp_bytes, uint8_t next_header) {
  uint8_t* ip = image->frame + image->ip;
  if (image->is_ipv6) {
    memset(ip, 0, IPV6);
    ip[0] = 0x60;
    put16(ip + 4, extra + udp_bytes);
    ip[6] = next_header;
    ip[7] = 64;
    memcpy(ip + 8, ends->source_v6, 16);
    memcpy(ip + 24, ends->destination_v6, 16);
    image->udp = image->ip + IPV6 + extra;
  } else {
    memset(ip, 0, IPV4 + extra);
    ip[0] = (uint8_t)(0x40 | (IPV4 + extra) / 4);
    put16(ip + 2, IPV4 + extra + udp_bytes);
    put16(ip + 6, 0x4000);
    ip[8] = 64;
    ip[9] = UDP_PROTOCOL;
    memcpy(ip + 12, ends->source_v4, 4);
    memcpy(ip + 16, ends->destination_v4, 4);
    image->udp = image->ip + IPV4 + extra;
  }
  image->end = image->udp + udp_bytes;
}

/* A packet with random BTH and payload, right otherwise. */
static struct image make_packet(struct flood_random* random, const struct flood_ends* ends,
                                uint8_t* frame, size_t payload, size_t extra, uint8_t next_header) {
  struct image image = {.frame = frame, .ip = ETHERNET, .is_ipv6 = below(random, 2) == 0};
  put16(frame + 12, image.is_ipv6 ? 0x86dd : 0x0800);
  const size_t udp_bytes = UDP + BTH + payload + ICRC;
  put_ip(&image, ends, extra, udp_bytes, next_header);
  if (extra != 0 && image.is_ipv6) {
    fill(random, frame + image.ip + IPV6, extra);
    frame[image.ip + IPV6] = UDP_PROTOCOL;
    frame[image.ip + IPV6 + 1] = 0; /* One unit of eight bytes. */
  }
  uint8_t* udp = frame + image.udp;
  put16(udp, 0xc000 | below(random, 0x4000));
  put16(udp + 2, ROCE_PORT);
  put16(udp + 4, udp_bytes);
  put16(udp + 6, 0);
  fill(random, udp + UDP, BTH + payload);
  udp[UDP + 1] &= 0xf0; /* Header version 0. */
  put16(udp + UDP + 2, 0xffff);
  if (!image.is_ipv6) put_ipv4_checksum(frame + image.ip, image.udp - image.ip);
  return image;
}

static size_t make_fragment(struct flood_random* random, const struct flood_ends* ends,
                            uint8_t* frame) {
  struct image image = make_packet(random, ends, frame, 64, 0, FRAGMENT_HEADER);
  if (!image.is_ipv6) {
    put16(frame + image.ip + 6, MORE_FRAGMENTS | below(random, 0x2000));
    put_ipv4_checksum(frame + image.ip, IPV4);
  }
  return image.end;
}

static size_t make_wrong_length(struct flood_random* random, const struct flood_ends* ends,
                                uint8_t* frame) {
  struct image image = make_packet(random, ends, frame, below(random, 1000), 0, UDP_PROTOCOL);
  const size_t wrong = below(random, 0x10000);
  if (below(random, 2) == 0) {
    put16(frame + image.udp + 4, wrong);
  } else {
    put16(frame + image.ip + (image.is_ipv6 ? 4 : 2), wrong);
    if (!image.is_ipv6) put_ipv4_checksum(frame + image.ip, IPV4);
  }
  return image.end;
}

/* A SEND ONLY that is right but for its queue pair, and for its ICRC if `breaks_icrc`. */
static size_t make_send(struct flood_random* random, const struct flood_ends* ends, uint8_t* frame,
                        int breaks_icrc) {
  struct image image = make_packet(random, ends, frame, 4 * below(random, 256), 0, UDP_PROTOCOL);
  frame[image.udp + UDP] = 0x04;
  frame[image.udp + UDP + 1] = 0;
  put_icrc(&image);
  if (breaks_icrc) frame[image.end - 1] ^= 0x5a;
  return image.end;
}

size_t flood_make(struct flood_random* random, enum flood_kind kind, const struct flood_ends* ends,
                  uint8_t* frame, size_t room) {
  struct image image;
  memcpy(frame, ends->destination_mac, 6);
  memcpy(frame + 6, ends->source_mac, 6);
  switch (kind) {
    case FLOOD_RANDOM: {
      const size_t length = ETHERNET + below(random, 1500);
      fill(random, frame + 12, length - 12);
      return length;
    }
    case FLOOD_UNDERSIZE:
      image = make_packet(random, ends, frame, 200, 0, UDP_PROTOCOL);
      return ETHERNET + below(random, image.end - ETHERNET);
    case FLOOD_OVERSIZE: {
      const size_t headers = ETHERNET + IPV6 + UDP + BTH + ICRC;
      const size_t most = room - headers;
      const size_t least = most > LARGEST_ROCE_PAYLOAD + 64 ? LARGEST_ROCE_PAYLOAD + 64 : most / 2;
      return make_packet(random, ends, frame, least + below(random, most - least), 0, UDP_PROTOCOL)
          .end;
    }
    case FLOOD_FRAGMENT:
      return make_fragment(random, ends, frame);
    case FLOOD_OPTIONS:
      return make_packet(random, ends, frame, 64, EXTENSION_BYTES, HOP_BY_HOP).end;
    case FLOOD_WRONG_LENGTH:
      return make_wrong_length(random, ends, frame);
    case FLOOD_WRONG_ICRC:
      return make_send(random, ends, frame, 1);
    case FLOOD_RANDOM_OPCODE:
      image = make_packet(random, ends, frame, below(random, 1024), 0, UDP_PROTOCOL);
      put_icrc(&image);
      return image.end;
    case FLOOD_KINDS:
      break;
  }
  return ETHERNET;
}

int flood_is_ipv4_fragment(const uint8_t* frame, size_t length) {
  if (length < ETHERNET + IPV4 || frame[12] != 0x08 || frame[13] != 0x00) return 0;
  const uint8_t* ip = frame + ETHERNET;
  const size_t header = 4u * (ip[0] & 0x0fu);
  const size_t total = (size_t)ip[2] << 8 | ip[3];
  /* The kernel gives what is no IPv4 packet to the sockets as it is. */
  if (ip[0] >> 4 != 4 || header < IPV4) return 0;
  if (total < header || total > length - ETHERNET) return 0;
  return (ip[6] & MORE_FRAGMENTS >> 8) != 0 || ((ip[6] & 0x1f) | ip[7]) != 0;
}
