/* SPDX-License-Identifier: Apache-2.0
 * Sends bad frames out of an interface for a while, as fast as it can or as it is told.
 *
 *   flood INTERFACE DESTINATION_MAC SOURCE_V4 DESTINATION_V4 SOURCE_V6 DESTINATION_V6 SECONDS SEED
 *         [FRAMES_PER_SECOND]
 *   flood FILE DESTINATION_MAC SOURCE_V4 DESTINATION_V4 SOURCE_V6 DESTINATION_V6 SEED
 *   flood INTERFACE FRAMES SECONDS FRAMES_PER_SECOND
 *
 * The second form writes each frame once, as a pcap file. The third sends those of a file in turn:
 * up to 2048 lines of hexadecimal digits.
 *
 * Prints {"sent": N, "ipv4_fragments": N, "refused": N, "seconds": S} at the end; the second number
 * is part of the first. The frames are made before and sent in turn. */
#include <arpa/inet.h>
#include <errno.h>
#include <linux/if_packet.h>
#include <net/ethernet.h>
#include <net/if.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <time.h>

#include "frames.h"

#define FRAMES 2048 /* Different ones. */
#define BURST 64

struct flood {
  int socket;
  size_t room;
  struct flood_ends ends;
  uint8_t* bytes;
  struct iovec parts[FRAMES];
  struct mmsghdr messages[FRAMES];
  uint8_t is_fragment[FRAMES];
  uint64_t sent, ipv4_fragments, refused;
};

static void die(const char* what) {
  fprintf(stderr, "flood: %s: %s\n", what, strerror(errno));
  exit(1);
}

