// SPDX-License-Identifier: Apache-2.0
#include "tests/networks/network_bed.h"

#include <rte_mbuf.h>
#include <sys/mman.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "drivers/dpdk/eal.h"
#include "drivers/fault/fault_port.h"
#include "pipeline/base/types.h"
#include "pipeline/shm/rings/doorbells.h"
#include "tests/datapath/work_codes.h"

namespace uroce::networks {
namespace {

using datapath::Endpoint;
using transport::QpState;

constexpr uint32_t kFrames = 48 * 1024;
constexpr uint32_t kKey = 0x1000;

rte_mempool* FramePool() {
  static rte_mempool* const pool = [] {
    const absl::Status started = drivers::InitEal({.memory_mib = 320, .allow_hugepages = false});
    if (!started.ok()) abort();
    return drivers::MakePool("network", drivers::kRoceFrameBytes, kFrames).value();
  }();
  return pool;
}

/// Messages of all NICs are read from the first half and written to the second one.
uint8_t* Memory() {
  static void* const memory = mmap(nullptr, size_t{2} * Flow::kMostBytes, PROT_READ | PROT_WRITE,
                                   MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  return static_cast<uint8_t*>(memory);
}

Mac MacOf(uint32_t nic) {
  return {2, 0, 0, 0, static_cast<uint8_t>(nic >> 8), static_cast<uint8_t>(nic)};
}

Gid AddressOf(uint32_t nic) {
  Gid address;
  address.bytes = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 10, 0, 0, 0};
  address.bytes[14] = static_cast<uint8_t>(nic >> 8);
  address.bytes[15] = static_cast<uint8_t>(nic);
  return address;
}

datapath::MemoryRegion RegionAt(uint8_t* bytes, uint32_t key, const datapath::Session* session) {
  datapath::MemoryRegion region;
  region.key = key;
  region.pd = datapath::kTestPd;
  region.access = datapath::kAllAccess;
  region.iova = reinterpret_cast<uint64_t>(bytes);
  region.length_bytes = Flow::kMostBytes;
  region.session = const_cast<datapath::Session*>(session);
  region.segments = {{.iova = region.iova,
                      .length_bytes = Flow::kMostBytes,
                      .mode = datapath::MrMode::kMapped,
                      .mapped = bytes,
                      .app_addr = region.iova}};
  return region;
}

drivers::SwitchNetworkConfig NetworkOf(const NetworkConfig& config) {
  drivers::SwitchNetworkConfig network{.switches = config.switches,
                                       .trunks = config.trunks,
                                       .nics = {},
                                       .max_frames = kFrames / 2,
                                       .seed = config.seed};
  for (uint32_t i = 0; i < config.switch_of_nic.size(); ++i) {
    network.nics.push_back(
        {.mac = MacOf(i), .switch_index = config.switch_of_nic[i], .link = config.link});
  }
  return network;
}

void Join(SimulatedNic& nic, const Endpoint& from, SimulatedNic& peer, const Endpoint& to,
          const NetworkConfig& config) {
  datapath::Attributes attributes;
  attributes.remote_write = attributes.remote_read = true;
  attributes.path_mtu_bytes = static_cast<uint16_t>(config.mtu_bytes);
  attributes.max_rd_atomic = attributes.max_dest_rd_atomic = 16;
  attributes.timeout = 14;  // 67 ms.
  attributes.retry_count = attributes.rnr_retry = 7;
  datapath::Path path;
  path.source_mac = nic.device().mac;
  path.destination_mac = peer.device().mac;
  path.source = nic.address();
  path.destination = peer.address();
  path.remote_qpn = to.qp->qpn();
  path.traffic_class = config.traffic_class;
  path.ecn_capable = nic.device().CongestionOf(0, path.traffic_class).is_on();
  // Routers choose among equal paths by the source port.
  path.udp_source_port = static_cast<uint16_t>(0xc000 | (from.qp->qpn().value() * 41 & 0x3fff));
  datapath::Worker& worker = nic.worker();
  worker.Modify(from.qp.get(), QpState::kInit, attributes, nullptr);
  worker.Modify(from.qp.get(), QpState::kRtr, attributes, &path);
  worker.Modify(from.qp.get(), QpState::kRts, attributes, nullptr);
  worker.SetSelectiveRepeat([&](const datapath::QueuePair& qp) -> std::optional<bool> {
    if (&qp != from.qp.get()) return std::nullopt;
    return config.selective;
  });
}

}  // namespace

SimulatedNic::SimulatedNic(const NetworkConfig& config, uint32_t number,
                           std::shared_ptr<drivers::SwitchNetwork> network)
    : cpu_(config.cpu, config.seed * 1'000 + number),
      network_(std::move(network)),
      number_(number),
      port_(std::make_unique<drivers::SwitchPort>(network_, number)),
      doorbells_(std::make_unique<uroce_doorbells>()) {
  if (const auto faults = config.faults_of.find(number); faults != config.faults_of.end()) {
    port_ = std::make_unique<drivers::FaultPort>(std::move(port_), faults->second, FramePool());
  }
  const std::vector<datapath::WorkerSeat> seats(1, {.pool = FramePool()});
  workers_ = std::make_unique<datapath::Workers>(
      datapath::WorkerConfig{.keys = &keys_, .park_after = kNever}, seats);
  session_ = std::make_unique<datapath::Session>(
      1, std::vector<datapath::SessionLink>{{.doorbells = doorbells_.get(), .wake_fd = -1}});
  device_ = std::make_unique<datapath::Device>("sim" + std::to_string(number), number, port_.get());
  device_->mac = MacOf(number);
  device_->addresses = {{AddressOf(number)}};
  const auto its = config.settings_of.find(number);
  device_->SetCongestion(its == config.settings_of.end() ? config.settings : its->second,
                         config.link.rate_bps);
  source_ = RegionAt(Memory(), kKey, session_.get());
  target_ = RegionAt(Memory() + Flow::kMostBytes, kKey + 0x100, session_.get());
  if (!keys_.Publish(&source_) || !keys_.Publish(&target_)) abort();
  workers_->AddDevice(device_.get());
  worker().AddSession(session_.get());
}

SimulatedNic::~SimulatedNic() {
  for (const auto& endpoint : endpoints_) worker().RemoveQueuePair(endpoint->qp.get());
  endpoints_.clear();
  worker().RemoveSession(session_.get());
}

bool CpuTurns::HasCpu(Nanos now, Nanos& waited) {
  constexpr Nanos kIdle{20'000};
  const auto random_time = [&](Nanos mean) {
    const auto most = static_cast<uint64_t>(mean.count());
    return Nanos(mean.count() / 2 + static_cast<int64_t>(random_() % most));
  };
  if (has_cpu_ && (now >= cpu_changes_ || now - was_busy_ >= kIdle)) {
    has_cpu_ = false;
    lost_cpu_ = now;
    cpu_changes_ = now + random_time(cpu_.waits);
  } else if (!has_cpu_ && now >= cpu_changes_) {
    has_cpu_ = true;
    waited = now - lost_cpu_;
    was_busy_ = now;
    cpu_changes_ = now + random_time(cpu_.runs);
  }
  return has_cpu_;
}

bool SimulatedNic::IsIdle(Nanos now) {
  if (network_->HasFrames(number_, 0) || rings::HasRung(*doorbells_)) return false;
  return now < worker().NextDeadline() && now < port_->NextDeadline(0) &&
         port_->TransmitRoom(0) != 0;
}

void SimulatedNic::RunOnce(Nanos now) {
  Nanos waited{0};
  if (cpu_.is_shared()) {
    if (!cpu_.HasCpu(now, waited)) return;
  } else if (idle_turns_ < kMostIdleTurns && IsIdle(now)) {
    ++idle_turns_;
    return;
  }
  idle_turns_ = 0;
  if (Turn(now, waited)) cpu_.NoteBusy(now);
}

Endpoint& SimulatedNic::AddEndpoint(const Endpoint::Limits& limits) {
  const uint32_t number = made_endpoints_++;
  endpoints_.push_back(std::make_unique<Endpoint>(session_.get(), device_.get(),
                                                  Qpn(FirstQpnOf(0, 1) + 0x100 + number),
                                                  number % UROCE_DOORBELL_SLOTS, limits));
  worker().AddQueuePair(endpoints_.back()->qp.get());
  return *endpoints_.back();
}

void SimulatedNic::RemoveEndpoint(Endpoint& endpoint) {
  worker().RemoveQueuePair(endpoint.qp.get());
  std::erase_if(endpoints_, [&](const auto& each) { return each.get() == &endpoint; });
}

void Flow::Post(uint32_t bytes, bool reads) {
  const auto from = reinterpret_cast<uint64_t>(Memory());
  const uint64_t to = from + kMostBytes;
  from_.PostSend({.opcode = reads ? datapath::kRead : datapath::kWrite,
                  .list = {{reads ? to : from, bytes, reads ? kKey + 0x100 : kKey}},
                  .remote_addr = reads ? from : to,
                  .rkey = reads ? kKey : kKey + 0x100});
  posted_at_.emplace_back(now_, bytes);
}

void Flow::KeepPosted(uint32_t depth, uint32_t bytes, bool reads) {
  depth_ = depth;
  bytes_ = bytes;
  reads_ = reads;
}

void Flow::Run() {
  uroce_cqe cqe;
  while (!posted_at_.empty() && from_.PollSend(cqe)) {
    const auto [posted, bytes] = posted_at_.front();
    posted_at_.erase(posted_at_.begin());
    if (cqe.status != 0) {
      ++failed_;
      continue;
    }
    completed_bytes_ += bytes;
    latencies_.push_back(now_ - posted);
  }
  while (bytes_ != 0 && failed_ == 0 && under_way() < depth_) Post(bytes_, reads_);
}

void Flow::ResetCounts() {
  completed_bytes_ = 0;
  latencies_.clear();
}

NetworkBed::NetworkBed(const NetworkConfig& config)
    : config_(config),
      daemon_cpu_(config.cpu, config.seed),
      network_(std::make_shared<drivers::SwitchNetwork>(NetworkOf(config), FramePool())) {
  if (config.turn > drivers::kSwitchStep) abort();
  for (uint32_t i = 0; i < config.switch_of_nic.size(); ++i) {
    nics_.push_back(std::make_unique<SimulatedNic>(config_, i, network_));
  }
}

NetworkBed::~NetworkBed() = default;

Flow& NetworkBed::Connect(uint32_t from, uint32_t to, const FlowConfig& flow) {
  Endpoint::Limits limits{.sq_depth = flow.depth, .rq_depth = 1, .cq_depth = flow.depth};
  limits.service = flow.service;
  limits.has_events = false;
  Endpoint& requester = nic(from).AddEndpoint(limits);
  limits.sq_depth = limits.cq_depth = 1;
  Endpoint& responder = nic(to).AddEndpoint(limits);
  Join(nic(from), requester, nic(to), responder, config_);
  Join(nic(to), responder, nic(from), requester, config_);
  if (flow.limit_bps != 0) requester.qp->flow().rate.SetLimit(flow.limit_bps);
  flows_.push_back(std::make_unique<Flow>(
      Flow::Ends{.from = from, .to = to, .requester = &requester, .responder = &responder}, now_));
  return *flows_.back();
}

void NetworkBed::Disconnect(Flow& flow) {
  const Flow::Ends ends = flow.ends();
  std::erase_if(flows_, [&](const auto& each) { return each.get() == &flow; });
  nic(ends.from).RemoveEndpoint(*ends.requester);
  nic(ends.to).RemoveEndpoint(*ends.responder);
}

void NetworkBed::Inject(uint32_t from, std::span<const uint8_t> bytes) {
  rte_mbuf* frame = rte_pktmbuf_alloc(FramePool());
  if (frame == nullptr) abort();
  std::ranges::copy(bytes, rte_pktmbuf_mtod(frame, uint8_t*));
  frame->data_len = static_cast<uint16_t>(bytes.size());
  frame->pkt_len = frame->data_len;
  if (network_->Transmit(from, 0, &frame, 1, now_) == 0) rte_pktmbuf_free(frame);
}

void NetworkBed::Run(Nanos duration) {
  for (const Nanos end = now_ + duration; now_ < end; now_ = now_ + config_.turn) {
    for (const auto& flow : flows_) flow->Run();
    config_.is_one_daemon ? TurnOfDaemon() : Turn();
    if (watched_ != nullptr) queue_samples_.push_back(watched_->queue_bytes());
  }
}

void NetworkBed::Turn() {
  network_->Receive(0, 0, nullptr, 0, now_);  // Its time advances, though no worker may look.
  for (const auto& nic : nics_) nic->RunOnce(now_);
}

void NetworkBed::TurnOfDaemon() {
  Nanos waited{0};
  if (daemon_cpu_.is_shared() && !daemon_cpu_.HasCpu(now_, waited)) return;
  bool is_busy = false;
  for (const auto& nic : nics_) is_busy |= nic->Turn(now_, waited);
  if (is_busy) daemon_cpu_.NoteBusy(now_);
}

void NetworkBed::WatchQueue(const fabric::Link* link) {
  watched_ = link;
  queue_samples_.clear();
}

uint64_t NetworkBed::QueueBytes(double part) const {
  return static_cast<uint64_t>(Percentile({queue_samples_.begin(), queue_samples_.end()}, part));
}

double JainIndex(const std::vector<double>& shares) {
  const double sum = std::accumulate(shares.begin(), shares.end(), 0.0);
  const double squares = std::inner_product(shares.begin(), shares.end(), shares.begin(), 0.0);
  return squares == 0 ? 1 : sum * sum / (static_cast<double>(shares.size()) * squares);
}

double Percentile(std::vector<double> values, double part) {
  const auto at = static_cast<size_t>(part * static_cast<double>(values.size() - 1));
  std::nth_element(values.begin(), values.begin() + static_cast<ptrdiff_t>(at), values.end());
  return values[at];
}

}  // namespace uroce::networks
