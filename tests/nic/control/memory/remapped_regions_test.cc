// SPDX-License-Identifier: Apache-2.0
// Copied regions that a later region maps: their parts count, and change in pieces.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <infiniband/verbs.h>
#include <sys/socket.h>

#include <algorithm>
#include <memory>
#include <vector>

#include "nic/objects/nic.h"
#include "nic/objects/program.h"
#include "tests/nic/control/client.h"
#include "tests/nic/control/hand_daemon.h"
#include "tests/nic/control/memory/lending.h"

namespace uroce::nic {
namespace {

/// A program whose copied regions all lie at the same addresses.
class RemappedRegionsTest : public testing::Test {
 protected:
  static void SetUpTestSuite() { daemon_ = new HandDaemon(Limits{}); }
  static void TearDownTestSuite() { delete daemon_; }
  ~RemappedRegionsTest() override {
    clients_.clear();
    daemon_->TurnUntil([] { return daemon_->server().connection_count() == 0; });
  }

  static constexpr uint64_t kAddr = 0x10000, kPages = 64, kBytes = kPages * kPageBytes;
  static constexpr uint32_t kRegions = 4096;
  static constexpr uint64_t kMostParts = RowOf(Kind::kMrPart).limits.of_program / 2;

  ControlClient& Connect() {
    clients_.push_back(std::make_unique<ControlClient>(daemon_->socket_path()));
    return *clients_.back();
  }
  /// Lends the program's memory and registers the regions.
  void Make() {
    program_ = &Connect();
    const Answer hello = daemon_->Call(*program_, UROCE_HELLO, uroce_hello{UROCE_ABI_VERSION, 0});
    const Fd memory(open("/proc/self/mem", O_RDWR));
    const int socket = hello.fds.at(2).get();
    SendLend(socket, LendMemory(), memory.get(), sizeof(uroce_lend));
    uroce_lend_reply lent{};
    daemon_->TurnUntil([&] { return recv(socket, &lent, sizeof(lent), MSG_DONTWAIT) > 0; });
    ASSERT_EQ(lent.error, 0);
    const uint32_t context =
        daemon_->Call(*program_, UROCE_OPEN_CONTEXT, uroce_open_context{}).handle();
    pd_ = daemon_->Call(*program_, UROCE_ALLOC_PD, uroce_handle{context, 0}).handle();
    for (uint32_t i = 0; i < kRegions; ++i) {
      const Answer made = Register({{kAddr, kBytes, UROCE_MR_COPIED, UROCE_NONE, 0, 1, 0}});
      ASSERT_EQ(made.error, 0) << made.text;
    }
  }
  std::vector<uint8_t> Message(const std::vector<uroce_mr_segment>& segments) const {
    const auto count = static_cast<uint32_t>(segments.size());
    std::vector<uint8_t> message =
        Bytes(uroce_reg_mr{pd_, 7, kAddr, kBytes, kAddr, count, UROCE_NONE});
    for (const uroce_mr_segment& segment : segments) {
      const std::vector<uint8_t> bytes = Bytes(segment);
      message.insert(message.end(), bytes.begin(), bytes.end());
    }
    return message;
  }
  Answer Await(ControlClient& client) const {
    Answer answer;
    daemon_->TurnUntil([&] { return !(answer = client.Receive(MSG_DONTWAIT)).hung_up; });
    return answer;
  }
  Answer Register(const std::vector<uroce_mr_segment>& segments) {
    program_->Post(UROCE_REG_MR, Message(segments));
    return Await(*program_);
  }
  /// A region of which each second page is mapped.
  std::vector<uroce_mr_segment> Striped(uint32_t segment) const {
    std::vector<uroce_mr_segment> striped;
    for (uint64_t page = 0; page < kPages; ++page) {
      const uint64_t at = page * kPageBytes;
      const bool is_mapped = page % 2 == 0;
      striped.push_back({kAddr + at, kPageBytes,
                         static_cast<uint32_t>(is_mapped ? UROCE_MR_MAPPED : UROCE_MR_COPIED),
                         is_mapped ? segment : UROCE_NONE, is_mapped ? at : 0, 1, 0});
    }
    return striped;
  }
  uint64_t CountedParts() const { return daemon_->nic().user(geteuid()).of(Kind::kMrPart).used; }
  /// The parts of all regions.
  static uint64_t Parts() {
    uint64_t parts = 0;
    daemon_->nic().programs().begin()->second->regions().table().ForEach(
        [&](uint32_t, const MemoryObject& memory) { parts += memory.region.segments.size(); });
    return parts;
  }

  template <typename T>
  static std::vector<uint8_t> Bytes(const T& value) {
    const auto* bytes = reinterpret_cast<const uint8_t*>(&value);
    return {bytes, bytes + sizeof(value)};
  }

  static inline HandDaemon* daemon_;
  std::vector<std::unique_ptr<ControlClient>> clients_;
  ControlClient* program_ = nullptr;
  uint32_t pd_ = 0;
};

// One region can split all copied regions of its program: that counts, and takes many turns.
TEST_F(RemappedRegionsTest, AreSplitInPiecesAndTheirPartsCount) {
  ASSERT_NO_FATAL_FAILURE(Make());
  ControlClient& other = Connect();
  const Answer segment =
      daemon_->Call(*program_, UROCE_CREATE_SEGMENT, uroce_create_segment{kAddr, kBytes});
  program_->Post(UROCE_REG_MR, Message(Striped(segment.handle())));
  while (Parts() == kRegions) daemon_->Turn(10);
  EXPECT_LT(Parts(), kMostParts / 2) << "one turn splits all";
  ASSERT_TRUE(program_->Receive(MSG_DONTWAIT).hung_up) << "no answer yet";
  EXPECT_EQ(daemon_->Call(other, UROCE_HELLO, uroce_hello{UROCE_ABI_VERSION, 0}).error, 0);
  const Answer made = Await(*program_);
  EXPECT_EQ(made.error, 0) << made.text;
  EXPECT_GT(Parts(), kMostParts - 2 * kPages);
  EXPECT_LE(Parts(), kMostParts);
  EXPECT_EQ(CountedParts(), Parts());

  const uint32_t region = made.As<uroce_reg_mr_reply>().handle;
  EXPECT_EQ(daemon_->Call(*program_, UROCE_DEREG_MR, uroce_handle{region, 0}).error, 0);
  program_->Post(UROCE_DESTROY_SEGMENT, Bytes(uroce_handle{segment.handle(), 0}));
  daemon_->Turn();
  ASSERT_TRUE(program_->Receive(MSG_DONTWAIT).hung_up) << "one turn copies all again";
  EXPECT_EQ(Await(*program_).error, 0);
  EXPECT_EQ(Parts(), kRegions);
  EXPECT_EQ(CountedParts(), kRegions);
}

TEST_F(RemappedRegionsTest, KeepEachSegmentOnce) {
  ASSERT_NO_FATAL_FAILURE(Make());
  const Answer segment =
      daemon_->Call(*program_, UROCE_CREATE_SEGMENT, uroce_create_segment{kAddr, kBytes});
  for (int i = 0; i < 2; ++i) EXPECT_EQ(Register(Striped(segment.handle())).error, 0);
  size_t most = 0;
  daemon_->nic().programs().begin()->second->regions().table().ForEach(
      [&](uint32_t, const MemoryObject& memory) { most = std::max(most, memory.segments.size()); });
  EXPECT_EQ(most, 1u);
}

}  // namespace
}  // namespace uroce::nic
