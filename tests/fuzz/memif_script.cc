// SPDX-License-Identifier: Apache-2.0
#include "tests/fuzz/memif_script.h"

#include <poll.h>
#include <rte_mempool.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/socket.h>

#include <chrono>
#include <cstdlib>
#include <utility>

#include "drivers/dpdk/eal.h"
#include "pipeline/os/event_signal.h"

namespace uroce::fuzz {
namespace {

using drivers::MemifConnection;
using drivers::memif::Descriptor;
using drivers::memif::Message;
using drivers::memif::MessageType;
using drivers::memif::RingHeader;

constexpr uint32_t kFrames = 512;
constexpr uint16_t kFrameBytes = 2048;
constexpr uint64_t kMemoryBytes = 64 << 10;
constexpr uint16_t kBurst = 64;
constexpr std::chrono::seconds kLong{60};

drivers::MemifConfig Config(bool is_server) {
  drivers::MemifConfig config;
  config.is_server = is_server;
  config.id = 3;
  config.buffer_bytes = 1024;
  config.log2_ring_slots = 5;
  return config;
}

rte_mempool* ThePool() {
  static rte_mempool* const pool = [] {
    if (!drivers::InitEal({.memory_mib = 64}).ok()) std::abort();
    const auto made = drivers::MakePool("fuzz", kFrameBytes, kFrames);
    if (!made.ok()) std::abort();
    return *made;
  }();
  return pool;
}

/// The client's first requests, all correct.
Message GoodMessage(MessageType type) {
  Message message{};
  message.type = type;
  switch (type) {
    case MessageType::kHello:
      message.hello.min_version = message.hello.max_version = drivers::memif::kVersion;
      message.hello.max_log2_ring_slots = 5;
      break;
    case MessageType::kInit:
      message.init.version = drivers::memif::kVersion;
      message.init.id = 3;
      break;
    case MessageType::kAddRegion:
      message.add_region.size_bytes = kMemoryBytes;
      break;
    case MessageType::kAddRing:
      message.add_ring.log2_slots = 5;
      break;
    default:
      break;
  }
  return message;
}

/// One for all scripts: the kernel takes long to release one.
EventSignal* TheSignal() {
  static EventSignal signal = EventSignal::Make().value();
  return &signal;
}

}  // namespace

MemifScript::MemifScript(std::span<const uint8_t> script, rte_mempool* pool)
    : reader_(script), pool_(pool), event_fd_(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {
  int ends[2];
  if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, ends) != 0) {
    std::abort();
  }
  peer_socket_.Reset(ends[1]);
  const bool is_server = reader_.Number(1) % 2 == 0;
  ours_ = std::make_unique<MemifConnection>(Config(is_server), Fd(ends[0]), TheSignal(), pool_);
  auto memory = drivers::MakeMemifMemory(kMemoryBytes);
  if (!memory.ok()) std::abort();
  memory_ = *std::move(memory);
  for (const size_t offset : {size_t{0}, kRingBytes}) {
    reinterpret_cast<RingHeader*>(memory_.bytes().data() + offset)->cookie =
        drivers::memif::kRingCookie;
  }
  is_server_ = is_server;
}

bool MemifScript::Holds() {
  while (!reader_.AtEnd()) {
    if (!Do(static_cast<uint8_t>(reader_.Number(1) % kMemifRecordCount))) return false;
  }
  return true;
}

