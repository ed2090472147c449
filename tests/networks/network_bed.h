// SPDX-License-Identifier: Apache-2.0
// NICs at emulated switches in virtual time: devices, workers and switches are the daemon's own.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <random>
#include <span>
#include <vector>

#include "drivers/fault/fault_config.h"
#include "drivers/switch/switch_port.h"
#include "pipeline/congestion/settings.h"
#include "pipeline/datapath/device/device.h"
#include "pipeline/datapath/memory/memory_keys.h"
#include "pipeline/datapath/queue/session.h"
#include "pipeline/datapath/worker/worker.h"
#include "tests/datapath/testbed.h"

namespace uroce::networks {

/// The time at which simulations begin.
inline constexpr Nanos kStart{1'000'000'000};

/// A CPU that a worker shares with others. The worker runs for a time, or until it has had nothing
/// to do for 20 us. Then it waits for a time, and so on. Each time is random, between half of what
/// is given here and three halves of it. `waits` of 0: the worker has its own CPU.
struct SharedCpu {
  Nanos runs{3'000'000};
  Nanos waits{0};
};

struct NetworkConfig {
  std::vector<fabric::SwitchConfig> switches;
  std::vector<drivers::SwitchTrunk> trunks;
  std::vector<uint32_t> switch_of_nic;  ///< A NIC for each entry, at that switch.
  fabric::LinkConfig link;              ///< Of each NIC to its switch.
  congestion::Settings settings;        ///< Of all NICs but those of `settings_of`.
  std::map<uint32_t, congestion::Settings> settings_of;  ///< By NIC.
  std::map<uint32_t, drivers::FaultConfig> faults_of;    ///< What becomes of a NIC's frames.
  /// What programs ask for. 2: data say ECT(0) without congestion control too.
  uint8_t traffic_class = 0;
  uint32_t mtu_bytes = 4096;  ///< Path MTU.
  /// All connections agree to selective repeat, as between two daemons; otherwise go-back-N.
  bool selective = true;
  /// Each worker runs once in this time. Range: at most drivers::kSwitchStep. With longer turns the
  /// switches' time lags, and frames arrive early when it catches up.
  Nanos turn{1'000};
  SharedCpu cpu;  ///< Of each worker.
  /// All NICs are those of one daemon, as with --switch: they have one CPU, and the network waits
  /// with them.
  bool is_one_daemon = false;
  uint64_t seed = 1;
};

/// Who has a CPU that is shared, and when.
class CpuTurns {
 public:
  CpuTurns(const SharedCpu& cpu, uint64_t seed) : cpu_(cpu), random_(seed) {}
  bool is_shared() const { return cpu_.waits != Nanos(0); }
  /// Whether the worker runs at `now`; `waited`: for how long it did not before.
  bool HasCpu(Nanos now, Nanos& waited);
  void NoteBusy(Nanos now) { was_busy_ = now; }

 private:
  const SharedCpu cpu_;
  bool has_cpu_ = false;
  Nanos cpu_changes_ = kStart;
  Nanos lost_cpu_ = kStart;
  Nanos was_busy_ = kStart;
  std::mt19937_64 random_;
};

/// One NIC with its own worker.
class SimulatedNic {
 public:
  /// The most turns in a row that are left out because the worker has nothing to do: each turn has
  /// a look at one limited flow, too.
  static constexpr uint32_t kMostIdleTurns = 16;

  SimulatedNic(const NetworkConfig& config, uint32_t number,
               std::shared_ptr<drivers::SwitchNetwork> network);
  ~SimulatedNic();
  SimulatedNic(const SimulatedNic&) = delete;
  SimulatedNic& operator=(const SimulatedNic&) = delete;

  datapath::Endpoint& AddEndpoint(const datapath::Endpoint::Limits& limits);
  void RemoveEndpoint(datapath::Endpoint& endpoint);
  /// A turn of the worker, if it has a CPU now.
  void RunOnce(Nanos now);
  /// A turn of the worker, which had no CPU for `waited` before. False: there was nothing to do.
  bool Turn(Nanos now, Nanos waited) { return worker().RunOnce(now, waited); }
  datapath::Worker& worker() { return workers_->at(0); }
  datapath::Device& device() { return *device_; }
  Gid address() const { return device_->addresses.front().gid; }

 private:
  /// Whether a turn at `now` would find nothing to do.
  bool IsIdle(Nanos now);

  CpuTurns cpu_;
  std::shared_ptr<drivers::SwitchNetwork> network_;
  const uint32_t number_;
  uint32_t idle_turns_ = 0;
  uint32_t made_endpoints_ = 0;
  std::unique_ptr<drivers::Port> port_;
  std::unique_ptr<datapath::Device> device_;
  datapath::KeyTable keys_{64};
  datapath::MemoryRegion source_, target_;
  std::unique_ptr<uroce_doorbells> doorbells_;
  std::unique_ptr<datapath::Session> session_;
  std::unique_ptr<datapath::Workers> workers_;
  std::vector<std::unique_ptr<datapath::Endpoint>> endpoints_;
};

struct FlowConfig {
  uint32_t depth = 64;  ///< Messages under way at most.
  wire::Service service = wire::Service::kRc;
  double limit_bps = 0;  ///< A rate limit of the program's; 0: none.
};

/// The requester of a connection, which writes to or reads from its peer.
class Flow {
 public:
  /// The most bytes of a message.
  static constexpr uint32_t kMostBytes = 32 << 20;

  /// The two ends of the connection, and their NICs.
  struct Ends {
    uint32_t from = 0, to = 0;
    datapath::Endpoint* requester = nullptr;
    datapath::Endpoint* responder = nullptr;
  };
  Flow(const Ends& ends, const Nanos& now) : ends_(ends), from_(*ends.requester), now_(now) {}
  /// Posts a message. Range: fewer than `depth` messages are under way.
  void Post(uint32_t bytes, bool reads = false);
  /// Takes completions. Keeps `depth` messages of `bytes` under way, while `bytes` is not 0.
  void Run();
  void KeepPosted(uint32_t depth, uint32_t bytes, bool reads = false);
  void Stop() { bytes_ = 0; }
  uint32_t under_way() const { return static_cast<uint32_t>(posted_at_.size()); }
  /// Bytes of messages that have completed.
  uint64_t completed_bytes() const { return completed_bytes_; }
  /// Completions with an error.
  uint64_t failed() const { return failed_; }
  /// From post to completion, of each message since the last ResetCounts.
  const std::vector<Nanos>& latencies() const { return latencies_; }
  void ResetCounts();
  const Ends& ends() const { return ends_; }

 private:
  const Ends ends_;
  datapath::Endpoint& from_;
  const Nanos& now_;
  uint32_t depth_ = 0, bytes_ = 0;
  bool reads_ = false;
  std::vector<std::pair<Nanos, uint32_t>> posted_at_;  ///< And the bytes; the oldest first.
  uint64_t completed_bytes_ = 0, failed_ = 0;
  std::vector<Nanos> latencies_;
};

/// NICs, switches and connections.
class NetworkBed {
 public:
  explicit NetworkBed(const NetworkConfig& config);
  ~NetworkBed();

  /// A connection, whose two queue pairs are new.
  Flow& Connect(uint32_t from, uint32_t to, const FlowConfig& flow = {});
  /// Destroys a flow and its queue pairs.
  void Disconnect(Flow& flow);
  /// Puts a frame on the line of NIC `from`, as if that NIC had sent it.
  void Inject(uint32_t from, std::span<const uint8_t> bytes);
  /// Lets time pass.
  void Run(Nanos duration);
  Nanos now() const { return now_; }
  SimulatedNic& nic(uint32_t number) { return *nics_[number]; }
  const fabric::Fabric& fabric() const { return network_->fabric(); }
  /// The link from its switch to a NIC.
  const fabric::Link& LinkTo(uint32_t nic) const {
    return fabric().link(fabric().CableOf(nic) * 2 + 1);
  }
  /// Samples the queue of a link once a turn from now on. Null: ends it.
  void WatchQueue(const fabric::Link* link);
  /// The length that the queue had at most in `part` of the samples, in bytes.
  uint64_t QueueBytes(double part) const;

 private:
  /// A turn of all workers.
  void Turn();
  /// The same for those of one daemon.
  void TurnOfDaemon();

  const NetworkConfig config_;
  CpuTurns daemon_cpu_;
  Nanos now_ = kStart;
  std::shared_ptr<drivers::SwitchNetwork> network_;
  std::vector<std::unique_ptr<SimulatedNic>> nics_;
  std::vector<std::unique_ptr<Flow>> flows_;
  const fabric::Link* watched_ = nullptr;
  std::vector<uint64_t> queue_samples_;
};

/// Jain's index of fairness: 1 when all shares are equal, 1 / n when one has all.
double JainIndex(const std::vector<double>& shares);
/// The value that `part` of `values` do not exceed. Range: `values` is not empty.
double Percentile(std::vector<double> values, double part);

}  // namespace uroce::networks
