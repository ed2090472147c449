// SPDX-License-Identifier: Apache-2.0
// Registers and deregisters memory regions of one program, on a side thread if that takes long.
#include "nic/control/registrations.h"

#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "nic/control/command_body.h"

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