bool MemifScript::Do(uint8_t record) {
  switch (record) {
    case kMemifGreet:
      Greet();
      return true;
    case kMemifMessage:
      Say();
      return true;
    case kMemifNonsense: {
      const std::vector<uint8_t> bytes = reader_.Bytes(reader_.Number(1));
      static_cast<void>(send(peer_socket_.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL));
      return true;
    }
    case kMemifWrite: {
      const uint32_t offset = reader_.Number(3);
      Write(offset, reader_.Bytes(reader_.Number(1)));
      return true;
    }
    case kMemifIndex: {
      const uint64_t ring = reader_.Number(1) % 2 * kRingBytes;
      const bool is_tail = reader_.Number(1) % 2 == 1;
      Write(ring + (is_tail ? offsetof(RingHeader, tail) : offsetof(RingHeader, head)),
            reader_.Bytes(sizeof(uint16_t)));
      return true;
    }
    case kMemifSlot: {
      const uint64_t ring = reader_.Number(1) % 2 * kRingBytes;
      const uint64_t slot = reader_.Number(1) % (1u << kLog2Slots);
      Write(ring + sizeof(RingHeader) + slot * sizeof(Descriptor),
            reader_.Bytes(sizeof(Descriptor)));
      return true;
    }
    case kMemifRead:
      Read(*ours_);
      return true;
    case kMemifReceive:
      return Receive();
    case kMemifSend:
      return Send();
    default:
      if (!IsUp()) return true;
      if (reader_.Number(1) % 2 == 0) {
        ours_->receiver().StopWake();
      } else {
        static_cast<void>(ours_->receiver().AskForWake());
      }
      return true;
  }
}

/// Lets the peer be a connection like ours, until it has the rings.
void MemifScript::Greet() {
  if (peer_ != nullptr) return;
  peer_ = std::make_unique<MemifConnection>(Config(!is_server_), Fd(dup(peer_socket_.get())),
                                            TheSignal(), pool_);
  for (int turn = 0; turn < 16; ++turn) {
    Read(*peer_);
    Read(*ours_);
  }
}

/// Reads messages, and waits for those that a side thread has to inspect first.
void MemifScript::Read(MemifConnection& connection) {
  static_cast<void>(connection.OnReadable());
  while (connection.is_inspecting()) {
    pollfd item{connection.fd(), POLLIN, 0};
    poll(&item, 1, -1);
    static_cast<void>(connection.OnReadable());
  }
}

void MemifScript::Say() {
  Message message = GoodMessage(static_cast<MessageType>(reader_.Number(1) % 10));
  const int fd = FdOf(static_cast<uint8_t>(reader_.Number(1)));
  for (uint32_t left = reader_.Number(1) % 16; left != 0; --left) {
    const uint32_t offset = reader_.Number(1) % sizeof(message);
    reinterpret_cast<uint8_t*>(&message)[offset] = static_cast<uint8_t>(reader_.Number(1));
  }
  iovec part{&message, sizeof(message)};
  alignas(cmsghdr) char control[CMSG_SPACE(2 * sizeof(int))] = {};
  msghdr header{};
  header.msg_iov = &part;
  header.msg_iovlen = 1;
  if (fd >= 0) {
    header.msg_control = control;
    header.msg_controllen = CMSG_SPACE(sizeof(int));
    cmsghdr* const rights = CMSG_FIRSTHDR(&header);
    rights->cmsg_level = SOL_SOCKET;
    rights->cmsg_type = SCM_RIGHTS;
    rights->cmsg_len = CMSG_LEN(sizeof(int));
    std::memcpy(CMSG_DATA(rights), &fd, sizeof(fd));
  }
  static_cast<void>(sendmsg(peer_socket_.get(), &header, MSG_NOSIGNAL));
}

int MemifScript::FdOf(uint8_t kind) {
  switch (kind % 6) {
    case 0:
      return memory_.fd.get();
    case 1:
      return event_fd_.get();
    case 2:  // The file can shrink.
      file_.Reset(memfd_create("fuzz", MFD_CLOEXEC));
      static_cast<void>(ftruncate(file_.get(), kMemoryBytes));
      return file_.get();
    case 3:
      file_.Reset(memfd_create("fuzz", MFD_CLOEXEC | MFD_HUGETLB));
      return file_.get();
    case 4:
      return peer_socket_.get();
    default:
      return -1;
  }
}

/// Writes to the shared memory, whichever end made it.
void MemifScript::Write(uint64_t offset, std::span<const uint8_t> bytes) {
  std::span<uint8_t> memory = memory_.bytes();
  if (peer_ != nullptr && IsUp()) memory = ours_->memory();
  if (bytes.size() > memory.size()) return;
  std::copy(bytes.begin(), bytes.end(),
            memory.data() + offset % (memory.size() - bytes.size() + 1));
}

