// SPDX-License-Identifier: Apache-2.0
#include "tests/datapath/testbed.h"

#include <sys/eventfd.h>

#include <algorithm>
#include <random>

#include "drivers/dpdk/eal.h"
#include "pipeline/datapath/memory/copy_helper.h"

namespace uroce::datapath {
namespace {

Path PathBetween(const Device& from, const Device& to) {
  Path path;
  path.source_mac = from.mac;
  path.destination_mac = to.mac;
  path.source = Testbed::AddressOf(from);
  path.destination = Testbed::AddressOf(to);
  return path;
}

}  // namespace

rte_mempool* TestPool() {
  static rte_mempool* const pool = [] {
    constexpr uint32_t kFrames = 8191;
    const absl::Status started = drivers::InitEal({.memory_mib = 128, .allow_hugepages = false});
    if (!started.ok()) abort();
    return drivers::MakePool("frames", drivers::kRoceFrameBytes, kFrames).value();
  }();
  return pool;
}

std::vector<uint8_t> Pattern(size_t length, uint32_t seed) {
  std::mt19937 random(seed);
  std::vector<uint8_t> bytes(length);
  for (uint8_t& byte : bytes) byte = static_cast<uint8_t>(random());
  return bytes;
}

Endpoint::Endpoint(Session* its_session, Device* device, Qpn qpn, uint32_t its_slot,
                   const Limits& its_limits, uint32_t its_worker)
    : session(its_session), slot(its_slot), worker(its_worker), limits(its_limits) {
  const uint32_t sq_slot = rings::SendSlotBytes(limits.max_sge, limits.max_inline);
  const uint32_t rq_slot = rings::ReceiveSlotBytes(limits.max_sge);
  sq.resize(size_t{limits.sq_depth} * sq_slot);
  rq.resize(size_t{limits.rq_depth} * rq_slot);
  send_entries.resize(limits.cq_depth);
  receive_entries.resize(limits.cq_depth);
  if (limits.has_events) events = std::make_unique<RecordStream>();
  const RecordSocket async{events ? events->writer() : -1};
  const rings::CqeRingLayout send_layout{send_consumed.get(), send_entries.data(), limits.cq_depth};
  const rings::CqeRingLayout receive_layout{receive_consumed.get(), receive_entries.data(),
                                            limits.cq_depth};
  send_cq = std::make_unique<CompletionQueue>(
      CompletionQueueConfig{.page = send_page.get(),
                            .user_handle = 1,
                            .async = async,
                            .pollers = {.word = pollers.get(), .bit = 1}});
  receive_cq = std::make_unique<CompletionQueue>(
      CompletionQueueConfig{.page = receive_page.get(),
                            .user_handle = 2,
                            .async = async,
                            .pollers = {.word = pollers.get(), .bit = 2}});
  send_ring = rings::CqeConsumer(send_layout);
  receive_ring = rings::CqeConsumer(receive_layout);
  sends = rings::WorkQueueProducer(
      {.slots = sq.data(), .depth = limits.sq_depth, .slot_bytes = sq_slot}, &page->sq_produced);
  receives = rings::WorkQueueProducer(
      {.slots = rq.data(), .depth = limits.rq_depth, .slot_bytes = rq_slot}, &page->rq_produced);
  QueuePairConfig config;
  config.session = session;
  config.device = device;
  config.congestion = &device->CongestionOf(worker, 0);
  config.handle = qpn.value();
  config.qpn = qpn;
  config.pd = kTestPd;
  config.service = limits.service;
  config.shared = limits.shared;
  config.send_ring =
      limits.send_ring != nullptr ? limits.send_ring : &send_cq->AddRing(0, send_layout);
  config.receive_ring = &receive_cq->AddRing(0, receive_layout);
  config.domain = limits.domain;
  if (config.domain != nullptr) config.send_ring = config.receive_ring = nullptr;
  config.user_handle = 3;
  config.async = async;
  config.doorbell_slot = slot;
  config.page = page.get();
  config.sq = sq.data();
  config.rq = rq.data();
  config.sq_depth = limits.sq_depth;
  config.rq_depth = limits.rq_depth;
  config.sq_slot_bytes = sq_slot;
  config.rq_slot_bytes = rq_slot;
  config.max_send_sge = limits.max_sge;
  config.max_receive_sge = limits.max_sge;
  config.max_inline_bytes = limits.max_inline;
  qp = std::make_unique<QueuePair>(config);
}

Endpoint::~Endpoint() { qp.reset(); }

void Endpoint::PostSend(const Send& send) {
  uroce_send_wqe header{};
  header.wr_id = send.wr_id;
  header.opcode = send.opcode;
  header.flags = send.flags;
  header.num_sge = static_cast<uint16_t>(send.list.size());
  header.imm_or_rkey = send.imm_or_rkey;
  header.remote_addr = send.remote_addr;
  header.rkey = send.rkey;
  header.xrc_srqn = send.xrc_srqn;
  if (qp->core().is_datagram()) {
    header.datagram = {.ah = send.ah,
                       .remote_qpn = send.remote_qpn,
                       .remote_qkey = send.remote_qkey,
                       .reserved = 0};
  } else {
    header.atomic = {.compare_add = send.compare_add, .swap = send.swap};
  }
  if (!send.inline_data.empty()) {
    header.flags |= UROCE_SEND_INLINE;
    header.inline_length = static_cast<uint16_t>(send.inline_data.size());
  }
  uint8_t* tail = rings::WriteSendHeader(sends.Slot(sends.index()), header);
  if (!send.inline_data.empty()) {
    memcpy(tail, send.inline_data.data(), send.inline_data.size());
  }
  for (uint32_t i = 0; i < send.list.size(); ++i) {
    rings::WriteSge(tail, i, send.list[i].addr, send.list[i].length, send.list[i].lkey);
  }
  sends.Advance();
  if (!hold_bell) RingBell();
}

void Endpoint::PostReceive(uint64_t wr_id, const std::vector<uroce_sge>& list) {
  uint8_t* tail = rings::WriteReceiveHeader(receives.Slot(receives.index()), wr_id,
                                            static_cast<uint32_t>(list.size()));
  for (uint32_t i = 0; i < list.size(); ++i) {
    rings::WriteSge(tail, i, list[i].addr, list[i].length, list[i].lkey);
  }
  receives.Advance();
  receives.Publish();
  if (page->state.value == 6) RingBell();
}

void Endpoint::RingBell() {
  sends.Publish();
  if (!rings::Ring(*session->doorbells(worker), slot)) return;
  const uint64_t one = 1;
  EXPECT_EQ(write(session->wake_fd(worker), &one, sizeof(one)), static_cast<ssize_t>(sizeof(one)));
}

bool Endpoint::Poll(rings::CqeConsumer& ring, uroce_cqe& cqe) {
  const uroce_cqe* entry = ring.Peek();
  if (entry == nullptr) return false;
  cqe = *entry;
  ring.Advance();
  ring.Publish();
  return true;
}

Testbed::Testbed() : Testbed({nullptr, nullptr}) {}

Testbed::Testbed(const std::array<drivers::Port*, 2>& joined, uint32_t worker_count,
                 Nanos park_after, uint64_t rate_bps)
    : doorbells(std::make_unique<uroce_doorbells[]>(worker_count)) {
  attributes.remote_write = attributes.remote_read = attributes.remote_atomic = true;
  attributes.path_mtu_bytes = 1024;
  attributes.max_rd_atomic = attributes.max_dest_rd_atomic = 4;
  attributes.min_rnr_timer = 1;
  attributes.timeout = 10;  // 4.2 ms.
  attributes.retry_count = 7;
  attributes.rnr_retry = 7;
  const std::vector<WorkerSeat> seats(worker_count, {.pool = TestPool()});
  workers = std::make_unique<Workers>(WorkerConfig{.keys = &keys, .park_after = park_after}, seats);
  worker = &workers->at(0);
  std::vector<SessionLink> links;
  for (uint32_t i = 0; i < worker_count; ++i) {
    wake_fds.push_back(eventfd(0, EFD_NONBLOCK));
    links.push_back({.doorbells = &doorbells[i], .wake_fd = wake_fds[i]});
  }
  session = std::make_unique<Session>(1, links, /*uid=*/0, /*rate=*/nullptr, &rest);
  for (uint32_t i = 0; i < 2; ++i) {
    ports[i].peer = &ports[1 - i];
    drivers::Port* const port = joined[i] != nullptr ? joined[i] : &ports[i];
    devices[i] = std::make_unique<Device>("test" + std::to_string(i), i, port, worker_count);
    devices[i]->mac = {2, 0, 0, 0, 0, static_cast<uint8_t>(i + 1)};
    devices[i]->addresses = {{AddressOf(*devices[i])}};
    if (i == 0 && rate_bps != 0) devices[i]->SetRate(rate_bps);
    workers->AddDevice(devices[i].get());
  }
  workers->RunOnEach([&](Worker& each) { each.AddSession(session.get()); });
}

Testbed::~Testbed() {
  workers->Stop();
  RemoveEndpoints();
  workers->RunOnEach([&](Worker& each) {
    for (const auto& other : other_sessions) each.RemoveSession(other.get());
    each.RemoveSession(session.get());
  });
  workers.reset();
  session.reset();
  other_sessions.clear();
  CopyHelper::AwaitAll();  // It writes to what a test registered.
  for (const int fd : wake_fds) close(fd);
}

void Testbed::RemoveEndpoints() {
  for (const auto& endpoint : endpoints) {
    workers->at(endpoint->worker).RemoveQueuePair(endpoint->qp.get());
  }
  endpoints.clear();
}

std::pair<Endpoint*, Endpoint*> Testbed::AddPair() {
  Endpoint& a = AddEndpoint(0);
  Endpoint& b = AddEndpoint(1);
  Connect(a, b);
  return {&a, &b};
}

Session& Testbed::AddSession(SharedRate* rate) {
  other_doorbells.push_back(std::make_unique<uroce_doorbells[]>(workers->count()));
  std::vector<SessionLink> links;
  for (uint32_t i = 0; i < workers->count(); ++i) {
    wake_fds.push_back(eventfd(0, EFD_NONBLOCK));
    links.push_back({.doorbells = &other_doorbells.back()[i], .wake_fd = wake_fds.back()});
  }
  const auto id = static_cast<uint32_t>(other_sessions.size() + 2);
  other_sessions.push_back(std::make_unique<Session>(id, std::move(links), id, rate));
  workers->RunOnEach([&](Worker& each) { each.AddSession(other_sessions.back().get()); });
  return *other_sessions.back();
}

Endpoint& Testbed::AddEndpoint(int device, const Endpoint::Limits& limits, uint32_t on_worker) {
  const auto number = static_cast<uint32_t>(endpoints.size());
  const Qpn qpn(FirstQpnOf(on_worker, workers->count()) + 0x100 + number);
  Session* const owning = limits.session != nullptr ? limits.session : session.get();
  endpoints.push_back(std::make_unique<Endpoint>(owning, devices[device].get(), qpn,
                                                 number % UROCE_DOORBELL_SLOTS, limits, on_worker));
  Endpoint& endpoint = *endpoints.back();
  Worker& owner = workers->at(on_worker);
  owner.Run([&] { owner.AddQueuePair(endpoint.qp.get()); });
  return endpoint;
}

Gid Testbed::AddressOf(const Device& device) {
  Gid address;
  address.bytes = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 10, 0, 0, device.mac[5]};
  return address;
}

