// SPDX-License-Identifier: Apache-2.0
// All objects of one program: its parts, the order in which they are destroyed, and what it imports
// from other programs.
#pragma once

#include <cstdint>
#include <memory>
#include <tuple>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/statusor.h"
#include "nic/objects/address_handles.h"
#include "nic/objects/completion_queues.h"
#include "nic/objects/contexts.h"
#include "nic/objects/program_core.h"
#include "nic/objects/queue_pairs.h"
#include "nic/objects/regions.h"
#include "nic/objects/shared_receive_queues.h"
#include "nic/objects/windows.h"
#include "nic/objects/xrc.h"
#include "pipeline/os/side_thread.h"

namespace uroce::nic {

/// Control thread. Handles come from the program: each method of a part checks them. Statuses map
/// to errno values of verbs (nic/base/reply.h). The destructor ends what EndSome has left.
class Program {
 public:
  /// `files_thread` closes what the program lends.
  static absl::StatusOr<std::unique_ptr<Program>> Make(Nic& nic, uint32_t id, uint32_t uid,
                                                       std::shared_ptr<SideThread> files_thread);
  ~Program();
  Program(const Program&) = delete;
  Program& operator=(const Program&) = delete;

  ProgramCore& core() { return *core_; }
  Contexts& contexts() { return contexts_; }
  Segments& segments() { return segments_; }
  Regions& regions() { return regions_; }
  Windows& windows() { return windows_; }
  CompletionQueues& completion_queues() { return completion_queues_; }
  Xrc& xrc() { return xrc_; }
  SharedReceiveQueues& shared_receive_queues() { return shared_receive_queues_; }
  QueuePairs& queue_pairs() { return queue_pairs_; }
  AddressHandles& address_handles() { return address_handles_; }
  /// The part of this type.
  template <typename Part>
  Part& part();

  /// Closes a context and destroys all objects in it, as the kernel does: programs rely on that.
  /// Destroys at least one, and goes on until `is_over`. False: objects are left, call it again
  /// before any other command. Its regions are hidden then (Regions::ReleaseSome). Errors:
  /// InvalidArgument.
  absl::StatusOr<bool> CloseSome(uint32_t handle, absl::FunctionRef<bool()> is_over);

  /// Ends the program's objects: queue pairs, then the objects they used, then the memory, once the
  /// workers have released it. Ends some, and goes on until `is_over`. Returns whether none is
  /// left; false: call it again. The program executes no commands any more.
  bool EndSome(absl::FunctionRef<bool()> is_over);

  // ---- what programs share ----
  /// Makes a context for one with this name, of any program. Errors: InvalidArgument.
  absl::StatusOr<uroce_import_context_reply> ImportContext(const uroce_context_name& name,
                                                           Fd& events);
  /// Errors: InvalidArgument, Unimplemented (copied memory).
  absl::StatusOr<uint32_t> ImportPd(const uroce_import& request);
  absl::StatusOr<uroce_import_mr_reply> ImportMr(const uroce_import& request);

 private:
  Program(std::unique_ptr<ProgramCore> core, std::shared_ptr<SideThread> files_thread);

  /// The order in which they end: a part that uses another one comes before it.
  auto parts() {
    return std::tie(queue_pairs_, address_handles_, shared_receive_queues_, windows_, regions_,
                    contexts_, completion_queues_, xrc_);
  }

  std::unique_ptr<ProgramCore> core_;
  Contexts contexts_{*core_};
  RemappedRegions remapped_{*core_};
  Segments segments_;
  Regions regions_{*core_, contexts_, segments_, remapped_};
  Windows windows_{*core_, contexts_};
  CompletionQueues completion_queues_{*core_, contexts_};
  Xrc xrc_{*core_, contexts_};
  SharedReceiveQueues shared_receive_queues_{*core_, contexts_, completion_queues_, xrc_};
  QueuePairs queue_pairs_{*core_, contexts_, completion_queues_, shared_receive_queues_, xrc_};
  AddressHandles address_handles_{*core_, contexts_};
};

template <typename Part>
Part& Program::part() {
  return std::get<Part&>(std::tuple_cat(parts(), std::tie(segments_)));
}

}  // namespace uroce::nic
