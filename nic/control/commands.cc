// SPDX-License-Identifier: Apache-2.0
// The commands of the control socket: from bytes to the program's resources and back.
#include <algorithm>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "nic/control/command_body.h"
#include "nic/control/dump.h"
#include "nic/control/dump_stream.h"
#include "nic/control/gid_entries.h"
#include "nic/control/peer_agreements.h"
#include "nic/control/session.h"
#include "nic/resources/shared_memory.h"

namespace uroce::nic {
namespace {

constexpr Nanos kFirstCopyPoll{1'000'000};
constexpr Nanos kLastCopyPoll{64'000'000};  // A copy that takes so long may take for ever.
constexpr Nanos kSendPoll{200'000};
constexpr Nanos kLongestSend{200'000'000};    // Of what was posted before a command.
constexpr uint64_t kPopulateBytes = 2 << 20;  // More would hold other programs up for 1 ms.

}  // namespace

const Session::Command* Session::FindCommand(uint32_t number) {
  static constexpr Command kCommands[] = {
      {UROCE_HELLO, sizeof(uroce_hello), false, &Session::Hello},
      {UROCE_LIST_DEVICES, 0, true, &Session::ListDevices},
      {UROCE_OPEN_CONTEXT, sizeof(uroce_open_context), true, &Session::OpenContext},
      {UROCE_CLOSE_CONTEXT, sizeof(uroce_handle), true, &Session::CloseContext},
      {UROCE_IMPORT_CONTEXT, sizeof(uroce_context_name), true, &Session::ImportContext},
      {UROCE_QUERY_PORT, sizeof(uroce_handle), true, &Session::QueryPort},
      {UROCE_QUERY_GIDS, sizeof(uroce_handle), true, &Session::QueryGids},
      {UROCE_ALLOC_PD, sizeof(uroce_handle), true, &Session::AllocPd},
      {UROCE_DEALLOC_PD, sizeof(uroce_handle), true, &Session::DeallocPd},
      {UROCE_IMPORT_PD, sizeof(uroce_import), true, &Session::ImportPd},
      {UROCE_CREATE_SEGMENT, sizeof(uroce_create_segment), true, &Session::CreateSegment},
      {UROCE_DESTROY_SEGMENT, sizeof(uroce_handle), true, &Session::DestroySegment},
      {UROCE_TRIM_SEGMENT, sizeof(uroce_trim_segment), true, &Session::TrimSegment},
      {UROCE_ADD_MR_SEGMENTS, sizeof(uroce_add_mr_segments), true, &Session::AddMrSegments},
      {UROCE_REG_MR, sizeof(uroce_reg_mr), true, &Session::RegMr},
      {UROCE_DEREG_MR, sizeof(uroce_handle), true, &Session::DeregMr},
      {UROCE_IMPORT_MR, sizeof(uroce_import), true, &Session::ImportMr},
      {UROCE_ALLOC_MW, sizeof(uroce_alloc_mw), true, &Session::AllocMw},
      {UROCE_DEALLOC_MW, sizeof(uroce_handle), true, &Session::DeallocMw},
      {UROCE_CREATE_CHANNEL, sizeof(uroce_handle), true, &Session::CreateChannel},
      {UROCE_DESTROY_CHANNEL, sizeof(uroce_handle), true, &Session::DestroyChannel},
      {UROCE_CREATE_CQ, sizeof(uroce_create_cq), true, &Session::CreateCq},
      {UROCE_RESIZE_CQ, sizeof(uroce_resize_cq), true, &Session::ResizeCq},
      {UROCE_MODIFY_CQ, sizeof(uroce_modify_cq), true, &Session::ModifyCq},
      {UROCE_DESTROY_CQ, sizeof(uroce_handle), true, &Session::DestroyCq},
      {UROCE_CREATE_QP, sizeof(uroce_create_qp), true, &Session::CreateQp},
      {UROCE_MODIFY_QP, sizeof(uroce_modify_qp), true, &Session::ModifyQp},
      {UROCE_QUERY_QP, sizeof(uroce_handle), true, &Session::QueryQp},
      {UROCE_DESTROY_QP, sizeof(uroce_handle), true, &Session::DestroyQp},
      {UROCE_ATTACH_MCAST, sizeof(uroce_mcast), true, &Session::AttachMcast},
      {UROCE_DETACH_MCAST, sizeof(uroce_mcast), true, &Session::DetachMcast},
      {UROCE_CREATE_AH, sizeof(uroce_create_ah), true, &Session::CreateAh},
      {UROCE_DESTROY_AH, sizeof(uroce_handle), true, &Session::DestroyAh},
      {UROCE_CREATE_SRQ, sizeof(uroce_create_srq), true, &Session::CreateSrq},
      {UROCE_MODIFY_SRQ, sizeof(uroce_modify_srq), true, &Session::ModifySrq},
      {UROCE_QUERY_SRQ, sizeof(uroce_handle), true, &Session::QuerySrq},
      {UROCE_DESTROY_SRQ, sizeof(uroce_handle), true, &Session::DestroySrq},
      {UROCE_OPEN_XRCD, sizeof(uroce_open_xrcd), true, &Session::OpenXrcd},
      {UROCE_CLOSE_XRCD, sizeof(uroce_handle), true, &Session::CloseXrcd},
      {UROCE_CREATE_TARGET, sizeof(uroce_create_target), true, &Session::CreateTarget},
      {UROCE_OPEN_TARGET, sizeof(uroce_open_target), true, &Session::OpenTarget},
      {UROCE_OPEN_CM, 0, true, &Session::OpenCm},
      {UROCE_WRITE_CM, sizeof(uroce_write_cm), true, &Session::WriteCm},
      {UROCE_DUMP, sizeof(uroce_dump), false, &Session::Dump},
      {UROCE_CAPTURE, sizeof(uroce_capture), false, &Session::StartCapture},
      {UROCE_FLIGHT, sizeof(uroce_flight), false, &Session::Flight},
  };
  const auto* found = std::find_if(std::begin(kCommands), std::end(kCommands),
                                   [number](const Command& c) { return c.number == number; });
  return found == std::end(kCommands) ? nullptr : found;
}

absl::Status Session::Hello(Body body, Reply& reply) {
  const auto request = Read<uroce_hello>(body);
  if (request.abi_version != UROCE_ABI_VERSION) {
    return absl::InvalidArgumentError(absl::StrCat(
        "liburoce.so speaks version ", request.abi_version, " of the protocol, uroced ",
        UROCE_ABI_VERSION, "; use the same release of both"));
  }
  if (program_ != nullptr) return absl::InvalidArgumentError("HELLO was said before");
  Nic& nic = context_.nic;
  absl::StatusOr<std::unique_ptr<Program>> program =
      Program::Make(nic, id_, peer_.uid, files_thread_);
  if (!program.ok()) return program.status();
  Fd program_end;
  absl::StatusOr<std::unique_ptr<MemorySocket>> socket =
      MemorySocket::Make(context_.loop, context_.errands, **program,
                         {peer_.pid, {peer_.uid, peer_.gid}}, place_, files_thread_, program_end);
  if (!socket.ok()) return socket.status();
  program_ = *std::move(program);
  memory_socket_ = *std::move(socket);
  const bool share = is_privileged() || nic.config().share_userfaultfd;
  const bool has_userfaultfd = share && nic.userfaultfd() >= 0;
  reply.Add(uroce_hello_reply{.abi_version = UROCE_ABI_VERSION,
                              .worker_count = nic.workers().count(),
                              .device_count = static_cast<uint32_t>(nic.devices().size()),
                              .has_userfaultfd = has_userfaultfd});
  reply.Lend(program_->arena().fd());
  for (const Fd& wake_fd : program_->wake_fds()) reply.Lend(wake_fd.get());
  reply.Give(std::move(program_end));
  if (has_userfaultfd) reply.Lend(nic.userfaultfd());
  return absl::OkStatus();
}

absl::Status Session::ListDevices(Body, Reply& reply) {
  for (const auto& device : context_.nic.devices()) {
    reply.Add(device->DeviceInfo(context_.nic.config().limits));
  }
  return absl::OkStatus();
}

absl::Status Session::OpenContext(Body body, Reply& reply) {
  Fd events;
  Fd name;
  const uint32_t device = Read<uroce_open_context>(body).device_index;
  const absl::Status status = AddHandle(program_->OpenContext(device, events, name), reply);
  if (status.ok()) reply.Give(std::move(events));
  if (status.ok()) reply.Give(std::move(name));
  return status;
}

absl::Status Session::CloseContext(Body body, Reply&) {
  absl::StatusOr<std::vector<std::unique_ptr<MemoryObject>>> memory =
      program_->CloseContext(HandleIn(body));
  return memory.ok() ? Release(*std::move(memory)) : memory.status();
}

absl::Status Session::QueryPort(Body body, Reply& reply) {
  const absl::StatusOr<Context*> found = program_->FindContext(HandleIn(body));
  if (found.ok()) reply.Add((*found)->device->PortAttributes());
  return found.status();
}

absl::Status Session::QueryGids(Body body, Reply& reply) {
  const absl::StatusOr<Context*> found = program_->FindContext(HandleIn(body));
  if (!found.ok()) return found.status();
  for (const uroce_gid_entry& entry : GidEntries(*(*found)->device)) reply.Add(entry);
  return absl::OkStatus();
}

absl::Status Session::AllocPd(Body body, Reply& reply) {
  return AddHandle(program_->AllocPd(HandleIn(body)), reply);
}

absl::Status Session::DeallocPd(Body body, Reply&) { return program_->DeallocPd(HandleIn(body)); }

absl::Status Session::CreateSegment(Body body, Reply& reply) {
  Fd file;
  const absl::Status status =
      AddHandle(program_->CreateSegment(Read<uroce_create_segment>(body), file), reply);
  if (status.ok()) reply.Give(std::move(file));
  return status;
}

absl::Status Session::DestroySegment(Body body, Reply&) {
  return program_->DestroySegment(HandleIn(body));
}

absl::Status Session::TrimSegment(Body body, Reply&) {
  return program_->TrimSegment(Read<uroce_trim_segment>(body));
}

absl::Status Session::AddMrSegments(Body body, Reply&) {
  const auto request = Read<uroce_add_mr_segments>(body);
  return mr_segments_.Add(request.first, request.segment_count, body.subspan(sizeof(request)));
}

absl::Status Session::RegMr(Body body, Reply& reply) {
  const auto request = Read<uroce_reg_mr>(body);
  const absl::StatusOr<std::vector<uroce_mr_segment>> segments =
      mr_segments_.Take(request.segment_count, body.subspan(sizeof(request)));
  if (!segments.ok()) return segments.status();
  absl::StatusOr<std::unique_ptr<MemoryObject>> memory =
      program_->PlanRegion(request, segments->data());
  if (!memory.ok()) return memory.status();
  if (MappedBytes(**memory) > kPopulateBytes) return PopulateLater(*std::move(memory));
  if (absl::Status status = PopulateRegion(**memory); !status.ok()) return status;
  if (MustAwaitCopies(**memory)) {
    Hold();
    PublishLater(*std::move(memory));
    return absl::OkStatus();
  }
  return AddResult(program_->PublishRegion(*std::move(memory)), reply);
}

// Copies that are under way into memory that `memory` maps must not mix with what it lets happen;
// and none may be under way into memory that the region had before.
bool Session::MustAwaitCopies(MemoryObject& memory) {
  bool must_wait = program_->MapFollowers(memory);
  if (memory.replaces != UROCE_NONE) {
    program_->HideReplaced(memory);
    must_wait = true;
  }
  if (!must_wait) return false;
  memory.copies_begun = program_->copies_begun();
  return !program_->CopiesDone(memory.copies_begun);
}

void Session::PublishLater(std::unique_ptr<MemoryObject> memory) {
  arriving_ = std::move(memory);
  copy_wait_ = kFirstCopyPoll;
  answer_timer_ = context_.loop.After(copy_wait_, [this] { AwaitOlderCopies(); });
}

void Session::AwaitOlderCopies() {
  if (!program_->CopiesDone(arriving_->copies_begun)) {
    copy_wait_ = std::min(copy_wait_ * 2, kLastCopyPoll);
    answer_timer_ = context_.loop.After(copy_wait_, [this] { AwaitOlderCopies(); });
    return;
  }
  Reply reply;
  const absl::Status status = AddResult(program_->PublishRegion(std::move(arriving_)), reply);
  Finish(status, std::move(reply));
}

/// A region whose pages are being brought in.
struct Session::Population {
  std::unique_ptr<MemoryObject> memory;
  absl::Status status;
};

absl::Status Session::PopulateLater(std::unique_ptr<MemoryObject> memory) {
  auto population = std::make_shared<Population>();
  population->memory = std::move(memory);
  Hold();
  populating_ = context_.errands.Start(
      [population] { population->status = PopulateRegion(*population->memory); },
      [this, population] {
        Reply reply;
        if (!population->status.ok()) return Finish(population->status, std::move(reply));
        if (MustAwaitCopies(*population->memory)) {
          return PublishLater(std::move(population->memory));
        }
        const absl::Status status =
            AddResult(program_->PublishRegion(std::move(population->memory)), reply);
        Finish(status, std::move(reply));
      });
  return absl::OkStatus();
}

absl::Status Session::DeregMr(Body body, Reply&) {
  absl::StatusOr<std::unique_ptr<MemoryObject>> memory = program_->BeginDereg(HandleIn(body));
  if (!memory.ok()) return memory.status();
  std::vector<std::unique_ptr<MemoryObject>> all;
  all.push_back(*std::move(memory));
  return Release(std::move(all));
}

// The answer says that the memory is the program's alone again.
absl::Status Session::Release(std::vector<std::unique_ptr<MemoryObject>> memory) {
  if (program_->CopiesDone(memory)) return absl::OkStatus();
  leaving_ = std::move(memory);
  Hold();
  copy_wait_ = kFirstCopyPoll;
  answer_timer_ = context_.loop.After(copy_wait_, [this] { AwaitCopies(); });
  return absl::OkStatus();
}

// A copy that the program's own memory blocks holds the program back, and nobody else.
void Session::AwaitCopies() {
  if (!program_->CopiesDone(leaving_)) {
    copy_wait_ = std::min(copy_wait_ * 2, kLastCopyPoll);
    answer_timer_ = context_.loop.After(copy_wait_, [this] { AwaitCopies(); });
    return;
  }
  leaving_.clear();
  Finish(absl::OkStatus(), Reply());
}

absl::Status Session::AllocMw(Body body, Reply& reply) {
  return AddResult(program_->AllocMw(Read<uroce_alloc_mw>(body)), reply);
}

absl::Status Session::DeallocMw(Body body, Reply&) { return program_->DeallocMw(HandleIn(body)); }

absl::Status Session::CreateChannel(Body body, Reply& reply) {
  Fd records;
  const absl::Status status = AddHandle(program_->CreateChannel(HandleIn(body), records), reply);
  if (status.ok()) reply.Give(std::move(records));
  return status;
}

absl::Status Session::DestroyChannel(Body body, Reply&) {
  return program_->DestroyChannel(HandleIn(body));
}

absl::Status Session::CreateCq(Body body, Reply& reply) {
  return AddResult(program_->CreateCq(Read<uroce_create_cq>(body)), reply);
}

absl::Status Session::ResizeCq(Body body, Reply& reply) {
  const auto request = Read<uroce_resize_cq>(body);
  return AfterSends([this, request] { return program_->ShrinksUnderSends(request); },
                    [this, request](Reply& to) { return AnswerResize(request, to); }, reply);
}

absl::Status Session::AfterSends(Condition unsent, LateAnswer answer, Reply& reply) {
  if (!unsent()) return answer(reply);
  Hold();
  AwaitSends(std::move(unsent), std::move(answer), Nic::Now() + kLongestSend);
  return absl::OkStatus();
}

void Session::AwaitSends(Condition unsent, LateAnswer answer, Nanos until) {
  auto look = [this, unsent = std::move(unsent), answer = std::move(answer), until]() mutable {
    if (MustAwaitSends(unsent, until)) {
      return AwaitSends(std::move(unsent), std::move(answer), until);
    }
    Reply reply;
    const absl::Status status = answer(reply);
    Finish(status, std::move(reply));
  };
  answer_timer_ = context_.loop.After(kSendPoll, std::move(look));
}

bool Session::MustAwaitSends(const Condition& unsent, Nanos until) {
  const uid_t uid = peer_.uid;
  const Nanos begin = Nic::Now();
  if (begin >= until) {
    context_.turns.Forget(uid, id_);
    return false;
  }
  if (context_.turns.Enter(uid, id_, context_.loop.turn(), begin) <= begin) return true;
  const bool is_unsent = unsent();
  context_.turns.Leave(uid, Nic::Now() - begin);
  return is_unsent;
}

absl::Status Session::AnswerResize(const uroce_resize_cq& request, Reply& reply) {
  const absl::StatusOr<ResizedQueue> resized = program_->ResizeCq(request);
  if (!resized.ok()) return resized.status();
  reply.Add(uroce_resize_cq_reply{.cqe = resized->cqe,
                                  .ring_count = static_cast<uint32_t>(resized->rings.size())});
  for (const uroce_cq_ring& ring : resized->rings) reply.Add(ring);
  return absl::OkStatus();
}

absl::Status Session::ModifyCq(Body body, Reply&) {
  return program_->ModifyCq(Read<uroce_modify_cq>(body));
}

absl::Status Session::DestroyCq(Body body, Reply& reply) {
  return AddResult(program_->DestroyCq(HandleIn(body)), reply);
}

absl::Status Session::CreateQp(Body body, Reply& reply) {
  return AddResult(program_->CreateQp(Read<uroce_create_qp>(body)), reply);
}

absl::Status Session::WithNextHop(const PathKey& path, Answer answer, Reply& reply) {
  if (IsMulticast(path.destination)) return answer(MulticastMac(path.destination), nullptr, reply);
  const std::optional<absl::StatusOr<Mac>> known = context_.neighbours.Find(path);
  if (known && !known->ok()) return known->status();
  if (known) return answer(**known, nullptr, reply);
  Hold();
  lookup_ = context_.neighbours.Resolve(
      path, [this, path, answer = std::move(answer)](const absl::StatusOr<Mac>& mac) {
        Reply later;
        if (!mac.ok()) return Finish(mac.status(), std::move(later));
        const absl::Status status = answer(*mac, context_.neighbours.Follow(path, *mac), later);
        Finish(status, std::move(later));
      });
  return absl::OkStatus();
}

absl::Status Session::ModifyQp(Body body, Reply& reply) {
  const absl::StatusOr<ModifyPlan> plan = program_->PlanModify(Read<uroce_modify_qp>(body));
  if (!plan.ok()) return plan.status();
  if (!plan->path) {
    return AddResult(program_->ApplyModify(*plan, std::nullopt, nullptr, nullptr), reply);
  }
  const auto answer = [this, plan = *plan](const Mac& mac, FollowedPaths::Holder followed,
                                           Reply& to) {
    const peers::Holder agreement =
        plan.is_reliable ? context_.peers.Use(*plan.path, peer_.uid) : peers::Holder();
    return AddResult(program_->ApplyModify(plan, mac, std::move(followed), agreement), to);
  };
  return WithNextHop(*plan->path, answer, reply);
}

absl::Status Session::QueryQp(Body body, Reply& reply) {
  return AddResult(program_->QueryQp(HandleIn(body)), reply);
}

absl::Status Session::DestroyQp(Body body, Reply& reply) {
  if (absl::Status status = program_->CheckQp(HandleIn(body)); !status.ok()) return status;
  return AfterDatagrams([this, handle = HandleIn(body)](
                            Reply& to) { return AddResult(program_->DestroyQp(handle), to); },
                        reply);
}

absl::Status Session::AfterDatagrams(LateAnswer answer, Reply& reply) {
  return AfterSends([this] { return program_->HasUnsentDatagrams(); }, std::move(answer), reply);
}

absl::Status Session::AttachMcast(Body body, Reply&) {
  return program_->AttachMcast(Read<uroce_mcast>(body));
}

absl::Status Session::DetachMcast(Body body, Reply&) {
  return program_->DetachMcast(Read<uroce_mcast>(body));
}

absl::Status Session::CreateAh(Body body, Reply& reply) {
  const absl::StatusOr<AddressPlan> plan = program_->PlanAh(Read<uroce_create_ah>(body));
  if (!plan.ok()) return plan.status();
  const auto answer = [this, plan = *plan](const Mac& mac, FollowedPaths::Holder followed,
                                           Reply& to) {
    return AddHandle(program_->CreateAh(plan, mac, std::move(followed)), to);
  };
  return WithNextHop(plan->path, answer, reply);
}

absl::Status Session::DestroyAh(Body body, Reply& reply) {
  if (absl::Status status = program_->CheckAh(HandleIn(body)); !status.ok()) return status;
  return AfterDatagrams(
      [this, handle = HandleIn(body)](Reply&) { return program_->DestroyAh(handle); }, reply);
}

absl::Status Session::CreateSrq(Body body, Reply& reply) {
  return AddResult(program_->CreateSrq(Read<uroce_create_srq>(body)), reply);
}

absl::Status Session::ModifySrq(Body body, Reply& reply) {
  return AddResult(program_->ModifySrq(Read<uroce_modify_srq>(body)), reply);
}

absl::Status Session::QuerySrq(Body body, Reply& reply) {
  return AddResult(program_->QuerySrq(HandleIn(body)), reply);
}

absl::Status Session::DestroySrq(Body body, Reply& reply) {
  return AddResult(program_->DestroySrq(HandleIn(body)), reply);
}

absl::Status Session::OpenXrcd(Body body, Reply& reply) {
  return AddHandle(program_->OpenXrcd(Read<uroce_open_xrcd>(body)), reply);
}

absl::Status Session::CloseXrcd(Body body, Reply&) { return program_->CloseXrcd(HandleIn(body)); }

absl::Status Session::CreateTarget(Body body, Reply& reply) {
  return AddResult(program_->CreateTarget(Read<uroce_create_target>(body)), reply);
}

absl::Status Session::OpenTarget(Body body, Reply& reply) {
  return AddResult(program_->OpenTarget(Read<uroce_open_target>(body)), reply);
}

absl::Status Session::Dump(Body body, Reply& reply) {
  return Stream(MakeDump(Read<uroce_dump>(body).what, context_, *this), reply);
}

absl::Status Session::Stream(absl::StatusOr<std::unique_ptr<DumpSource>> source, Reply& reply) {
  if (!source.ok()) return source.status();
  Fd read_end;
  absl::StatusOr<std::unique_ptr<DumpStream>> stream =
      DumpStream::Start(context_, *this, *std::move(source), read_end, [this] { dump_.reset(); });
  if (!stream.ok()) return stream.status();
  dump_ = *std::move(stream);  // One that is under way ends.
  reply.Give(std::move(read_end));
  return absl::OkStatus();
}

absl::Status Session::StartCapture(Body body, Reply& reply) {
  if (!is_privileged()) {
    return absl::PermissionDeniedError(
        "a capture sees all programs: only root and the daemon's "
        "user may take one");
  }
  if (capture_ != nullptr) return absl::InvalidArgumentError("a capture is under way here");
  const uint32_t limit = context_.nic.config().limits.captures;
  if (context_.captures >= limit) {
    return absl::ResourceExhaustedError(
        absl::StrCat("capture: all ", limit, " are under way, see --max-captures"));
  }
  absl::StatusOr<std::unique_ptr<Capture>> capture =
      Capture::Start(context_.nic, Read<uroce_capture>(body), reply);
  if (!capture.ok()) return capture.status();
  capture_ = *std::move(capture);
  ++context_.captures;
  return absl::OkStatus();
}

absl::Status Session::Flight(Body body, Reply& reply) {
  return Stream(MakeLiveFlight(Qpn(Read<uroce_flight>(body).qpn), context_, *this), reply);
}

}  // namespace uroce::nic
