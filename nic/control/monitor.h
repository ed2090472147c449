// SPDX-License-Identifier: Apache-2.0
// What tools observe: events, dumps and captures.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <map>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "nic/base/event_loop.h"
#include "nic/base/reply.h"
#include "nic/dumps/dump_stream.h"
#include "nic/dumps/queue_pair_dump.h"
#include "nic/objects/client.h"
#include "pipeline/os/fd.h"
#include "pipeline/shm/abi/uroce_capture.h"
#include "pipeline/shm/abi/uroce_commands.h"
#include "pipeline/transport/queue_pair_types.h"

namespace uroce::nic {

class Capture;
class DumpSource;
class DumpStream;
class NicDevice;
struct ControlContext;
struct QueuePairObject;

/// Tells tools what happens (pipeline/shm/abi/uroce_events.h). Costs nothing without a watcher.
/// Each watcher has a socket that is never waited for, and up to kMaxBytes of lines behind it; a
/// watcher that is slower than the events loses some and is told how many. Control thread.
class Monitor {
 public:
  static constexpr size_t kMaxBytes = 64 << 10;
  using Json = nlohmann::ordered_json;

  explicit Monitor(const DumpContext& context);
  ~Monitor();
  Monitor(const Monitor&) = delete;
  Monitor& operator=(const Monitor&) = delete;

  /// Has `client` watch; `reader` is the end to read from. A client that watches already begins
  /// again. Errors: Internal, no socket.
  absl::Status Watch(const Client& client, Fd& reader);
  /// The client is about to end.
  void Forget(const Client& client);

  // ---- what happens ----
  void OnProgram(const Client& client, bool has_joined);
  /// A program has modified its queue pair.
  void OnModified(const Client& client, uint32_t handle);
  void OnPort(const NicDevice& device, bool is_there);
  void OnLink(const NicDevice& device);
  void OnGids(const NicDevice& device);
  void OnMac(const NicDevice& device);
  void OnInterface(const NicDevice& device);

 private:
  struct Watcher {
    uid_t uid = 0;
    bool is_privileged = false;
    UserSocket socket;
    EventLoop::Id watch = 0;
    std::string text;  ///< Whole lines, but what is sent of the first.
    uint64_t lost = 0;
  };
  struct KnownQueuePair {
    transport::QpState state{};
    uid_t uid = 0;
    std::string device;
    uint32_t qpn = 0;
    std::string program;
    pid_t pid = 0;
    uint64_t seen = 0;

    Json Moved(const char* from, const char* to) const;
  };

  /// `uid`: the user whose event it is; without one everybody's.
  void Tell(std::optional<uid_t> uid, const char* event, const Json& fields);
  void Add(const std::string& line, Watcher& watcher);
  /// Returns false when the watcher is gone.
  bool Send(Watcher& watcher);
  void OnReady(uint32_t client);
  void Remove(uint32_t client);

  void Look();
  void EndLook();
  void OnQueuePair(const Client& client, const QueuePairObject& object, transport::QpState state,
                   const Json& counters);

  const DumpContext& context_;
  const Client self_;
  std::map<uint32_t, Watcher> watchers_;      ///< By the id of the client.
  std::map<uint32_t, KnownQueuePair> known_;  ///< By QPN.
  std::unique_ptr<QueuePairWalk> walk_;
  uint64_t looks_ = 0;
  bool is_first_look_ = false;
  EventLoop::Id next_ = 0;
};

/// The observations of one client: a dump and a capture. Both end when the object does. Control
/// thread.
class Observations {
 public:
  Observations(ControlContext& context, const Client& client, DeferredReply& deferred);
  ~Observations();
  Observations(const Observations&) = delete;
  Observations& operator=(const Observations&) = delete;

  /// Lends a socket from which the dump is read. Ends a dump that is running. Events
  /// (pipeline/shm/abi/uroce_events.h) have no end.
  absl::Status Dump(const uroce_dump& request, Fd& reader);
  /// Like Dump, for the newest packets of a queue pair.
  absl::Status History(const uroce_history& request, Fd& reader);
  /// Defers the reply: a side thread makes the memory, which counts as memory of the client's user.
  /// Errors: PermissionDenied, InvalidArgument (one is running), ResourceExhausted.
  absl::Status StartCapture(const uroce_capture& request);

 private:
  struct Capturing;
  absl::Status Stream(absl::StatusOr<std::unique_ptr<DumpSource>> source, Fd& reader);
  absl::Status OnPopulated(Capturing& capturing, Reply& reply);
  /// Returns the place and the bytes of a capture.
  static void Return(ControlContext& context, uint32_t account, uint64_t bytes);

  ControlContext& context_;
  const Client& client_;
  DeferredReply& deferred_;
  std::unique_ptr<Capture> capture_;
  uint64_t capture_bytes_ = 0;
  std::unique_ptr<DumpStream> dump_;
};

}  // namespace uroce::nic
