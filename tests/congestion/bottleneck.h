// SPDX-License-Identifier: Apache-2.0
// Senders that meet at one port of a switch, in virtual time.
#pragma once

#include <array>
#include <cstdint>
#include <deque>
#include <memory>
#include <queue>
#include <set>
#include <vector>

#include "pipeline/base/types.h"
#include "pipeline/congestion/flow_rate.h"
#include "pipeline/congestion/notification_point.h"
#include "pipeline/congestion/window.h"

namespace uroce::congestion {

/// The network. Every packet is of one MTU.
struct BottleneckConfig {
  Settings settings;
  uint32_t senders = 2;
  double line_bps = 25e9;  ///< Of each sender.
  double port_bps = 25e9;  ///< Of the port where they meet.
  Nanos one_way{5'000};    ///< Without queues.
  int64_t buffer_bytes = 1'000'000;
  int64_t mark_from_bytes = INT64_MAX;  ///< RED: no marks up to here ...
  int64_t mark_all_bytes = INT64_MAX;   ///< ... and on all from here on.
  double mark_most = 0.01;              ///< What part is marked just below.
  uint32_t mtu_bytes = 4096;
  /// A sender starts so much after the one before it.
  Nanos stagger{1'000};
  /// The receiver answers whatever has come in so long at once: a thread that polls.
  Nanos receiver_turn{0};
};

/// Senders with the windows and rates of the NIC, which send without end; a receiver that keeps
/// what comes behind a hole. A judge looks at each packet: it leaves no sooner than its rate
/// allows.
class Bottleneck {
 public:
  explicit Bottleneck(const BottleneckConfig& config);
  /// Lets time pass.
  void Run(Nanos duration);
  /// What follows counts from now on.
  void ResetCounts();

  struct Counts {
    uint64_t sent = 0;
    uint64_t lost = 0;
    uint64_t marked = 0;
    uint64_t cnps = 0;
  };
  const Counts& counts() const { return counts_; }
  /// Part of the port's time in which it sent, since ResetCounts.
  double Use() const;
  /// Jain's index of what has arrived of each since ResetCounts.
  double Fairness() const;
  /// Of 100 packets 99 have found so many bytes before them at most.
  int64_t Queue99() const;
  double SharesOf(uint32_t sender) const;
  const Window& window(uint32_t sender) const { return senders_[sender]->window; }
  /// Violations of rules, as text would have it; 0.
  uint64_t too_early() const { return too_early_; }
  uint64_t extra_cnps() const { return extra_cnps_; }

 private:
  struct Sender {
    Sender(uint32_t most, const Environment* environment) : window(most, environment) {}
    Window window;
    FlowRate rate;
    uint32_t una = 0;
    uint32_t next = 0;
    std::set<uint32_t> lost;    ///< To be sent again.
    std::set<uint32_t> resent;  ///< Under way again.
    uint32_t round_end = 0;     ///< A round ends when all before it is acknowledged.
    Nanos line_free{0};
    Nanos progress{0};
    bool waits = false;  ///< A Try is under way.
    // The receiver.
    NotificationPoint notified;
    Nanos last_cnp = kNever;
    std::set<uint32_t> kept;
    uint32_t expected = 0;
    uint64_t arrived = 0;
  };
  struct Event {
    enum class Kind : uint8_t { kTry, kAtSwitch, kDeparts, kArrives, kAnswer, kCnp, kTimer };
    Nanos at;
    uint64_t order;
    Kind kind;
    uint32_t sender;
    uint32_t psn = 0;
    bool asks = false;
    bool marked = false;
    std::vector<uint32_t> missing;
    bool operator<(const Event& other) const {
      return at != other.at ? at > other.at : order > other.order;
    }
  };

  void Add(Event event);
  void OnTry(Sender& sender, uint32_t index);
  void Send(Sender& sender, uint32_t index, uint32_t psn, bool resent);
  void OnAtSwitch(const Event& event);
  void OnArrival(Sender& sender, const Event& event);
  void OnAnswer(Sender& sender, const Event& event);
  void OnTimer(Sender& sender, uint32_t index);
  bool IsMarked();

  const BottleneckConfig config_;
  Environment environment_;
  LimitedFlows limited_{1024};
  std::vector<std::unique_ptr<Sender>> senders_;
  std::priority_queue<Event> events_;
  uint64_t order_ = 0;
  Nanos now_{0};
  Nanos counted_from_{0};
  Nanos port_free_{0};
  int64_t queue_bytes_ = 0;
  int64_t departed_bytes_ = 0;
  std::vector<int64_t> queues_;
  uint64_t random_ = 88172645463325252ull;
  Counts counts_;
  uint64_t too_early_ = 0;
  uint64_t extra_cnps_ = 0;
};

}  // namespace uroce::congestion