void Testbed::StartDatagrams(Endpoint& endpoint, uint32_t qkey) {
  attributes.qkey = qkey;
  for (const auto state :
       {transport::QpState::kInit, transport::QpState::kRtr, transport::QpState::kRts}) {
    Modify(endpoint, state);
  }
}

uint32_t Testbed::AddAddress(const Endpoint& endpoint, int to_device, uint32_t pd) {
  constexpr uint32_t kMost = 64;
  const auto handle = static_cast<uint32_t>(addresses.size());
  addresses.push_back(std::make_unique<AddressVector>(
      pd, PathBetween(*endpoint.qp->config().device, *devices[to_device])));
  endpoint.session->MakeAddressTable(kMost);
  endpoint.session->SetAddress(handle, addresses.back().get());
  return handle;
}

void Testbed::Connect(Endpoint& a, Endpoint& b) {
  const auto connect = [&](Endpoint& from, Endpoint& to) {
    Path path = PathBetween(*from.qp->config().device, *to.qp->config().device);
    path.remote_qpn = to.qp->qpn();
    Worker& owner = workers->at(from.worker);
    owner.Run([&] {
      owner.Modify(from.qp.get(), transport::QpState::kInit, attributes, nullptr);
      owner.Modify(from.qp.get(), transport::QpState::kRtr, attributes, &path);
      owner.Modify(from.qp.get(), transport::QpState::kRts, attributes, nullptr);
    });
  };
  connect(a, b);
  connect(b, a);
}