bool MemifScript::Receive() {
  const auto count = static_cast<uint16_t>(reader_.Number(1) % (kBurst + 1));
  if (!IsUp()) return true;
  rte_mbuf* frames[kBurst];
  const uint16_t received = ours_->receiver().Receive(frames, count);
  bool holds = received <= count;
  for (uint16_t i = 0; i < received; ++i) {
    holds = holds && frames[i]->data_len <= kFrameBytes && frames[i]->nb_segs == 1 &&
            frames[i]->pkt_len == frames[i]->data_len;
    rte_pktmbuf_free(frames[i]);
  }
  static_cast<void>(ours_->receiver().TakeTooLong());
  return holds;
}

bool MemifScript::Send() {
  const auto count = static_cast<uint16_t>(reader_.Number(1) % (kBurst + 1));
  const auto bytes = static_cast<uint16_t>(reader_.Number(2) % kFrameBytes);
  if (!IsUp()) return true;
  rte_mbuf* frames[kBurst];
  for (uint16_t i = 0; i < count; ++i) {
    frames[i] = rte_pktmbuf_alloc(pool_);
    if (frames[i] == nullptr) return false;
    frames[i]->data_len = bytes;
    frames[i]->pkt_len = bytes;
  }
  const uint16_t sent = ours_->sender().Send(frames, count);
  if (sent > count) return false;
  for (uint16_t i = sent; i < count; ++i) rte_pktmbuf_free(frames[i]);
  return true;
}

std::vector<std::vector<uint8_t>> GoodMemifScripts() {
  const std::vector<uint8_t> frames = {kMemifGreet,
                                       kMemifSend,
                                       3,
                                       60,
                                       0,
                                       kMemifSlot,
                                       0,
                                       0,
                                       0,
                                       0,
                                       0,
                                       0,
                                       64,
                                       0,
                                       0,
                                       0,
                                       0,
                                       32,
                                       0,
                                       0,
                                       0,
                                       0,
                                       0,
                                       0,
                                       kMemifIndex,
                                       0,
                                       0,
                                       1,
                                       0,
                                       kMemifReceive,
                                       8,
                                       kMemifIndex,
                                       1,
                                       0,
                                       9,
                                       0,
                                       kMemifSend,
                                       5,
                                       0,
                                       4,
                                       kMemifSleep,
                                       1,
                                       kMemifReceive,
                                       4,
                                       kMemifSleep,
                                       0};
  const std::vector<uint8_t> requests = {kMemifMessage,
                                         3,
                                         5,
                                         0,
                                         kMemifRead,
                                         kMemifMessage,
                                         4,
                                         0,
                                         0,
                                         kMemifRead,
                                         kMemifMessage,
                                         5,
                                         1,
                                         1,
                                         2,
                                         1,
                                         kMemifRead,
                                         kMemifMessage,
                                         5,
                                         1,
                                         1,
                                         9,
                                         2,
                                         kMemifRead,
                                         kMemifMessage,
                                         6,
                                         5,
                                         0,
                                         kMemifRead,
                                         kMemifNonsense,
                                         2,
                                         1,
                                         1,
                                         kMemifRead};
  const std::vector<uint8_t> answers = {kMemifMessage, 2, 5, 0, kMemifRead,
                                        kMemifMessage, 1, 5, 0, kMemifRead,
                                        kMemifMessage, 7, 5, 0, kMemifRead};
  std::vector<std::vector<uint8_t>> scripts;
  for (const uint8_t role : {uint8_t{0}, uint8_t{1}}) {
    for (const std::vector<uint8_t>& script : {frames, requests, answers}) {
      scripts.push_back({role});
      scripts.back().insert(scripts.back().end(), script.begin(), script.end());
    }
  }
  return scripts;
}

bool MemifHolds(std::span<const uint8_t> script) {
  const bool holds = MemifScript(script, ThePool()).Holds();
  return SideThread::AwaitAll(kLong) && holds && rte_mempool_avail_count(ThePool()) == kFrames;
}

}  // namespace uroce::fuzz
