// SPDX-License-Identifier: Apache-2.0
#include "tests/congestion/bottleneck.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "pipeline/congestion/pacer.h"
#include "pipeline/congestion/units.h"

namespace uroce::congestion {
namespace {

constexpr uint32_t kMostInFlight = 256;
constexpr uint32_t kHeaders = 14 + 20 + 8 + 12 + 4;
constexpr Nanos kLeastTimeout{1'000'000};

}  // namespace

Bottleneck::Bottleneck(const BottleneckConfig& config) : config_(config) {
  environment_.settings = config.settings;
  environment_.line_bps = static_cast<uint64_t>(config.line_bps);
  for (uint32_t i = 0; i < config.senders; ++i) {
    senders_.push_back(std::make_unique<Sender>(kMostInFlight, &environment_));
    senders_[i]->window.Start(true, config.mtu_bytes);
    senders_[i]->waits = true;
    const Nanos start = config.stagger * i;
    Add({.at = start, .kind = Event::Kind::kTry, .sender = i});
    Add({.at = start + kLeastTimeout, .kind = Event::Kind::kTimer, .sender = i});
  }
}

void Bottleneck::Add(Event event) {
  event.order = order_++;
  events_.push(std::move(event));
}

void Bottleneck::Run(Nanos duration) {
  const Nanos end = now_ + duration;
  while (!events_.empty() && events_.top().at <= end) {
    const Event event = events_.top();
    events_.pop();
    now_ = event.at;
    Sender& sender = *senders_[event.sender];
    switch (event.kind) {
      case Event::Kind::kTry:
        sender.waits = false;
        OnTry(sender, event.sender);
        break;
      case Event::Kind::kAtSwitch:
        OnAtSwitch(event);
        break;
      case Event::Kind::kDeparts:
        queue_bytes_ -= config_.mtu_bytes;
        departed_bytes_ += config_.mtu_bytes;
        break;
      case Event::Kind::kArrives:
        OnArrival(sender, event);
        break;
      case Event::Kind::kAnswer:
        OnAnswer(sender, event);
        OnTry(sender, event.sender);
        break;
      case Event::Kind::kCnp:
        sender.rate.OnCnp(environment_, limited_, now_);
        break;
      case Event::Kind::kTimer:
        OnTimer(sender, event.sender);
        break;
    }
    limited_.Tend(now_);
  }
  now_ = end;
}

void Bottleneck::OnTry(Sender& sender, uint32_t index) {
  if (sender.waits) return;
  while (true) {
    const bool resends = !sender.lost.empty();
    const uint32_t in_flight = sender.next - sender.una;
    if (!resends && !sender.window.MaySend(in_flight)) return;
    const Nanos may = std::max(sender.rate.next_send(), sender.line_free);
    if (may > now_) {
      sender.waits = true;
      return Add({.at = may, .kind = Event::Kind::kTry, .sender = index});
    }
    const uint32_t psn = resends ? *sender.lost.begin() : sender.next;
    Send(sender, index, psn, resends);
  }
}

void Bottleneck::Send(Sender& sender, uint32_t index, uint32_t psn, bool resent) {
  const uint32_t in_flight = sender.next - sender.una;
  bool asks = sender.window.AsksForAck(in_flight);
  if (sender.rate.next_send() > now_) ++too_early_;
  if (resent) {
    sender.lost.erase(psn);
    sender.resent.insert(psn);
    asks = true;
  } else {
    sender.window.OnSent(wire::Psn(psn), in_flight, asks, now_);
    ++sender.next;
  }
  const uint32_t wire_bytes = config_.mtu_bytes + kHeaders + kFrameOverheadBytes;
  sender.rate.OnSent(limited_, wire_bytes, 0, now_);
  if (sender.window.gap() != Nanos(0)) sender.rate.Delay(now_, sender.window.gap());
  sender.line_free = std::max(now_, sender.line_free) + TimeOf(config_.mtu_bytes, config_.line_bps);
  ++counts_.sent;
  Add({.at = sender.line_free + config_.one_way * 1,
       .kind = Event::Kind::kAtSwitch,
       .sender = index,
       .psn = psn,
       .asks = asks});
}

bool Bottleneck::IsMarked() {
  if (queue_bytes_ <= config_.mark_from_bytes) return false;
  if (queue_bytes_ > config_.mark_all_bytes) return true;
  random_ ^= random_ << 13;
  random_ ^= random_ >> 7;
  random_ ^= random_ << 17;
  const double share = static_cast<double>(queue_bytes_ - config_.mark_from_bytes) /
                       static_cast<double>(config_.mark_all_bytes - config_.mark_from_bytes);
  return static_cast<double>(random_ % 1'000'000) / 1e6 < share * config_.mark_most;
}

void Bottleneck::OnAtSwitch(const Event& event) {
  queues_.push_back(queue_bytes_);
  if (queue_bytes_ + config_.mtu_bytes > config_.buffer_bytes) {
    ++counts_.lost;
    return;
  }
  queue_bytes_ += config_.mtu_bytes;
  Event next = event;
  next.marked = IsMarked();
  counts_.marked += next.marked;
  port_free_ = std::max(now_, port_free_) + TimeOf(config_.mtu_bytes, config_.port_bps);
  Add({.at = port_free_, .kind = Event::Kind::kDeparts, .sender = event.sender});
  next.kind = Event::Kind::kArrives;
  next.at = port_free_;
  if (config_.receiver_turn != Nanos(0)) {
    const int64_t turn = config_.receiver_turn.count();
    next.at = Nanos((next.at.count() / turn + 1) * turn);
  }
  Add(std::move(next));
}

void Bottleneck::OnArrival(Sender& sender, const Event& event) {
  ++sender.arrived;
  const Nanos interval = Micros(config_.settings.np.min_time_between_cnps);
  const bool answers = config_.settings.profile != Profile::kOff;
  if (event.marked && answers && sender.notified.OnMarked(now_, interval)) {
    if (sender.last_cnp != kNever && now_ - sender.last_cnp < interval) ++extra_cnps_;
    sender.last_cnp = now_;
    ++counts_.cnps;
    Add({.at = now_ + config_.one_way, .kind = Event::Kind::kCnp, .sender = event.sender});
  }
  const bool ahead = event.psn > sender.expected;
  if (event.psn >= sender.expected) sender.kept.insert(event.psn);
  while (!sender.kept.empty() && *sender.kept.begin() == sender.expected) {
    sender.kept.erase(sender.kept.begin());
    ++sender.expected;
  }
  if (!event.asks && !ahead) return;
  Event answer{.at = now_ + config_.one_way,
               .kind = Event::Kind::kAnswer,
               .sender = event.sender,
               .psn = sender.expected};
  if (!sender.kept.empty()) {
    for (uint32_t psn = sender.expected; psn < *sender.kept.rbegin(); ++psn) {
      if (!sender.kept.contains(psn)) answer.missing.push_back(psn);
    }
  }
  Add(std::move(answer));
}

void Bottleneck::OnAnswer(Sender& sender, const Event& event) {
  uint32_t lost = 0;
  for (const uint32_t psn : event.missing) {
    if (psn < sender.una || sender.resent.contains(psn) || sender.lost.contains(psn)) continue;
    sender.lost.insert(psn);
    ++lost;
  }
  if (lost != 0) {
    sender.window.OnLost(lost);
    const Profile profile = config_.settings.profile;
    if (profile == Profile::kDcqcn || profile == Profile::kDcqcnMlx) {
      sender.rate.OnCnp(environment_, limited_, now_);
    }
  }
  if (event.psn <= sender.una) return;
  const uint32_t packets = event.psn - sender.una;
  sender.una = event.psn;
  sender.progress = now_;
  sender.resent.erase(sender.resent.begin(), sender.resent.lower_bound(sender.una));
  sender.lost.erase(sender.lost.begin(), sender.lost.lower_bound(sender.una));
  sender.window.OnAcknowledged(wire::Psn(sender.una), packets, now_);
  if (sender.una < sender.round_end) return;
  sender.round_end = sender.next;
  sender.window.OnRound(sender.next - sender.una);
}

void Bottleneck::OnTimer(Sender& sender, uint32_t index) {
  const Nanos timeout = std::max(kLeastTimeout, config_.one_way * 6);
  if (now_ - sender.progress >= timeout && sender.next != sender.una) {
    sender.window.OnGoBack();
    sender.window.OnAllResent(true);
    sender.resent.clear();
    sender.lost.insert(sender.una);
    sender.progress = now_;
    OnTry(sender, index);
  }
  Add({.at = now_ + timeout, .kind = Event::Kind::kTimer, .sender = index});
}

void Bottleneck::ResetCounts() {
  counted_from_ = now_;
  departed_bytes_ = 0;
  counts_ = {};
  queues_.clear();
  for (const auto& sender : senders_) sender->arrived = 0;
}

double Bottleneck::Use() const {
  const auto nanos = static_cast<double>((now_ - counted_from_).count());
  return static_cast<double>(departed_bytes_) * 8e9 / (nanos * config_.port_bps);
}

double Bottleneck::Fairness() const {
  double sum = 0;
  double squares = 0;
  for (const auto& sender : senders_) {
    const auto arrived = static_cast<double>(sender->arrived);
    sum += arrived;
    squares += arrived * arrived;
  }
  return squares == 0 ? 0 : sum * sum / (squares * static_cast<double>(senders_.size()));
}

int64_t Bottleneck::Queue99() const {
  std::vector<int64_t> sorted = queues_;
  if (sorted.empty()) return 0;
  const auto at = sorted.begin() + static_cast<int64_t>(sorted.size() * 99 / 100);
  std::nth_element(sorted.begin(), at, sorted.end());
  return *at;
}

double Bottleneck::SharesOf(uint32_t sender) const {
  double sum = 0;
  for (const auto& each : senders_) sum += static_cast<double>(each->arrived);
  return sum == 0 ? 0 : static_cast<double>(senders_[sender]->arrived) / sum;
}

}  // namespace uroce::congestion
