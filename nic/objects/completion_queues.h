// SPDX-License-Identifier: Apache-2.0
// Completion channels and completion queues of a program. A queue has a ring on every worker that
// has queue pairs using it; the ring is made with the first of these queue pairs.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "nic/objects/contexts.h"
#include "nic/objects/lifetimes.h"
#include "nic/objects/program_core.h"
#include "nic/objects/resources.h"
#include "pipeline/datapath/queue/completion_queue.h"
#include "pipeline/shm/abi/uroce_commands.h"
#include "pipeline/shm/rings/completion_queue.h"

namespace uroce::nic {

/// Moves CQEs from the old rings of a resized completion queue to the new ones. The program waits
/// for the end, and the workers write behind these CQEs, so they may be moved
/// some at a time. Control thread.
class CqeMoves {
 public:
  void Add(const datapath::CompletionRing::Moved& ring, const rings::CqeRingLayout& to) {
    rings_.push_back({ring, to});
  }
  /// Moves up to `most` CQEs. Returns false when some are left.
  bool MoveSome(uint32_t most);

 private:
  struct Ring {
    datapath::CompletionRing::Moved moved;
    rings::CqeRingLayout to;
    uint32_t done = 0;  ///< CQEs that are moved.
  };
  std::vector<Ring> rings_;  ///< The unfinished rings; taken from the back.
};

struct Channel {
  Use<Context> context;
  UserSocket records;  ///< The socket for completion notices.
  Users users;
};

struct CompletionQueueObject {
  Use<Context> context;
  Use<Channel> channel;  ///< May be null.
  ArenaRange page;
  uint64_t user_handle = 0;
  uint32_t depth = 0;                    ///< Of each ring. A power of two.
  std::map<uint32_t, ArenaRange> rings;  ///< By worker.
  datapath::CompletionQueue queue;
  uint32_t handle = 0;
  Users users;
};

/// A completion queue with new rings; the CQEs in its old rings are still to be moved.
struct ResizedQueue {
  CompletionQueueObject* cq = nullptr;
  std::map<uint32_t, ArenaRange> old_rings;  ///< By worker.
  CqeMoves moves;
};

/// The completion channels and queues of one program. Control thread.
class CompletionQueues : public ProgramPart {
 public:
  CompletionQueues(ProgramCore& core, const Contexts& contexts);

  absl::StatusOr<uint32_t> CreateChannel(uint32_t context, Fd& records);
  absl::Status DestroyChannel(uint32_t handle);
  absl::StatusOr<uroce_create_cq_reply> Create(const uroce_create_cq& request);
  absl::StatusOr<CompletionQueueObject*> Find(uint32_t handle) const { return cqs_.Find(handle); }
  /// Until EndResize the program polls none of the queue's rings, and creates or destroys no queue
  /// pair. Errors: InvalidArgument when more CQEs wait than are asked for.
  absl::StatusOr<ResizedQueue> Resize(const uroce_resize_cq& request);
  /// Call it once all CQEs are moved. Returns the places of the rings.
  std::vector<uroce_cq_ring> EndResize(const ResizedQueue& resized);
  absl::Status Modify(const uroce_modify_cq& request);
  absl::StatusOr<uroce_destroy_cq_reply> Destroy(uint32_t handle);

  /// The queue's ring on `worker`; makes it if there is none. Errors: ResourceExhausted.
  absl::StatusOr<datapath::CompletionRing*> RingOn(uint32_t worker, CompletionQueueObject& cq);
  /// Describes a ring in the form of replies.
  static uroce_cq_ring DescribeRing(uint32_t worker, const CompletionQueueObject& cq);

  /// Ends the queues, then the channels, which no other part uses.
  bool EndSomeOf(const Context& context, absl::FunctionRef<bool()> is_over) override;
  bool EndSome(absl::FunctionRef<bool()> is_over) override;

  /// For dumps.
  const HandleTable<CompletionQueueObject>& table() const { return cqs_; }

 private:
  absl::StatusOr<ArenaRange> TakeRing(uint32_t depth);
  /// Names the rings in the queue's page.
  void ShowRings(const CompletionQueueObject& cq);
  /// Takes a new ring for every ring of `cq`. On an error none is taken.
  absl::Status TakeRings(const CompletionQueueObject& cq, uint32_t depth,
                         std::map<uint32_t, ArenaRange>& taken);
  void GiveRings(const std::map<uint32_t, ArenaRange>& rings);
  /// Takes queues from their workers and from the overflow inbox.
  void Leave(std::span<const std::unique_ptr<CompletionQueueObject>> leaving);

  ProgramCore& core_;
  const Contexts& contexts_;
  HandleTable<Channel> channels_;
  HandleTable<CompletionQueueObject> cqs_;
};

}  // namespace uroce::nic
