// SPDX-License-Identifier: Apache-2.0
// The events of NICs in virtual time, and the random numbers of a simulation.
#pragma once

#include <array>
#include <cmath>
#include <cstdint>
#include <random>

#include "pipeline/base/types.h"
#include "pipeline/fabric/fabric.h"

namespace uroce::tools::sim {

/// Numbers from a seed, the same on every machine: the distributions of the C++ library differ
/// between libraries, so none of them is used.
class Random {
 public:
  explicit Random(uint64_t seed) : engine_(seed) {}

  uint64_t Next() { return engine_(); }
  /// Range: `bound` is not 0. The bias is below 2^-32 for bounds below 2^32.
  uint64_t Below(uint64_t bound) { return engine_() % bound; }
  /// In [0, 1).
  double Uniform() { return static_cast<double>(engine_() >> 11) / 9007199254740992.0; }
  bool Happens(double probability) { return probability > 0 && Uniform() < probability; }
  /// Of an exponential distribution with the mean 1.
  double Exponential() { return -Log(1 - Uniform()); }

  /// The natural logarithm by sums and products alone: std::log may differ in its last bit between
  /// libraries. Range: 0 < x <= 1. Error below 1e-15 of 1.
  static double Log(double x) {
    constexpr double kLog2 = 0.6931471805599453;
    int exponent = 0;
    const double mantissa = std::frexp(x, &exponent);  // In [0.5, 1).
    const double z = (mantissa - 1) / (mantissa + 1);
    const double square = z * z;
    double sum = 0;
    for (int power = 33; power >= 1; power -= 2) sum = sum * square + 1.0 / power;
    return 2 * z * sum + exponent * kLog2;
  }

 private:
  std::mt19937_64 engine_;
};

/// When NICs and queue pairs want to be called. Each NIC has one event, each queue pair
/// two. Events of the same time come in the order of their numbers, so that runs repeat.
class Agenda {
 public:
  enum class Kind : uint8_t { kNic, kTimer, kPace };
  struct Event {
    Kind kind = Kind::kNic;
    uint32_t number = 0;  ///< Of the NIC, or of the queue pair.
  };

  explicit Agenda(uint32_t nics) : nics_(nics) { events_.Resize(nics); }

  /// Queue pairs 0 to `count` - 1 may have events.
  void SetQueuePairs(uint32_t count) { events_.Resize(nics_ + 2 * count); }

  Nanos next() const { return events_.next(); }
  void SetNic(uint32_t nic, Nanos time) { events_.Set(nic, time); }
  void SetTimer(uint32_t queue_pair, Nanos time) { events_.Set(nics_ + 2 * queue_pair, time); }
  void SetPace(uint32_t queue_pair, Nanos time) { events_.Set(nics_ + 2 * queue_pair + 1, time); }
  /// Takes the earliest event. Range: there is one.
  Event Take() {
    const uint32_t event = events_.first();
    soon_ = events_.Soon();
    events_.Remove(event);
    return EventOf(event);
  }
  /// Events that come soon after the one that was taken last, for prefetching: a NIC's number, or
  /// kNone.
  static constexpr uint32_t kNone = fabric::EventQueue::kNone;
  uint32_t soon() const { return soon_[0] < nics_ ? soon_[0] : kNone; }
  uint32_t later() const { return soon_[1] < nics_ ? soon_[1] : kNone; }

 private:
  Event EventOf(uint32_t event) const {
    if (event < nics_) return {.kind = Kind::kNic, .number = event};
    const uint32_t of_pair = event - nics_;
    return {.kind = of_pair % 2 == 0 ? Kind::kTimer : Kind::kPace, .number = of_pair / 2};
  }

  const uint32_t nics_;
  std::array<uint32_t, 3> soon_{kNone, kNone, kNone};
  fabric::EventQueue events_;
};

}  // namespace uroce::tools::sim
