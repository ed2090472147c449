// SPDX-License-Identifier: Apache-2.0
// Service ID resolution: finds the queue pair of datagrams that serves an address and port. It is
// one request and one response (IBTA vol. 1, 12.11; docs/protocol/cm.md, sections 2 and 6). Pure.
#pragma once

#include <cstdint>

#include "nic/cm/types.h"

namespace uroce::nic::cm {

/// One resolution, at the asking or at the answering side. Owned by the Manager. The answering side
/// keeps its answer for a while: if it is lost, it is sent again without asking the program.
class ServiceResolution {
 public:
  enum class State : uint8_t {
    kIdle,
    kReqSent,
    kReqReceived,
    kAnswered,  ///< The answer is kept for a peer that asks again.
  };
  /// How long an answer is kept: a little more than two of Linux's intervals between requests.
  static constexpr Nanos kKeepAnswer{10'000'000'000};

  ServiceResolution(CommId id, Outbox& outbox) : id_(id), outbox_(&outbox) {}

  // ---- the side that asks ----
  Result Ask(const ResolveParameters& parameters, Nanos now);
  void OnResponse(const wire::CmMessage& message);

  // ---- the side that answers ----
  void OnRequest(const Route& route, BindingId listener, const wire::RdmaCmHeader& header,
                 const wire::CmMessage& message);
  void OnRepeatedRequest();
  Result Answer(const ResolveAnswer& answer, Nanos now);
  void Forget() {
    if (state_ == State::kAnswered) End();
  }

  /// The program has destroyed its id. A request without an answer is refused.
  void Destroy(Nanos now);
  void OnDeviceGone();
  void OnDeadline(Nanos now);
  Nanos NextDeadline() const { return deadline_; }

  CommId id() const { return id_; }
  /// The number that the asking side has given to the resolution.
  CommId request_id() const { return request_id_; }
  const Route& route() const { return route_; }
  State state() const { return state_; }
  bool asks() const { return asks_; }
  /// Whether it is only an answer that is kept, whose id the program has destroyed.
  bool is_remains() const { return !owned_ && state_ == State::kAnswered; }
  bool finished() const { return !owned_ && state_ == State::kIdle; }

 private:
  void End();
  void Raise(EventKind kind, const wire::CmMessage& message = {});

  CommId id_;
  Outbox* outbox_;
  State state_ = State::kIdle;
  bool owned_ = true;
  bool asks_ = false;
  bool begun_ = false;
  uint8_t transmissions_left_ = 0;
  CommId request_id_;
  uint64_t service_id_ = 0;
  Route route_;
  BindingId listener_{};
  Nanos interval_;
  Nanos deadline_ = kNever;
  wire::CmMessage message_;  ///< The message that is sent again: the request or the answer.
};

}  // namespace uroce::nic::cm