void Testbed::Modify(Endpoint& endpoint, transport::QpState state) {
  Worker& owner = workers->at(endpoint.worker);
  owner.Run([&] { owner.Modify(endpoint.qp.get(), state, attributes, nullptr); });
}

MemoryRegion& Testbed::Register(void* bytes, size_t length, uint32_t access, MrMode mode) {
  auto region = std::make_unique<MemoryRegion>();
  region->key = 0x1000 + static_cast<uint32_t>(regions.size()) * 0x100;
  region->pd = kTestPd;
  region->access = access;
  region->iova = reinterpret_cast<uint64_t>(bytes);
  region->length_bytes = length;
  region->session = session.get();
  region->segments = {{.iova = region->iova,
                       .length_bytes = length,
                       .mode = mode,
                       .mapped = static_cast<uint8_t*>(bytes),
                       .app_addr = region->iova}};
  if (mode == MrMode::kCopied) region->segments[0].mapped = nullptr;
  EXPECT_TRUE(keys.Publish(region.get()));
  regions.push_back(std::move(region));
  return *regions.back();
}

void Testbed::StartCopyHelper() { StartCopyHelper(*session); }

// No access is long: on a busy machine the worker may lose its CPU within any.
void Testbed::StartCopyHelper(Session& of, bool by_workers) {
  of.StartCopyHelper({.fd = open("/proc/self/mem", O_RDWR | O_CLOEXEC),
                      .user = Credentials::Own(),
                      .by_workers = by_workers,
                      .long_access = std::chrono::nanoseconds::max()});
  with_helper.push_back(&of);
}

bool Testbed::Copying() const {
  return std::ranges::any_of(
      with_helper, [](const Session* each) { return each->copy_helper()->in_flight(0) != 0; });
}

bool Testbed::Turn(Nanos passed) {
  // The helper is a thread in real time: the test's time stands still for it.
  if (Copying()) {
    sched_yield();
  } else {
    now = now + passed;
  }
  bool any = false;
  for (uint32_t i = 0; i < workers->count(); ++i) any |= workers->at(i).RunOnce(now);
  return any;
}

void Testbed::LoseOneOf(uint32_t frames) {
  for (uint32_t i = 0; i < 2; ++i) {
    ports[i].filter = [frames, random = std::mt19937(i)](rte_mbuf*) mutable {
      return random() % frames != 0;
    };
  }
}

void Testbed::Settle() {
  int quiet = 0;
  while (quiet < 3) {
    quiet = Turn() || Copying() ? 0 : quiet + 1;
  }
}

}  // namespace uroce::datapath
