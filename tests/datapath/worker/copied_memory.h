// SPDX-License-Identifier: Apache-2.0
// Fixtures of tests with memory that workers do not map.
#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "pipeline/datapath/memory/stage.h"
#include "pipeline/os/shared_memory.h"
#include "tests/datapath/testbed.h"
#include "tests/datapath/work_codes.h"

namespace uroce::datapath {

/// A stage whose program answers nothing.
struct SilentStage {
  std::unique_ptr<Stage> stage;
  const uroce_stage* shared = nullptr;  ///< What the program sees of it.

  SilentStage() {
    const Fd file = *MakeSharedFile("stage", sizeof(uroce_stage));
    Mapping mapping = *MapShared(file.get(), sizeof(uroce_stage));
    shared = reinterpret_cast<const uroce_stage*>(mapping.data());
    stage =
        std::make_unique<Stage>(*GuardedMapping::Make(std::move(mapping), MappingGuard::kNoOwner));
  }
};

/// Memory that only the helper reaches.
class WorkerParkedTest : public testing::Test {
 protected:
  static constexpr size_t kBytes = 1 << 20;

  explicit WorkerParkedTest(bool by_workers = false) {
    bed_.StartCopyHelper(*bed_.session, by_workers);
  }

  void Write(Endpoint& endpoint) { Write(endpoint, copied_); }
  void Write(Endpoint& endpoint, const MemoryRegion& to) {
    endpoint.PostSend({.opcode = kWrite,
                       .wr_id = 1,
                       .list = {Testbed::Sge(from_, 0, 50'000)},
                       .remote_addr = to.iova,
                       .rkey = to.key});
  }
  /// Has the peer of `endpoint` wait for the helper.
  void WriteUntilCopying(Endpoint& endpoint) {
    Write(endpoint);
    while (!bed_.Copying()) bed_.Turn();
  }

  Testbed bed_;
  std::vector<uint8_t> source_ = Pattern(kBytes, 1);
  std::vector<uint8_t> target_ = std::vector<uint8_t>(kBytes);
  MemoryRegion& from_ = bed_.Register(source_.data(), kBytes, kAllAccess, MrMode::kMapped);
  MemoryRegion& to_ = bed_.Register(target_.data(), kBytes, kAllAccess, MrMode::kMapped);
  MemoryRegion& copied_ = bed_.Register(target_.data(), kBytes, kAllAccess, MrMode::kCopied);
};

/// Bytes that only the helper reaches, at both ends.
class WorkerCopiesTest : public WorkerParkedTest {
 protected:
  static constexpr uint32_t kPackets = kBytes / 1024;

  explicit WorkerCopiesTest(bool by_workers = false) : WorkerParkedTest(by_workers) {}

  /// A WRITE and a READ of all bytes at once, in opposite directions. Two pairs of buffers.
  void MoveBothWays(Endpoint& endpoint) {
    const auto length = static_cast<uint32_t>(kBytes);
    endpoint.PostSend({.opcode = kWrite,
                       .wr_id = 1,
                       .list = {Testbed::Sge(sent_, 0, length)},
                       .remote_addr = copied_.iova,
                       .rkey = copied_.key});
    endpoint.PostSend({.opcode = kRead,
                       .wr_id = 2,
                       .list = {Testbed::Sge(read_, 0, length)},
                       .remote_addr = asked_.iova,
                       .rkey = asked_.key});
    uroce_cqe cqe;
    for (uint64_t id = 1; id <= 2; ++id) {
      ASSERT_TRUE(bed_.RunUntil([&] { return endpoint.PollSend(cqe); }));
      EXPECT_EQ(cqe.status, 0) << id;
    }
    EXPECT_EQ(target_, source_);
    EXPECT_EQ(read_bytes_, asked_bytes_);
  }
  MemoryRegion& Copied(std::vector<uint8_t>& bytes) {
    return bed_.Register(bytes.data(), bytes.size(), kAllAccess, MrMode::kCopied);
  }

  std::vector<uint8_t> asked_bytes_ = Pattern(kBytes, 3);
  std::vector<uint8_t> read_bytes_ = std::vector<uint8_t>(kBytes);
  MemoryRegion& sent_ = Copied(source_);
  MemoryRegion& asked_ = Copied(asked_bytes_);
  MemoryRegion& read_ = Copied(read_bytes_);
};

}  // namespace uroce::datapath
