// SPDX-License-Identifier: Apache-2.0
#include "nic/ucma/files.h"

#include <algorithm>
#include <cstddef>
#include <iterator>
#include <utility>

#include "nic/ucma/responses.h"

namespace uroce::nic::ucma {
namespace {

using rdma_cm::EventKind;

// librdmacm looks ids up in a table of 2^16.
constexpr uint32_t kMostNumber = 0xffff;

/// The next number that is not in `taken`; it goes in a circle, so that freed numbers rest.
template <typename Taken>
uint32_t NextNumber(uint32_t& last, const Taken& taken) {
  do {
    last = last >= kMostNumber && taken.size() < kMostNumber ? 1 : last + 1;
  } while (taken.contains(last));
  return last;
}

bool IsMulticast(EventKind kind) {
  return kind == EventKind::kMulticastJoin || kind == EventKind::kMulticastError;
}

}  // namespace

int ParseCommand(std::span<const uint8_t> bytes, Command& command) {
  rdma_ucm_cmd_hdr header;
  if (bytes.size() < sizeof(header)) return EINVAL;
  std::memcpy(&header, bytes.data(), sizeof(header));
  const std::span<const uint8_t> rest = bytes.subspan(sizeof(header));
  if (header.in > rest.size()) return EINVAL;
  command = {header.cmd, rest.first(header.in), rest.subspan(header.in), header.out};
  return 0;
}

// Files, ids and events, with the behaviour of the kernel's ucma. librdmacm relies on it:
// destroying an id waits until all events that were reported for the id have been
// acknowledged.

Files::Files(rdma_cm::Service& service, const rdma_cm::Owner& owner,
             rdma_cm::HasQueuePair has_queue_pair, NodeGuid node_guid, Signal signal)
    : node_guid_(std::move(node_guid)),
      signal_(std::move(signal)),
      client_(service, owner, std::move(has_queue_pair),
              [this](const rdma_cm::Event& event) { OnEvent(event); }) {}

// Events go first, so that no id looks for its own among all of them. An id has kEventsPerId in the
// mean at most.
bool Files::CloseSome(FileId file, uint32_t most) {
  const auto found = files_.find(file);
  if (found == files_.end()) return true;
  File& its = found->second;
  its.is_closing = true;
  for (size_t left = most * kEventsPerId; left != 0 && !its.events.empty(); --left) {
    its.events.pop_back();
  }
  if (!its.events.empty()) return false;
  for (; most != 0 && !its.ids.empty(); --most) RemoveId(*its.ids.begin());
  if (!its.ids.empty()) return false;
  files_.erase(found);
  return true;
}

Answer Files::Write(FileId file_id, FileId old_file_id, std::span<const uint8_t> bytes) {
  Answer answer;
  Command command;
  answer.error = ParseCommand(bytes, command);
  File* file = FindFile(file_id);
  if (file == nullptr) answer.error = EBADF;
  if (answer.error != 0) return answer;
  const Handler handler = FindHandler(command.number);
  if (handler != nullptr) {
    Call call{file_id, *file, old_file_id, command, answer};
    answer.error = (this->*handler)(call);
  } else {
    answer.error = command.number == RDMA_USER_CM_CMD_GET_OPTION ? ENOSYS : EINVAL;
  }
  if (answer.error != 0) answer.response.clear();
  answer.signals = TakeSurplus(*file);
  File* old_file = old_file_id == file_id ? nullptr : FindFile(old_file_id);
  if (old_file != nullptr) answer.old_signals = TakeSurplus(*old_file);
  return answer;
}

// ---- events ----

void Files::OnEvent(const rdma_cm::Event& event) {
  if (event.kind == EventKind::kConnectRequest) return OnRequest(event);
  if (IsMulticast(event.kind)) return OnMulticast(event);
  const auto found = by_endpoint_.find(event.id);
  if (found == by_endpoint_.end()) return;  // A request that was not taken yet.
  const Id& id = ids_.at(found->second);
  // The program has not named this id yet: its Accept will fail.
  if (id.uid == 0) return;
  WaitingEvent waiting{.id = found->second, .response = EventResponse(event, id.is_datagram)};
  waiting.response.uid = id.uid;
  waiting.response.id = found->second;
  Enqueue(id.file, waiting);
}

void Files::OnRequest(const rdma_cm::Event& event) {
  const auto found = by_endpoint_.find(event.listener);
  if (found == by_endpoint_.end()) return;
  const Id& listener = ids_.at(found->second);
  WaitingEvent waiting{.id = found->second,
                       .request = event.id,
                       .response = EventResponse(event, listener.is_datagram)};
  waiting.response.uid = listener.uid;
  Enqueue(listener.file, waiting);
}

void Files::OnMulticast(const rdma_cm::Event& event) {
  const auto found = std::ranges::find_if(memberships_, [&event](const auto& entry) {
    return entry.second.membership == event.membership;
  });
  if (found == memberships_.end()) return;
  const auto& [number, membership] = *found;
  WaitingEvent waiting{
      .id = membership.id, .membership = number, .response = EventResponse(event, true)};
  waiting.response.uid = membership.uid;
  waiting.response.id = number;
  Enqueue(ids_.at(membership.id).file, waiting);
}

void Files::Enqueue(FileId file, const WaitingEvent& event) {
  File& its = files_.at(file);
  if (its.is_closing) return;
  its.events.push_back(event);
  if (signal_(file)) ++its.signals;
}

uint32_t Files::TakeSurplus(File& file) {
  const uint32_t kept = file.events.empty() ? 0 : std::min(file.signals, 1u);
  return std::exchange(file.signals, kept) - kept;
}

bool Files::HasRoomForEvents(const Id& id) const {
  const File& file = files_.at(id.file);
  return file.events.size() < kEventsPerId * file.ids.size();
}

int Files::GetEvent(Call& call) {
  // Older programs have no room for the fields behind `param`.
  constexpr size_t kLeast = offsetof(rdma_ucm_event_resp, reserved);
  rdma_ucm_get_event command{};
  if (call.command.out_bytes < kLeast) return ENOSPC;
  if (const int error = Read(call.command, command)) return error;
  if (call.file.events.empty()) return EAGAIN;
  WaitingEvent event = call.file.events.front();
  call.file.events.pop_front();
  Id& id = ids_.at(event.id);
  if (event.request != rdma_cm::EndpointId()) {
    client_.TakeRequest(event.request);
    event.response.id =
        AddId(call.file_id,
              {.file = call.file_id, .endpoint = event.request, .is_datagram = id.is_datagram});
  }
  ++id.events_reported;
  if (event.membership != 0) ++memberships_.at(event.membership).events_reported;
  return Respond(call.command, event.response, call.answer, kLeast);
}

int Files::MigrateId(Call& call) {
  rdma_ucm_migrate_id command{};
  if (call.command.out_bytes < sizeof(rdma_ucm_migrate_resp)) return ENOSPC;
  if (const int error = Read(call.command, command)) return error;
  Id* id = nullptr;
  if (const int error = FindId(call.old_file_id, command.id, id)) return error;
  if (call.old_file_id != call.file_id) {
    File& old_file = files_.at(call.old_file_id);
    std::vector<WaitingEvent> moving;
    const auto is_its = [&command](const WaitingEvent& event) { return event.id == command.id; };
    std::ranges::copy_if(old_file.events, std::back_inserter(moving), is_its);
    std::erase_if(old_file.events, is_its);
    for (const WaitingEvent& event : moving) Enqueue(call.file_id, event);
    old_file.ids.erase(command.id);
    call.file.ids.insert(command.id);
    id->file = call.file_id;
  }
  return Respond(call.command, rdma_ucm_migrate_resp{id->events_reported}, call.answer);
}

// ---- ids ----

Files::File* Files::FindFile(FileId file) {
  const auto found = files_.find(file);
  const bool is_open = found != files_.end() && !found->second.is_closing;
  return is_open ? &found->second : nullptr;
}

int Files::FindId(FileId file, IdNumber number, Id*& id) {
  const auto found = ids_.find(number);
  if (found == ids_.end()) return ENOENT;
  id = &found->second;
  return id->file == file && FindFile(file) != nullptr ? 0 : EINVAL;
}

Files::IdNumber Files::AddId(FileId file, const Id& id) {
  const IdNumber number = NextNumber(last_id_, ids_);
  ids_[number] = id;
  by_endpoint_[id.endpoint] = number;
  files_.at(file).ids.insert(number);
  return number;
}

// Removes the id's events; the endpoint's end removes the endpoints of its requests.
void Files::RemoveId(IdNumber number) {
  const auto found = ids_.find(number);
  Id& id = found->second;
  File& file = files_.at(id.file);
  client_.Destroy(id.endpoint);
  for (const MembershipNumber membership : id.memberships) memberships_.erase(membership);
  std::erase_if(file.events, [number](const WaitingEvent& event) { return event.id == number; });
  file.ids.erase(number);
  by_endpoint_.erase(id.endpoint);
  ids_.erase(found);
}

Files::MembershipNumber Files::AddMembership(const Membership& membership) {
  const MembershipNumber number = NextNumber(last_membership_, memberships_);
  memberships_[number] = membership;
  return number;
}

Described Files::Describe(const Id& id) const {
  Described described;
  client_.Query(id.endpoint, described.info);
  client_.QueryPath(id.endpoint, described.path);
  if (described.info.device) described.node_guid = node_guid_(*described.info.device);
  return described;
}

}  // namespace uroce::nic::ucma
