// SPDX-License-Identifier: Apache-2.0
// The READs and atomics that a responder remembers: those whose reply it owes, and those whose
// reply it may have to repeat (docs/protocol/transport.md, section 4.3).
#pragma once

#include <cstdint>
#include <memory>

#include "pipeline/base/types.h"
#include "pipeline/transport/request_shape.h"
#include "pipeline/wire/packet.h"

namespace uroce::transport {

/// One READ or atomic that was executed.
struct ResponderResource {
  /// The answer to an ATOMIC WRITE is that of a READ of no bytes.
  enum class Kind : uint8_t { kRead, kAtomic, kAtomicWrite };

  wire::Psn first_psn;
  uint32_t packets = 1;
  wire::Psn reply_psn;        ///< Next response to send while `owed`, except repeats.
  wire::Psn repeat_psn;       ///< Next response to repeat while `repeats` is not 0.
  uint32_t repeats = 0;       ///< Responses to repeat before the reply goes on at reply_psn.
  uint32_t length_bytes = 0;  ///< READ.
  uint64_t va = 0;            ///< READ.
  uint64_t original = 0;      ///< Atomic: the value before the operation.
  Rkey rkey;
  uint32_t xrc_srqn = 0;  ///< READ.
  Kind kind = Kind::kRead;
  bool owed = false;      ///< A reply is under way.
  bool opens = false;     ///< The next response is the first of this reply.
  bool answered = false;  ///< A whole reply was sent at least once.

  wire::Psn next_psn() const { return repeats != 0 ? repeat_psn : reply_psn; }
  wire::Psn end_psn() const { return first_psn + packets; }
};

/// The newest READs and atomics, in PSN order. A new one overwrites the oldest. Replies leave in
/// PSN order, repeated ones too.
class ResponderResources {
 public:
  explicit ResponderResources(uint32_t capacity);

  void SetLimit(uint32_t limit);
  void Clear() { oldest_ = cursor_ = tail_ = owed_ = 0; }
  /// Whether another request may come: an entry is free, or the oldest one was answered.
  bool HasRoom() const;
  /// Takes a new request and owes its reply. Needs HasRoom().
  void Add(const ResponderResource& resource);
  /// The resource whose PSNs include `psn`, or null.
  ResponderResource* Find(wire::Psn psn);
  /// Owes the reply to `resource` again, from `psn` on.
  void Replay(ResponderResource& resource, wire::Psn psn);
  /// Owes `packets` responses to `resource` again, from `psn` on. Responses that were not sent yet
  /// follow anyway. Repeats that are asked for one after the other are joined to one range.
  void Repeat(ResponderResource& resource, wire::Psn psn, uint32_t packets);

  bool owes() const { return owed_ != 0; }
  /// The reply that leaves next. Needs owes().
  ResponderResource& Front() { return At(cursor_); }
  const ResponderResource& Front() const { return entries_[cursor_ & mask_]; }
  /// The next response of Front's reply has left; after its last one the reply is complete.
  void AdvanceFront();
  /// Ends Front's reply, which is complete or given up.
  void FinishFront();
  /// Gives up the responses that Front is to repeat.
  void FinishRepeats();
  void DropReplies();

 private:
  ResponderResource& At(uint32_t index) { return entries_[index & mask_]; }
  void SeekOwed();

  std::unique_ptr<ResponderResource[]> entries_;
  uint32_t mask_;
  uint32_t limit_ = 0;
  // Free-running indices: entries are [oldest_, tail_); cursor_ is the first that is owed, if any.
  uint32_t oldest_ = 0;
  uint32_t cursor_ = 0;
  uint32_t tail_ = 0;
  uint32_t owed_ = 0;
};

}  // namespace uroce::transport
