// SPDX-License-Identifier: Apache-2.0
// Workers driven turn by turn over two joined ports, and the program's ends of their queues.
#pragma once

#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <array>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "pipeline/datapath/device/device.h"
#include "pipeline/datapath/memory/memory_keys.h"
#include "pipeline/datapath/memory/memory_rest.h"
#include "pipeline/datapath/queue/completion_queue.h"
#include "pipeline/datapath/queue/queue_pair.h"
#include "pipeline/datapath/worker/schedule.h"
#include "pipeline/datapath/worker/worker.h"
#include "pipeline/shm/rings/doorbells.h"
#include "pipeline/shm/rings/work_queue.h"
#include "tests/datapath/queue/record_stream.h"
#include "tests/datapath/test_port.h"

namespace uroce::datapath {

/// The pool of this process; starts DPDK when first called.
rte_mempool* TestPool();

inline constexpr uint32_t kTestPd = 1;
inline constexpr uint32_t kAllAccess = kLocalWrite | kRemoteWrite | kRemoteRead | kRemoteAtomic;

/// A queue pair with its rings and queues, as a program holds them.
struct Endpoint {
  struct Limits {
    uint32_t sq_depth = 64;
    uint32_t rq_depth = 64;
    uint32_t cq_depth = 256;
    uint32_t max_sge = 4;
    uint32_t max_inline = 64;
    wire::Service service = wire::Service::kRc;
    bool has_events = true;                ///< A socket of asynchronous events.
    Session* session = nullptr;            ///< Whose it is; null: the testbed's own.
    SharedReceiveQueue* shared = nullptr;  ///< Null: it has its own receives.
    CompletionRing* send_ring = nullptr;   ///< To complete sends on; null: the testbed makes one.
    XrcQueues* domain = nullptr;           ///< Of an XRC target.
  };
  Endpoint(Session* session, Device* device, Qpn qpn, uint32_t slot, const Limits& limits,
           uint32_t worker = 0);
  ~Endpoint();

  // What a program does.
  struct Send {
    uint8_t opcode = 2;
    uint8_t flags = UROCE_SEND_SIGNALED;
    uint64_t wr_id = 0;
    std::vector<uroce_sge> list;
    std::string inline_data;
    uint64_t remote_addr = 0;
    uint32_t rkey = 0;
    uint32_t imm_or_rkey = 0;
    uint64_t compare_add = 0;
    uint64_t swap = 0;
    uint32_t xrc_srqn = 0;
    uint32_t ah = 0;  // From here on of datagrams.
    uint32_t remote_qpn = 0;
    uint32_t remote_qkey = 0;
  };
  void PostSend(const Send& send);
  void PostReceive(uint64_t wr_id, const std::vector<uroce_sge>& list);
  void RingBell();
  bool PollSend(uroce_cqe& cqe) { return Poll(send_ring, cqe); }
  bool PollReceive(uroce_cqe& cqe) { return Poll(receive_ring, cqe); }
  static bool Poll(rings::CqeConsumer& ring, uroce_cqe& cqe);
  uint32_t page_state() const { return page->state.value; }

  Session* session;
  uint32_t slot;
  uint32_t worker;         ///< That owns it.
  bool hold_bell = false;  ///< PostSend leaves publishing to a RingBell for many.
  Limits limits;
  std::unique_ptr<uroce_qp_page> page = std::make_unique<uroce_qp_page>();
  std::vector<uint8_t> sq;
  std::vector<uint8_t> rq;
  std::unique_ptr<uroce_cq_page> send_page = std::make_unique<uroce_cq_page>();
  std::unique_ptr<uroce_cq_page> receive_page = std::make_unique<uroce_cq_page>();
  std::unique_ptr<uroce_line32> pollers = std::make_unique<uroce_line32>();  ///< Of both queues.
  std::unique_ptr<uroce_cq_ring_page> send_consumed = std::make_unique<uroce_cq_ring_page>();
  std::unique_ptr<uroce_cq_ring_page> receive_consumed = std::make_unique<uroce_cq_ring_page>();
  std::vector<uroce_cqe> send_entries;
  std::vector<uroce_cqe> receive_entries;
  rings::CqeConsumer send_ring;
  rings::CqeConsumer receive_ring;
  rings::WorkQueueProducer sends;
  rings::WorkQueueProducer receives;
  std::unique_ptr<RecordStream> events;
  std::unique_ptr<CompletionQueue> send_cq;
  std::unique_ptr<CompletionQueue> receive_cq;
  std::unique_ptr<QueuePair> qp;
};

/// Two devices, one session, one worker or several. Time is what the test says.
class Testbed {
 public:
  Testbed();
  /// Over two ports that are joined elsewhere; null: over TestPorts. `park_after`: see SessionList.
  /// `rate_bps`: the limit of the first device; 0: none.
  explicit Testbed(const std::array<drivers::Port*, 2>& joined, uint32_t worker_count = 1,
                   Nanos park_after = kNever, uint64_t rate_bps = 0);
  ~Testbed();

