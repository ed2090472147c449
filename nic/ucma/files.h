// SPDX-License-Identifier: Apache-2.0
// The open files of one program on rdma_cm's device, as the kernel's ucma has them: ids, their
// events in order, and the commands that are written. Pure.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <vector>

#include "nic/rdma_cm/service.h"
#include "nic/ucma/command.h"
#include "nic/ucma/responses.h"

namespace uroce::nic::ucma {

/// An open file, by the caller's own number.
enum class FileId : uint32_t {};

/// Control thread. Its end is that of the program: all ids are destroyed, and their peers told.
class Files {
 public:
  /// Events wait in a file that had none.
  using Signal = std::function<void(FileId)>;
  /// As ibv_get_device_guid returns it, of a device by the service's index.
  using NodeGuid = std::function<uint64_t(uint32_t device)>;

  Files(rdma_cm::Service& service, const rdma_cm::Owner& owner,
        rdma_cm::Service::HasQueuePair has_queue_pair, NodeGuid node_guid, Signal signal);
  Files(const Files&) = delete;
  Files& operator=(const Files&) = delete;

  /// `file` is not open.
  void Open(FileId file) { files_.try_emplace(file); }
  /// With all ids that belong to it.
  void Close(FileId file);
  /// Executes what was written to `file`. `old_file`: where MIGRATE_ID takes the id from.
  Answer Write(FileId file, FileId old_file, std::span<const uint8_t> bytes);

  size_t id_count() const { return ids_.size(); }
  /// That wait in `file`, which is open.
  size_t event_count(FileId file) const { return files_.at(file).events.size(); }

 private:
  using IdNumber = uint32_t;          ///< What programs call an id by.
  using MembershipNumber = uint32_t;  ///< And a multicast membership.

  struct Id {
    FileId file{};
    rdma_cm::EndpointId endpoint{};
    uint64_t uid = 0;  ///< The program's word for it; 0: a request that was not accepted yet.
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
    IdNumber id = 0;                  ///< Whose it is; of a request: who listens.
    MembershipNumber membership = 0;  ///< Of the multicast kinds.
    rdma_cm::EndpointId request{};    ///< Of a request: the endpoint that becomes an id.
    rdma_ucm_event_resp response{};
  };
  /// That wait, for each id of a file: with more the program has to read some first.
  static constexpr size_t kEventsPerId = 16;
  struct File {
    std::deque<WaitingEvent> events;
    std::set<IdNumber> ids;
    uint32_t emptied = 0;  ///< Not said in an answer yet.
  };
  /// A command in the file that it was written to.
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
  static void NoteEmptied(File& file, bool was_empty) {
    if (!was_empty && file.events.empty()) ++file.emptied;
  }
  /// Forgets the events that `is_meant`.
  template <typename IsMeant>
  static void Purge(File& file, IsMeant is_meant) {
    const bool was_empty = file.events.empty();
    std::erase_if(file.events, is_meant);
    NoteEmptied(file, was_empty);
  }

  // ---- ids (files.cc) ----
  IdNumber AddId(FileId file, const Id& id);
  void RemoveId(IdNumber number);
  MembershipNumber AddMembership(const Membership& membership);
  File* FindFile(FileId file);
  /// 0, ENOENT: there is no such id; EINVAL: it is another file's. As the kernel says it.
  int FindId(FileId file, IdNumber number, Id*& id);
  /// As FindId, for an id that `command` begins with or has at `Structure::id`.
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

  /// Whether there is room for what a program can have itself told any number of times.
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
  std::unique_ptr<rdma_cm::Client> client_;  ///< Goes first.
};

}  // namespace uroce::nic::ucma
