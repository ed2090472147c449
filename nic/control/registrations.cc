// SPDX-License-Identifier: Apache-2.0
// Registers and deregisters memory regions of one program.
#include "nic/control/registrations.h"

#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "nic/control/command_body.h"
#include "nic/objects/nic.h"

namespace uroce::nic {
namespace {

absl::Status Refuse(uint64_t count, size_t bytes, size_t before) {
  return absl::InvalidArgumentError(
      absl::StrCat("mr: ", count, " segments in ", bytes, " bytes, behind ", before));
}

void Append(std::span<const uint8_t> bytes, std::vector<uroce_mr_segment>& segments) {
  const size_t before = segments.size();
  segments.resize(before + bytes.size() / sizeof(uroce_mr_segment));
  if (!bytes.empty()) std::memcpy(segments.data() + before, bytes.data(), bytes.size());
}

}  // namespace

absl::Status SegmentList::Add(uint32_t first, uint32_t count, std::span<const uint8_t> bytes) {
  if (first == 0) collected_.clear();
  const bool fits = collected_.size() + count <= UROCE_MAX_MR_PARTS;
  if (first != collected_.size() || !fits || bytes.size() != count * sizeof(uroce_mr_segment)) {
    return Refuse(count, bytes.size(), collected_.size());
  }
  Append(bytes, collected_);
  return absl::OkStatus();
}

absl::StatusOr<std::vector<uroce_mr_segment>> SegmentList::Take(uint32_t count,
                                                                std::span<const uint8_t> bytes) {
  const size_t here = bytes.size() / sizeof(uroce_mr_segment);
  const bool is_all = count == here;
  const size_t before = is_all ? 0 : collected_.size();
  if (bytes.size() % sizeof(uroce_mr_segment) != 0 || count != before + here ||
      count > UROCE_MAX_MR_PARTS) {
    return Refuse(count, bytes.size(), before);
  }
  std::vector<uroce_mr_segment> segments;
  if (!is_all) segments = std::exchange(collected_, {});
  Append(bytes, segments);
  return segments;
}

namespace {

// A copy that is not done by then may hang without limit.
constexpr DeferredReply::Pace kCopyPace{.first = Nanos(1'000'000), .last = Nanos(64'000'000)};
constexpr DeferredReply::Pace kStepPace{.first = Nanos(20'000), .last = Nanos(20'000)};
constexpr Nanos kFirstStep{200'000};

/// The first piece of work for a command that is executed in its user's turn.
bool AtOnce(absl::FunctionRef<bool(Nanos until)> work) { return work(Nic::Now() + kFirstStep); }

}  // namespace

/// A region that is not published yet.
struct Registrations::Arrival {
  std::unique_ptr<MemoryObject> memory;
  absl::Status populated;
};

absl::Status Registrations::AddSegments(const uroce_add_mr_segments& request,
                                        std::span<const uint8_t> list) {
  return segments_.Add(request.first, request.segment_count, list);
}

absl::Status Registrations::Register(const uroce_reg_mr& request, std::span<const uint8_t> list,
                                     Reply& reply) {
  const absl::StatusOr<std::vector<uroce_mr_segment>> segments =
      segments_.Take(request.segment_count, list);
  if (!segments.ok()) return segments.status();
  absl::StatusOr<std::unique_ptr<MemoryObject>> memory = regions_.Plan(request, segments->data());
  if (!memory.ok()) return memory.status();
  if (!NeedsPopulating(**memory)) {
    return MakeWay(std::make_shared<Arrival>(Arrival{*std::move(memory), {}}), AtOnce, reply);
  }
  PopulateLater(*std::move(memory));
  return absl::OkStatus();
}

void Registrations::PopulateLater(std::unique_ptr<MemoryObject> memory) {
  auto arrival = std::make_shared<Arrival>(Arrival{std::move(memory), {}});
  const auto populate = [arrival, lender = lender_] {
    if (ActForLender(lender)) arrival->populated = PopulateRegion(*arrival->memory);
  };
  const BackgroundTasks::Id task = tasks_.Start(
      populate, [this, arrival] { OnPopulated(arrival); }, thread_);
  deferred_.Defer([&tasks = tasks_, task] { tasks.Cancel(task); });
}

void Registrations::OnPopulated(const std::shared_ptr<Arrival>& arrival) {
  deferred_.Complete([&](Reply& reply) {
    return arrival->populated.ok() ? MakeWay(arrival, in_turn_, reply) : arrival->populated;
  });
}

absl::Status Registrations::MakeWay(const std::shared_ptr<Arrival>& arrival, const InTurn& turn,
                                    Reply& reply) {
  return InPieces(
      [this, arrival](RemappedRegions::IsOver is_over) -> absl::StatusOr<bool> {
        return regions_.MakeWay(*arrival->memory, is_over);
      },
      [this, arrival](Reply& to) { return PublishFree(arrival, to); }, turn, reply);
}

absl::Status Registrations::PublishFree(const std::shared_ptr<Arrival>& arrival, Reply& reply) {
  const uint64_t generation = arrival->memory->copy_generation;
  if (regions_.CopiesDone(generation)) return Publish(std::move(arrival->memory), reply);
  deferred_.Poll(
      kCopyPace, [this, generation] { return regions_.CopiesDone(generation); },
      [this, arrival](Reply& to) { return Publish(std::move(arrival->memory), to); });
  return absl::OkStatus();
}

absl::Status Registrations::InPieces(const Step& step, const DeferredReply::Writer& write,
                                     const InTurn& turn, Reply& reply) {
  absl::StatusOr<bool> is_done = false;
  const auto piece = [&is_done, &step](Nanos until) {
    is_done = step([until] { return Nic::Now() >= until; });
    return is_done.value_or(true);
  };
  turn(piece);
  if (!is_done.ok()) return is_done.status();
  if (*is_done) return write(reply);
  const auto go_on = [this, step] {
    return in_turn_([&step](Nanos until) {
      return step([until] { return Nic::Now() >= until; }).value_or(true);
    });
  };
  deferred_.Poll(kStepPace, go_on, write);
  return absl::OkStatus();
}

absl::Status Registrations::DestroySegment(uint32_t handle, Reply& reply) {
  return InPieces(
      [this, handle](RemappedRegions::IsOver is_over) {
        return program_segments_.DestroySome(handle, is_over);
      },
      [](Reply&) { return absl::OkStatus(); }, AtOnce, reply);
}

absl::Status Registrations::TrimSegment(const uroce_trim_segment& request, Reply& reply) {
  return InPieces(
      [this, request](RemappedRegions::IsOver is_over) {
        return program_segments_.TrimSome(request, is_over);
      },
      [](Reply&) { return absl::OkStatus(); }, AtOnce, reply);
}

absl::Status Registrations::Publish(std::unique_ptr<MemoryObject> memory, Reply& reply) {
  return AddResult(regions_.Publish(std::move(memory)), reply);
}

absl::Status Registrations::Deregister(uint32_t handle, Reply& reply) {
  if (absl::Status status = regions_.BeginDereg(handle); !status.ok()) return status;
  return LetGo(reply);
}

// If the program's own memory blocks a copy, only this program waits.
absl::Status Registrations::LetGo(Reply& reply) {
  if (regions_.HiddenCopiesDone()) return Release(reply);
  deferred_.Poll(
      kCopyPace, [this] { return regions_.HiddenCopiesDone(); },
      [this](Reply& to) { return Release(to); });
  return absl::OkStatus();
}

absl::Status Registrations::Release(Reply& reply) {
  return InPieces(
      [this](RemappedRegions::IsOver is_over) -> absl::StatusOr<bool> {
        return regions_.ReleaseSome(is_over);
      },
      [](Reply&) { return absl::OkStatus(); }, AtOnce, reply);
}

}  // namespace uroce::nic
