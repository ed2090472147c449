// SPDX-License-Identifier: Apache-2.0
// The open files of /dev/infiniband/rdma_cm of one program: their ids, their events, and the
// commands written to them, as untrusted bytes. Pure.
#pragma once

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <cstring>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <type_traits>
#include <vector>

#include "nic/rdma_cm/client.h"
#include "nic/ucma/responses.h"

namespace uroce::nic::ucma {

// ---- commands ----

/// All fields are untrusted input.
struct Command {
  uint32_t number = 0;              ///< RDMA_USER_CM_CMD_*
  std::span<const uint8_t> in;      ///< Its structure.
  std::span<const uint8_t> option;  ///< The bytes behind it: the value of an option.
  size_t out_bytes = 0;             ///< Room for its response.
};

/// Splits the written bytes. Returns 0, or EINVAL if the header claims more than there is.
int ParseCommand(std::span<const uint8_t> bytes, Command& command);

/// The result of a command.
struct Answer {
  int error = 0;  ///< 0 or a positive errno.
  /// Signals that the program must take from the file (for MIGRATE_ID: from the file that the id
  /// came from): all but one while events wait, and then all.
  uint32_t signals = 0;
  uint32_t old_signals = 0;
  std::vector<uint8_t> response;
};

/// Copies the command's structure. Older programs may write only its first `least_bytes` or more.
/// Returns 0, or EINVAL if it is shorter than that.
template <typename T>
int Read(const Command& command, T& value, size_t least_bytes = sizeof(T)) {
  static_assert(std::is_trivially_copyable_v<T>);
  if (command.in.size() < least_bytes) return EINVAL;
  std::memcpy(&value, command.in.data(), std::min(command.in.size(), sizeof(T)));
  return 0;
}

/// Makes `value` the response, truncated to the room that the program gives. Returns 0, or ENOSPC
/// if that is less than `least_bytes`.
template <typename T>
int Respond(const Command& command, const T& value, Answer& answer,
            size_t least_bytes = sizeof(T)) {
  static_assert(std::is_trivially_copyable_v<T>);
  if (command.out_bytes < least_bytes) return ENOSPC;
  const auto* bytes = reinterpret_cast<const uint8_t*>(&value);
  answer.response.assign(bytes, bytes + std::min(command.out_bytes, sizeof(T)));
  return 0;
}

// ---- files ----

/// Identifies an open file; the caller chooses the number.
enum class FileId : uint32_t {};

/// Control thread. The destructor destroys all ids of the program and tells their peers.
class Files {
 public:
  /// Called for each event that comes into a file, since a program that watches the file with
  /// EPOLLET expects an edge for each. False: no signal fits, so many wait to be taken.
  using Signal = std::function<bool(FileId)>;
  /// The node GUID as ibv_get_device_guid returns it; `device` is the service's index.
  using NodeGuid = std::function<uint64_t(uint32_t device)>;

  Files(rdma_cm::Service& service, const rdma_cm::Owner& owner,
        rdma_cm::HasQueuePair has_queue_pair, NodeGuid node_guid, Signal signal);
  Files(const Files&) = delete;
  Files& operator=(const Files&) = delete;

  /// Opens `file`, which must not be open.
  void Open(FileId file) { files_.try_emplace(file); }
  /// Closes `file`, which takes no commands any more, and destroys up to `most` of the ids that
  /// belong to it. Returns false while some are left: then call it again.
  bool CloseSome(FileId file, uint32_t most);
  void Close(FileId file) {
    while (!CloseSome(file, UINT32_MAX / kEventsPerId)) continue;
  }
  /// Executes a command written to `file`. `old_file`: the file from which MIGRATE_ID takes the id.
  Answer Write(FileId file, FileId old_file, std::span<const uint8_t> bytes);

  size_t id_count() const { return ids_.size(); }
  /// The number of events that wait in `file`, which must be open.
  size_t event_count(FileId file) const { return files_.at(file).events.size(); }

 private:
  using IdNumber = uint32_t;          ///< Names an id for programs.
  using MembershipNumber = uint32_t;  ///< Names a membership for programs.