static double now_s(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

/* A packet socket that sends past the queueing discipline, and what it must know of the interface.
 */
static void open_interface(struct flood* flood, const char* name) {
  struct ifreq request = {0};
  const int on = 1;
  flood->socket = socket(AF_PACKET, SOCK_RAW, 0);
  if (flood->socket < 0) die("packet socket");
  snprintf(request.ifr_name, sizeof(request.ifr_name), "%s", name);
  if (ioctl(flood->socket, SIOCGIFHWADDR, &request) != 0) die(name);
  memcpy(flood->ends.source_mac, request.ifr_hwaddr.sa_data, 6);
  if (ioctl(flood->socket, SIOCGIFMTU, &request) != 0) die(name);
  flood->room = (size_t)request.ifr_mtu + ETH_HLEN;
  if (flood->room > FLOOD_MAX_FRAME) flood->room = FLOOD_MAX_FRAME;
  const struct sockaddr_ll address = {.sll_family = AF_PACKET,
                                      .sll_ifindex = (int)if_nametoindex(name)};
  if (bind(flood->socket, (const struct sockaddr*)&address, sizeof(address)) != 0) die(name);
  setsockopt(flood->socket, SOL_PACKET, PACKET_QDISC_BYPASS, &on, sizeof(on));
}

static void read_ends(struct flood_ends* ends, char** words) {
  unsigned mac[6];
  const int found =
      sscanf(words[0], "%x:%x:%x:%x:%x:%x", &mac[0], &mac[1], &mac[2], &mac[3], &mac[4], &mac[5]);
  for (int i = 0; i < 6; ++i) ends->destination_mac[i] = (uint8_t)mac[i];
  errno = EINVAL;
  if (found != 6 || inet_pton(AF_INET, words[1], ends->source_v4) != 1 ||
      inet_pton(AF_INET, words[2], ends->destination_v4) != 1 ||
      inet_pton(AF_INET6, words[3], ends->source_v6) != 1 ||
      inet_pton(AF_INET6, words[4], ends->destination_v6) != 1) {
    die("addresses");
  }
}

/* All kinds in turn, but long frames, which cost as much as three others, only now and then. */
static enum flood_kind kind_of(int frame) {
  const enum flood_kind kind = (enum flood_kind)(frame % FLOOD_KINDS);
  return kind == FLOOD_OVERSIZE && frame / FLOOD_KINDS % 4 != 0 ? FLOOD_RANDOM : kind;
}

static void make_frames(struct flood* flood, uint64_t seed) {
  struct flood_random random = {seed * 2 + 1};
  flood->bytes = malloc((size_t)FRAMES * FLOOD_MAX_FRAME);
  if (flood->bytes == NULL) die("frames");
  for (int i = 0; i < FRAMES; ++i) {
    uint8_t* frame = flood->bytes + (size_t)i * FLOOD_MAX_FRAME;
    flood->parts[i].iov_base = frame;
    flood->parts[i].iov_len = flood_make(&random, kind_of(i), &flood->ends, frame, flood->room);
    flood->is_fragment[i] = (uint8_t)flood_is_ipv4_fragment(frame, flood->parts[i].iov_len);
    flood->messages[i].msg_hdr.msg_iov = &flood->parts[i];
    flood->messages[i].msg_hdr.msg_iovlen = 1;
  }
}

/* The bytes of a line of hexadecimal digits; returns how many. */
static size_t read_frame(const char* line, uint8_t* frame) {
  size_t length = 0;
  unsigned byte = 0;
  while (length < FLOOD_MAX_FRAME && sscanf(line + 2 * length, "%2x", &byte) == 1) {
    frame[length++] = (uint8_t)byte;
  }
  return length;
}

/* Where a file has fewer frames than there is room for, they come again. */
static void read_frames(struct flood* flood, const char* path) {
  FILE* const file = fopen(path, "r");
  flood->bytes = malloc((size_t)FRAMES * FLOOD_MAX_FRAME);
  if (file == NULL || flood->bytes == NULL) die(path);
  char* line = NULL;
  size_t room = 0;
  int count = 0;
  for (; count < FRAMES && getline(&line, &room, file) > 0; ++count) {
    uint8_t* frame = flood->bytes + (size_t)count * FLOOD_MAX_FRAME;
    flood->parts[count] = (struct iovec){frame, read_frame(line, frame)};
  }
  free(line);
  fclose(file);
  errno = EINVAL;
  if (count == 0) die(path);
  for (int i = 0; i < FRAMES; ++i) {
    flood->parts[i] = flood->parts[i % count];
    flood->messages[i].msg_hdr.msg_iov = &flood->parts[i];
    flood->messages[i].msg_hdr.msg_iovlen = 1;
  }
}

/* The kernel refuses a frame when the other end's queue is full; that one is not sent again. */
static void send_burst(struct flood* flood, size_t* place) {
  const size_t left = FRAMES - *place;
  const unsigned count = (unsigned)(left < BURST ? left : BURST);
  const int sent = sendmmsg(flood->socket, flood->messages + *place, count, 0);
  if (sent > 0) {
    flood->sent += (uint64_t)sent;
    for (int i = 0; i < sent; ++i) flood->ipv4_fragments += flood->is_fragment[*place + (size_t)i];
    *place += (size_t)sent;
  } else if (errno == ENOBUFS || errno == EAGAIN) {
    ++flood->refused;
    ++*place;
  } else if (errno != EINTR) {
    die("send");
  }
  *place %= FRAMES;
}

static double run(struct flood* flood, double seconds, double rate) {
  const double begin = now_s();
  size_t place = 0;
  double passed = 0;
  while ((passed = now_s() - begin) < seconds) {
    const double due = rate > 0 ? rate * passed : 1e300;
    if ((double)(flood->sent + flood->refused) >= due) continue;
    send_burst(flood, &place);
  }
  return passed;
}

/* Headers of a pcap file and of each frame in it; microseconds, Ethernet. */
static void write_file(const struct flood* flood, const char* path) {
  const uint32_t head[6] = {0xa1b2c3d4, 4u << 16 | 2, 0, 0, 65535, 1};
  FILE* const file = fopen(path, "wb");
  if (file == NULL) die(path);
  fwrite(head, sizeof(head), 1, file);
  for (int i = 0; i < FRAMES; ++i) {
    const struct iovec* part = &flood->parts[i];
    const uint32_t length = (uint32_t)part->iov_len;
    const uint32_t record[4] = {0, (uint32_t)i, length, length};
    fwrite(record, sizeof(record), 1, file);
    fwrite(part->iov_base, length, 1, file);
  }
  if (ferror(file) || fclose(file) != 0) die(path);
}

static int make_file(char** argv) {
  static struct flood flood = {.room = FLOOD_MAX_FRAME, .ends.source_mac = {2, 0, 0, 0, 0, 0x66}};
  read_ends(&flood.ends, argv + 2);
  make_frames(&flood, strtoull(argv[7], NULL, 10));
  write_file(&flood, argv[1]);
  free(flood.bytes);
  return 0;
}

static void print_result(const struct flood* flood, double passed) {
  printf("{\"sent\": %llu, \"ipv4_fragments\": %llu, \"refused\": %llu, \"seconds\": %.3f}\n",
         (unsigned long long)flood->sent, (unsigned long long)flood->ipv4_fragments,
         (unsigned long long)flood->refused, passed);
}

static int send_file(struct flood* flood, char** argv) {
  open_interface(flood, argv[1]);
  read_frames(flood, argv[2]);
  print_result(flood, run(flood, atof(argv[3]), atof(argv[4])));
  free(flood->bytes);
  return 0;
}

int main(int argc, char** argv) {
  static struct flood flood;
  if (argc == 8) return make_file(argv);
  if (argc == 5) return send_file(&flood, argv);
  if (argc != 9 && argc != 10) {
    fprintf(stderr, "flood: 4, or 7 to 9 arguments wanted, %d found\n", argc - 1);
    return 2;
  }
  open_interface(&flood, argv[1]);
  read_ends(&flood.ends, argv + 2);
  make_frames(&flood, strtoull(argv[8], NULL, 10));
  print_result(&flood, run(&flood, atof(argv[7]), argc == 10 ? atof(argv[9]) : 0));
  free(flood.bytes);
  return 0;
}
