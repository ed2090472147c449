// SPDX-License-Identifier: Apache-2.0
#include "nic/control/registrations.h"

#include <utility>

#include "nic/control/command_body.h"

namespace uroce::nic {
namespace {

// A copy that is not done by then may hang for ever.
constexpr DeferredReply::Pace kCopyPace{.first = Nanos(1'000'000), .last = Nanos(64'000'000)};
constexpr uint64_t kPopulateBytes = 2 << 20;  // More would delay other programs by 1 ms.

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
  if (MappedBytes(**memory) > kPopulateBytes) {
    PopulateLater(*std::move(memory));
    return absl::OkStatus();
  }
  if (absl::Status status = PopulateRegion(**memory); !status.ok()) return status;
  if (regions_.MakeWay(**memory)) return Publish(*std::move(memory), reply);
  PublishLater(std::make_shared<Arrival>(Arrival{*std::move(memory), {}}));
  return absl::OkStatus();
}

void Registrations::PopulateLater(std::unique_ptr<MemoryObject> memory) {
  auto arrival = std::make_shared<Arrival>(Arrival{std::move(memory), {}});
  const BackgroundTasks::Id task =
      tasks_.Start([arrival] { arrival->populated = PopulateRegion(*arrival->memory); },
                   [this, arrival] { OnPopulated(arrival); });
  deferred_.Defer([&tasks = tasks_, task] { tasks.Cancel(task); });
}

void Registrations::OnPopulated(const std::shared_ptr<Arrival>& arrival) {
  if (!arrival->populated.ok()) {
    return deferred_.Complete([&](Reply&) { return arrival->populated; });
  }
  if (!regions_.MakeWay(*arrival->memory)) return PublishLater(arrival);
  deferred_.Complete([&](Reply& reply) { return Publish(std::move(arrival->memory), reply); });
}

void Registrations::PublishLater(const std::shared_ptr<Arrival>& arrival) {
  deferred_.Poll(
      kCopyPace, [this, arrival] { return regions_.CopiesDone(arrival->memory->copies_begun); },
      [this, arrival](Reply& reply) { return Publish(std::move(arrival->memory), reply); });
}

absl::Status Registrations::Publish(std::unique_ptr<MemoryObject> memory, Reply& reply) {
  return AddResult(regions_.Publish(std::move(memory)), reply);
}

absl::Status Registrations::Deregister(uint32_t handle) {
  absl::StatusOr<std::unique_ptr<MemoryObject>> memory = regions_.BeginDereg(handle);
  if (!memory.ok()) return memory.status();
  std::vector<std::unique_ptr<MemoryObject>> all;
  all.push_back(*std::move(memory));
  return LetGo(std::move(all));
}

// If the program's own memory blocks a copy, only this program waits.
absl::Status Registrations::LetGo(std::vector<std::unique_ptr<MemoryObject>> memory) {
  if (regions_.CopiesDone(memory)) return absl::OkStatus();
  auto leaving = std::make_shared<std::vector<std::unique_ptr<MemoryObject>>>(std::move(memory));
  deferred_.Poll(
      kCopyPace, [this, leaving] { return regions_.CopiesDone(*leaving); },
      [leaving](Reply&) {
        leaving->clear();  // Before the answer.
        return absl::OkStatus();
      });
  return absl::OkStatus();
}

}  // namespace uroce::nic