  struct Id {
    FileId file{};
    rdma_cm::EndpointId endpoint{};
    uint64_t uid = 0;  ///< Chosen by the program; 0: a request that is not accepted.
    bool is_datagram = false;
    uint32_t events_reported = 0;
    std::vector<MembershipNumber> memberships;
  };
  struct Membership {
    IdNumber id = 0;
    rdma_cm::MembershipId membership{};
    uint64_t uid = 0;
    uint32_t events_reported = 0;
  };
  struct WaitingEvent {
    IdNumber id = 0;                  ///< The id of the event; for a request: the listener.
    MembershipNumber membership = 0;  ///< For the multicast kinds.
    rdma_cm::EndpointId request{};    ///< For a request: the endpoint that becomes an id.
    rdma_ucm_event_resp response{};
  };
  /// The most waiting events per id of a file; above that the program must read some first.
  static constexpr size_t kEventsPerId = 16;
  struct File {
    std::deque<WaitingEvent> events;
    std::set<IdNumber> ids;
    uint32_t signals = 0;  ///< Sent, and not yet reported in an answer. 0 only without events.
    bool is_closing = false;
  };
  /// A command and the file that it was written to.
  struct Call {
    FileId file_id{};
    File& file;
    FileId old_file_id{};
    const Command& command;
    Answer& answer;
  };
  using Handler = int (Files::*)(Call&);
  static Handler FindHandler(uint32_t number);

  // ---- events (files.cc) ----
  void OnEvent(const rdma_cm::Event& event);
  void OnRequest(const rdma_cm::Event& event);
  void OnMulticast(const rdma_cm::Event& event);
  void Enqueue(FileId file, const WaitingEvent& event);
  /// The signals that the program must take, so that the file is readable only while events wait.
  static uint32_t TakeSurplus(File& file);

  // ---- ids (files.cc) ----
  IdNumber AddId(FileId file, const Id& id);
  void RemoveId(IdNumber number);
  MembershipNumber AddMembership(const Membership& membership);
  File* FindFile(FileId file);
  /// Returns 0, ENOENT (there is no such id) or EINVAL (it is another file's), as the kernel does.
  int FindId(FileId file, IdNumber number, Id*& id);
  /// Reads `command`, and finds its id as FindId: its first field, or `Structure::id`.
  template <typename Structure>
  int ReadWithId(Call& call, Structure& command, Id*& id, size_t least_bytes = sizeof(Structure));
  Described Describe(const Id& id) const;

  // ---- one for each command (commands.cc) ----
  int CreateId(Call& call);
  int DestroyId(Call& call);
  int BindIp(Call& call);
  int Bind(Call& call);
  int ResolveIp(Call& call);
  int ResolveAddress(Call& call);
  int ResolveRoute(Call& call);
  int QueryRoute(Call& call);
  int Query(Call& call);
  int Connect(Call& call);
  int Listen(Call& call);
  int Accept(Call& call);
  int Reject(Call& call);
  int Disconnect(Call& call);
  int InitQueuePair(Call& call);
  int GetEvent(Call& call);
  int SetOption(Call& call);
  int Notify(Call& call);
  int JoinIpMulticast(Call& call);
  int JoinMulticast(Call& call);
  int LeaveMulticast(Call& call);
  int MigrateId(Call& call);

  /// Whether there is room for events that a program can cause any number of times.
  bool HasRoomForEvents(const Id& id) const;
  int Resolve(const Id& id, std::span<const uint8_t> source, std::span<const uint8_t> destination,
              uint32_t timeout_ms);
  int Join(Call& call, IdNumber number, uint64_t uid, std::span<const uint8_t> group,
           bool send_only);
  int SetIdOption(const Id& id, uint32_t name, std::span<const uint8_t> value);

  NodeGuid node_guid_;
  Signal signal_;
  std::map<FileId, File> files_;
  IdNumber last_id_ = 0;
  std::map<IdNumber, Id> ids_;
  std::map<rdma_cm::EndpointId, IdNumber> by_endpoint_;
  MembershipNumber last_membership_ = 0;
  std::map<MembershipNumber, Membership> memberships_;
  rdma_cm::Client client_;  ///< Destroyed first.
};

}  // namespace uroce::nic::ucma