  Endpoint& AddEndpoint(int device, const Endpoint::Limits& limits, uint32_t on_worker = 0);
  Endpoint& AddEndpoint(int device) { return AddEndpoint(device, Endpoint::Limits{}); }
  /// Takes them off the worker: before memory goes that they use and the testbed does not own.
  void RemoveEndpoints();
  /// Another program. `rate`: the limit of its user, or null.
  Session& AddSession(SharedRate* rate = nullptr);
  void Connect(Endpoint& a, Endpoint& b);
  /// One on each device, connected.
  std::pair<Endpoint*, Endpoint*> AddPair();
  /// Has a UD queue pair take and send datagrams.
  void StartDatagrams(Endpoint& endpoint, uint32_t qkey);
  /// An address handle of `endpoint`'s session, from its device to another.
  uint32_t AddAddress(const Endpoint& endpoint, int to_device, uint32_t pd = kTestPd);
  /// Address of a device, IPv4.
  static Gid AddressOf(const Device& device);
  void Modify(Endpoint& endpoint, transport::QpState state);
  /// A region over `bytes` of this process; copied ones are reached by /proc/self/mem.
  MemoryRegion& Register(void* bytes, size_t length, uint32_t access, MrMode mode);
  void StartCopyHelper();
  /// `by_workers`: workers access the memory themselves, where they may.
  void StartCopyHelper(Session& of, bool by_workers = false);
  /// Turns of all workers until nothing moves any more; a helper at work is waited for.
  void Settle();
  /// Turns with time passing, until `done` or 10 s of that time.
  template <typename Done>
  bool RunUntil(Done&& done) {
    for (int i = 0; i < 1'000'000; ++i) {
      if (done()) return true;
      Turn(Nanos(10'000));
    }
    return false;
  }
  bool Turn(Nanos passed = Nanos(1000));
  /// Both ports lose one of `frames` frames, at random: at equal distances, a repetition of as many
  /// frames would lose its first one each time.
  void LoseOneOf(uint32_t frames);
  bool Copying() const;

  static uroce_sge Sge(const MemoryRegion& region, uint64_t offset, uint32_t length) {
    return {region.iova + offset, length, region.key};
  }

  Attributes attributes;
  std::array<TestPort, 2> ports;
  std::array<std::unique_ptr<Device>, 2> devices;
  KeyTable keys{64};
  std::unique_ptr<uroce_doorbells[]> doorbells;  ///< Of each worker, like the next.
  std::vector<int> wake_fds;
  MemoryRest rest;  ///< Of `session`.
  std::unique_ptr<Session> session;
  std::vector<std::unique_ptr<uroce_doorbells[]>> other_doorbells;
  std::vector<std::unique_ptr<Session>> other_sessions;
  std::vector<const Session*> with_helper;
  std::vector<std::unique_ptr<AddressVector>> addresses;
  std::vector<std::unique_ptr<MemoryRegion>> regions;
  std::vector<std::unique_ptr<Endpoint>> endpoints;
  std::unique_ptr<Workers> workers;
  Worker* worker;  ///< The first.
  Nanos now{1'000'000'000};
};

/// Recognisable bytes.
std::vector<uint8_t> Pattern(size_t length, uint32_t seed);

}  // namespace uroce::datapath
