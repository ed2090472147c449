// SPDX-License-Identifier: Apache-2.0
// CapabilityNegotiation by real MADs between two NICs, over a wire that loses one in ten of them.
// The second NIC does not offer selective repeat.
#include "nic/connections/negotiation_host.h"

#include <gtest/gtest.h>

#include <memory>

#include "nic/rdma_cm/types.h"
#include "tests/nic/connections/rdma_cm_bed.h"

namespace uroce::nic {
namespace {

constexpr uint8_t kSomeClass = 0x20;

class NegotiationHostTest : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    bed = new RdmaCmBed("drop=0.1,seed=6", 2,
                        [](Config& config) { config.devices[1].selective_repeat = false; });
  }
  static void TearDownTestSuite() {
    delete bed;
    bed = nullptr;
  }
  /// From uroce`from`.
  static PathKey Path(int from) {
    const auto last = static_cast<uint8_t>(from + 1);
    return {bed->nic().devices()[static_cast<size_t>(from)].get(), 0, WireAddress(last).address,
            WireAddress(3 - last).address};
  }

  static RdmaCmBed* bed;
  NegotiationHost peers_{bed->loop(), bed->nic(), bed->gsi()};
};
RdmaCmBed* NegotiationHostTest::bed = nullptr;

TEST_F(NegotiationHostTest, PeerIsAskedUntilItAnswers) {
  const peers::Holder capabilities = peers_.Use(Path(0), 0);
  ASSERT_NE(capabilities, nullptr);
  ASSERT_TRUE(bed->TurnUntil([&] { return capabilities->state == peers::State::kAnswered; }));
  EXPECT_EQ(capabilities->peer.features, 0u);
  EXPECT_NE(capabilities->peer.instance, 0u);
  EXPECT_FALSE(capabilities->selective_repeat()) << "it is switched off there";
  EXPECT_EQ(peers_.counters().answers_received, 1u);
}

TEST_F(NegotiationHostTest, DeviceThatOffersNothingAsksNoPeer) {
  EXPECT_EQ(peers_.Use(Path(1), 0), nullptr);
  EXPECT_EQ(peers_.counters().questions_sent, 0u);
}

TEST_F(NegotiationHostTest, MadsOfOtherClassesAreCountedAndDropped) {
  Mad mad = wire::EncodeCapabilities({});
  mad[1] = kSomeClass;
  const PathKey path = Path(0);
  const cm::Route route{.device = rdma_cm::RouteDevice({0, 0, path.source}),
                        .local = path.source,
                        .remote = path.destination};
  const auto arrived = [&](uint64_t count) {
    return bed->TurnUntil([&] {
      return !bed->gsi().Send(route, mad) || bed->gsi().counters().unknown_class >= count;
    });
  };
  // The wire keeps the order: behind the first of these, no earlier test's repeated question comes.
  ASSERT_TRUE(arrived(1));
  const uint64_t questions = peers_.counters().questions_received;
  ASSERT_TRUE(arrived(4));
  EXPECT_GE(bed->gsi().counters().unknown_class, 4u);
  EXPECT_EQ(peers_.counters().questions_received, questions);
  EXPECT_EQ(peers_.counters().malformed, 0u);
}

}  // namespace
}  // namespace uroce::nic
