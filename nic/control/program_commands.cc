// SPDX-License-Identifier: Apache-2.0
#include "nic/control/program_commands.h"

#include <infiniband/verbs.h>

#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "nic/base/event_loop.h"
#include "nic/base/user_limits.h"
#include "nic/connections/negotiation_host.h"
#include "nic/connections/rdma_cm_host.h"
#include "nic/control/control_context.h"
#include "nic/control/memory_socket.h"
#include "nic/control/monitor.h"
#include "nic/devices/device_info.h"
#include "nic/devices/nic_device.h"
#include "nic/net/address.h"
#include "nic/net/followed_paths.h"
#include "nic/objects/completion_queues.h"
#include "nic/objects/nic.h"
#include "nic/objects/program.h"
#include "nic/paths/neighbours.h"
#include "nic/settings/config.h"

namespace uroce::nic {
namespace {

constexpr DeferredReply::Pace kSendPace{.first = Nanos(200'000), .last = Nanos(200'000)};
// For work that is done in pieces.
constexpr DeferredReply::Pace kPiecePace{.first = Nanos(20'000), .last = Nanos(20'000)};
constexpr Nanos kFirstPiece{500'000};
// A copy that is not done by then may hang without limit.
constexpr DeferredReply::Pace kLateWritePace{.first = Nanos(50'000), .last = Nanos(64'000'000)};
constexpr uint32_t kCqesInAPiece = 2048;    // Some 0.1 ms if the memory is fresh.
constexpr Nanos kLongestSend{200'000'000};  // For what was posted before a command.

}  // namespace

absl::StatusOr<std::unique_ptr<ProgramCommands>> ProgramCommands::Make(
    ControlContext& context, const Client& client, DeferredReply& deferred, Admission::Place place,
    std::shared_ptr<SideThread> thread, Fd& program_end) {
  const Peer& peer = client.peer();
  const Lender lender{peer.pid, {peer.uid, peer.gid}};
  absl::StatusOr<std::unique_ptr<MemorySocket>> socket =
      MemorySocket::Make(context.loop, context.services.tasks, *client.program(), lender,
                         std::move(place), thread, program_end);
  if (!socket.ok()) return socket.status();
  std::unique_ptr<ProgramCommands> served(
      new ProgramCommands(context, client, deferred, std::move(thread), lender));
  served->memory_socket_ = *std::move(socket);
  return served;
}

ProgramCommands::ProgramCommands(ControlContext& context, const Client& client,
                                 DeferredReply& deferred, std::shared_ptr<SideThread> thread,
                                 const Lender& lender)
    : context_(context),
      client_(client),
      deferred_(deferred),
      registrations_(
          *client.program(), context.services.tasks, deferred,
          [this](absl::FunctionRef<bool(Nanos)> work) { return InTurn(work); }, std::move(thread),
          lender) {}

ProgramCommands::~ProgramCommands() = default;

bool ProgramCommands::EndSome(absl::FunctionRef<bool()> is_over) {
  memory_socket_ = nullptr;
  return cm_files_ == nullptr || cm_files_->EndSome(is_over);
}

absl::Status ProgramCommands::ListDevices(Reply& reply) {
  for (const auto& device : context_.nic.devices()) {
    reply.Add(DeviceInfo(*device, context_.nic.config().limits));
  }
  return absl::OkStatus();
}

absl::Status ProgramCommands::CloseContext(uint32_t handle, Reply& reply) {
  const Nanos end = Nic::Now() + kFirstPiece;
  const absl::StatusOr<bool> is_closed =
      program().CloseSome(handle, [end] { return Nic::Now() >= end; });
  if (!is_closed.ok()) return is_closed.status();
  if (*is_closed) return registrations_.LetGo(reply);
  const auto go_on = [this, handle] {
    return InTurn([&](Nanos until) {
      return *program().CloseSome(handle, [until] { return Nic::Now() >= until; });
    });
  };
  deferred_.Poll(kPiecePace, go_on, [this](Reply& to) { return registrations_.LetGo(to); });
  return absl::OkStatus();
}

bool ProgramCommands::InTurn(absl::FunctionRef<bool(Nanos until)> work) {
  UserTurns& turns = context_.turns;
  const Nanos begin = Nic::Now();
  const Nanos end = turns.Enter(client_.account(), client_.id(), context_.loop.turn(), begin);
  if (end <= begin) return false;
  const bool is_done = work(end);
  turns.Leave(client_.account(), Nic::Now() - begin);
  return is_done;
}

absl::Status ProgramCommands::AfterSends(Condition unsent, DeferredReply::Writer write,
                                         Reply& reply) {
  if (!unsent()) return write(reply);
  const Nanos until = Nic::Now() + kLongestSend;
  deferred_.Poll(
      kSendPace, [this, unsent = std::move(unsent), until] { return IsSent(unsent, until); },
      std::move(write));
  return absl::OkStatus();
}

bool ProgramCommands::IsSent(const Condition& unsent, Nanos until) {
  if (Nic::Now() >= until) {
    context_.turns.Forget(client_.account(), client_.id());
    return true;
  }
  return InTurn([&unsent](Nanos) { return !unsent(); });
}

absl::Status ProgramCommands::AfterDatagrams(DeferredReply::Writer write, Reply& reply) {
  return AfterSends([this] { return program().queue_pairs().HasUnsentDatagrams(); },
                    std::move(write), reply);
}

template <typename T>
absl::Status ProgramCommands::AfterLateWrites(const absl::StatusOr<T>& result, Reply& reply) {
  const auto has_none = [this] { return !program().core().session().HasLateWrites(); };
  const auto write = [result](Reply& to) { return AddResult(result, to); };
  if (!result.ok() || has_none()) return write(reply);
  deferred_.Poll(kLateWritePace, has_none, write);
  return absl::OkStatus();
}

absl::Status ProgramCommands::ResizeCq(const uroce_resize_cq& request, Reply& reply) {
  return AfterSends([this, request] { return program().queue_pairs().ShrinksUnderSends(request); },
                    [this, request](Reply& to) { return Resize(request, to); }, reply);
}

absl::Status ProgramCommands::Resize(const uroce_resize_cq& request, Reply& reply) {
  CompletionQueues& queues = program().completion_queues();
  absl::StatusOr<ResizedQueue> made = queues.Resize(request);
  if (!made.ok()) return made.status();
  const auto resized = std::make_shared<ResizedQueue>(*std::move(made));
  const auto answer = [&queues, resized](Reply& to) {
    const std::vector<uroce_cq_ring> rings = queues.EndResize(*resized);
    to.Add(uroce_resize_cq_reply{.cqe = resized->cq->depth,
                                 .ring_count = static_cast<uint32_t>(rings.size())});
    AddTo(to, rings);
    return absl::OkStatus();
  };
  if (resized->moves.MoveSome(kCqesInAPiece)) return answer(reply);
  deferred_.Poll(
      kPiecePace, [this, resized] { return MoveCqes(resized->moves); }, answer);
  return absl::OkStatus();
}

bool ProgramCommands::MoveCqes(CqeMoves& moves) {
  return InTurn([&moves](Nanos until) {
    bool is_done = false;
    do {
      is_done = moves.MoveSome(kCqesInAPiece);
    } while (!is_done && Nic::Now() < until);
    return is_done;
  });
}

absl::Status ProgramCommands::WithNextHop(const PathKey& path, Answer answer, Reply& reply) {
  if (IsMulticast(path.destination)) return answer(MulticastMac(path.destination), nullptr, reply);
  Neighbours& neighbours = context_.services.paths.neighbours();
  const std::optional<absl::StatusOr<Mac>> known = neighbours.Find(path);
  if (known && !known->ok()) return known->status();
  if (known) return answer(**known, nullptr, reply);
  const Neighbours::Id lookup = neighbours.Resolve(
      path, [this, &neighbours, path, answer = std::move(answer)](const absl::StatusOr<Mac>& mac) {
        deferred_.Complete([&](Reply& later) {
          if (!mac.ok()) return mac.status();
          return answer(*mac, neighbours.Follow(path, *mac), later);
        });
      });
  deferred_.Defer([&neighbours, lookup] { neighbours.Cancel(lookup); });
  return absl::OkStatus();
}

absl::StatusOr<uroce_modify_qp_reply> ProgramCommands::Modified(const ModifyPlan& plan,
                                                                const std::optional<Mac>& mac,
                                                                FollowedPaths::Holder followed,
                                                                peers::Holder capabilities) {
  absl::StatusOr<uroce_modify_qp_reply> reply =
      program().queue_pairs().ApplyModify(plan, mac, std::move(followed), std::move(capabilities));
  if (reply.ok()) context_.monitor.OnModified(client_, plan.request.handle);
  return reply;
}

absl::Status ProgramCommands::ModifyQp(const uroce_modify_qp& request, Reply& reply) {
  const absl::StatusOr<ModifyPlan> plan = program().queue_pairs().PlanModify(request);
  if (!plan.ok()) return plan.status();
  if (!plan->path) {
    const absl::StatusOr<uroce_modify_qp_reply> modified =
        Modified(*plan, std::nullopt, nullptr, nullptr);
    const bool is_reset = modified.ok() && modified->qp_state == IBV_QPS_RESET;
    return is_reset ? AfterLateWrites(modified, reply) : AddResult(modified, reply);
  }
  const auto answer = [this, plan = *plan](const Mac& mac, FollowedPaths::Holder followed,
                                           Reply& to) {
    const peers::Holder capabilities =
        plan.is_reliable ? context_.services.peers.Use(*plan.path, client_.account())
                         : peers::Holder();
    return AddResult(Modified(plan, mac, std::move(followed), capabilities), to);
  };
  return WithNextHop(*plan->path, answer, reply);
}

absl::Status ProgramCommands::DestroyQp(uint32_t handle, Reply& reply) {
  QueuePairs& queue_pairs = program().queue_pairs();
  if (absl::Status status = queue_pairs.Check(handle); !status.ok()) return status;
  const auto destroy = [this, &queue_pairs, handle](Reply& to) {
    return AfterLateWrites(queue_pairs.Destroy(handle), to);
  };
  return AfterDatagrams(destroy, reply);
}

// Messages of XRC targets that use the queue end with it.
absl::Status ProgramCommands::DestroySrq(uint32_t handle, Reply& reply) {
  return AfterLateWrites(program().shared_receive_queues().Destroy(handle), reply);
}

absl::Status ProgramCommands::CreateAh(const uroce_create_ah& request, Reply& reply) {
  AddressHandles& handles = program().address_handles();
  const absl::StatusOr<AddressPlan> plan = handles.Plan(request);
  if (!plan.ok()) return plan.status();
  const auto answer = [&handles, plan = *plan](const Mac& mac, FollowedPaths::Holder followed,
                                               Reply& to) {
    return AddResult(handles.Create(plan, mac, std::move(followed)), to);
  };
  return WithNextHop(plan->path, answer, reply);
}

absl::Status ProgramCommands::DestroyAh(uint32_t handle, Reply& reply) {
  AddressHandles& handles = program().address_handles();
  if (absl::Status status = handles.Check(handle); !status.ok()) return status;
  return AfterDatagrams([&handles, handle](Reply&) { return handles.Destroy(handle); }, reply);
}

absl::StatusOr<uint32_t> ProgramCommands::OpenCm(Fd& program_end) {
  if (cm_files_ == nullptr) {
    const rdma_cm::Owner owner{
        .client = client_.id(), .uid = client_.account(), .is_privileged = client_.is_privileged()};
    const auto has_queue_pair = [this](Qpn qpn) { return program().queue_pairs().Has(qpn); };
    cm_files_ =
        std::make_unique<CmFiles>(context_.loop, context_.turns, context_.nic,
                                  context_.services.rdma_cm.service(), owner, has_queue_pair);
  }
  return cm_files_->Open(program_end);
}

absl::Status ProgramCommands::WriteCm(const uroce_write_cm& request, Body list, Reply& reply) {
  if (cm_files_ == nullptr) return absl::InvalidArgumentError("cm: no file is open");
  cm_files_->Write(request, list, reply);
  return absl::OkStatus();
}

}  // namespace uroce::nic
