// SPDX-License-Identifier: Apache-2.0
#include "tools/views/listing.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace uroce::tools {
namespace {

using testing::HasSubstr;

constexpr const char* kQueuePairs = R"({"qps": [
    {"qpn": 17, "session": 1, "ctx": 0, "pd": 4, "send_cq": 2, "receive_cq": 3},
    {"qpn": 18, "session": 2, "ctx": 1, "pd": 5, "send_cq": 2, "receive_cq": 2, "srq": 6}]})";

std::string UsedBy(uint32_t qpn, uroce_dump_what what, const std::string& json) {
  const absl::StatusOr<std::string> text = OnlyUsedBy(qpn, kQueuePairs, what, json);
  EXPECT_TRUE(text.ok()) << text.status();
  return text.ok() ? *text : "";
}

TEST(ListingTest, HandlesAreThoseOfTheQueuePairsProgram) {
  const std::string cqs = R"({"cqs": [
      {"session": 1, "handle": 2}, {"session": 1, "handle": 3}, {"session": 1, "handle": 4},
      {"session": 2, "handle": 2}, {"session": 2, "handle": 3}]})";
  EXPECT_EQ(UsedBy(17, UROCE_DUMP_CQ, cqs),
            R"({"cqs":[{"session":1,"handle":2,"qpn":17},{"session":1,"handle":3,"qpn":17}]})");
  EXPECT_EQ(UsedBy(18, UROCE_DUMP_CQ, cqs), R"({"cqs":[{"session":2,"handle":2,"qpn":18}]})");
}

TEST(ListingTest, RegionsAreThoseOfTheQueuePairsDomain) {
  EXPECT_EQ(UsedBy(18, UROCE_DUMP_MR, R"({"mrs": [{"session": 1, "pd": 5, "handle": 5},
                                                   {"session": 2, "pd": 5, "key": 1},
                                                   {"session": 2, "pd": 4}]})"),
            R"({"mrs":[{"session":2,"pd":5,"key":1,"qpn":18}]})");
}

TEST(ListingTest, AQueuePairWithoutSuchAnObjectUsesNone) {
  const std::string srqs = R"({"srqs": [{"session": 1, "handle": 6}]})";
  EXPECT_EQ(UsedBy(17, UROCE_DUMP_SRQ, srqs), R"({"srqs":[]})");
  EXPECT_EQ(UsedBy(99, UROCE_DUMP_SRQ, srqs), R"({"srqs":[]})") << "there is no such queue pair";
}

TEST(ListingTest, DumpsOfOtherVersionsAreTaken) {
  EXPECT_EQ(UsedBy(17, UROCE_DUMP_CQ, R"({"cqs": [{"handle": 2}, null, 3], "more": 1})"),
            R"({"cqs":[],"more":1})");
  EXPECT_FALSE(OnlyUsedBy(17, "nope", UROCE_DUMP_CQ, "{}").ok());
  EXPECT_FALSE(OnlyUsedBy(17, "{}", UROCE_DUMP_CQ, "nope").ok());
}

TEST(ListingTest, FiltersThatSelectNothingAreErrors) {
  EXPECT_TRUE(CheckFilters(UROCE_DUMP_CQ, {.pid = 1, .qpn = 2}).ok());
  EXPECT_TRUE(CheckFilters(UROCE_DUMP_DEVICES, {.device = "a"}).ok());
  EXPECT_THAT(CheckFilters(UROCE_DUMP_DEVICES, {.pid = 1}).message(),
              HasSubstr("devices: pid= selects nothing here"));
  EXPECT_THAT(CheckFilters(UROCE_DUMP_PEERS, {.qpn = 1}).message(), HasSubstr("peers: qpn="));
}

}  // namespace
}  // namespace uroce::tools
