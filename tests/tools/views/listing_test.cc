// SPDX-License-Identifier: Apache-2.0
#include "tools/views/listing.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace uroce::tools {
namespace {

// ---- Listings and filters ----

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

TEST(ListingTest, DumpsThatAreNestedWithoutEndAreErrors) {
  constexpr size_t kDeep = 1'000'000;
  for (const char* nested : {"[", "{\"a\":"}) {
    std::string dump = R"({"cqs": [{"session": 1, "handle": 2, "a": )";
    for (size_t i = 0; i < kDeep; ++i) dump += nested;
    dump += '0' + std::string(kDeep, nested[0] == '[' ? ']' : '}') + "}]}";
    EXPECT_FALSE(OnlyUsedBy(17, kQueuePairs, UROCE_DUMP_CQ, dump).ok());
  }
  const std::string text = R"({"cqs": [{"session": 1, "handle": 2, "a": ")" +
                           std::string(kDeep, '[') + R"(\"[[", "qpn": 17}]})";
  EXPECT_TRUE(OnlyUsedBy(17, kQueuePairs, UROCE_DUMP_CQ, text).ok()) << "a string is not nested";
}

TEST(ListingTest, FiltersThatSelectNothingAreErrors) {
  EXPECT_TRUE(CheckFilters(UROCE_DUMP_CQ, {.pid = 1, .qpn = 2}).ok());
  EXPECT_TRUE(CheckFilters(UROCE_DUMP_DEVICES, {.device = "a"}).ok());
  EXPECT_THAT(CheckFilters(UROCE_DUMP_DEVICES, {.pid = 1}).message(),
              HasSubstr("devices: pid= selects nothing here"));
  EXPECT_THAT(CheckFilters(UROCE_DUMP_PEERS, {.qpn = 1}).message(), HasSubstr("peers: qpn="));
}

// ---- The settings of the daemon, as TOML ----

TEST(ConfigTextTest, SettingsComeBeforeTables) {
  const auto text = RenderConfig(R"({
      "limits": {"max_qp": 10},
      "workers": 2, "no_huge": true, "fault": ["uroce0:drop=0.5", "a:ce=1"],
      "port": [{"name": "a", "cc.ai": 5}, {"name": "b"}],
      "wire": [{"uroce0": "10.0.0.1/24", "uroce1": "10.0.0.2/24", "uroce1.rate": "off"}],
      "log_level": "info"})");
  ASSERT_TRUE(text.ok()) << text.status();
  EXPECT_EQ(*text,
            "workers = 2\n"
            "no_huge = true\n"
            "fault = [\"uroce0:drop=0.5\",\"a:ce=1\"]\n"
            "log_level = \"info\"\n"
            "\n[limits]\nmax_qp = 10\n"
            "\n[[port]]\nname = \"a\"\n\"cc.ai\" = 5\n"
            "\n[[port]]\nname = \"b\"\n"
            "\n[[wire]]\nuroce0 = \"10.0.0.1/24\"\nuroce1 = \"10.0.0.2/24\"\n"
            "\"uroce1.rate\" = \"off\"\n");
}

TEST(ConfigTextTest, StringsAreQuoted) {
  const auto text = RenderConfig(R"({"socket": "/tmp/a \"b\"\\c"})");
  ASSERT_TRUE(text.ok()) << text.status();
  EXPECT_EQ(*text, "socket = \"/tmp/a \\\"b\\\"\\\\c\"\n");
}

TEST(ConfigTextTest, WhatIsNoJsonIsAnError) { EXPECT_FALSE(RenderConfig("{").ok()); }

// ---- Tables and JSON ----

using testing::HasSubstr;
using testing::Not;
using testing::StartsWith;

std::string Render(uroce_dump_what what, const std::string& json, RenderOptions options = {}) {
  const auto text = RenderDump(what, json, options);
  EXPECT_TRUE(text.ok()) << text.status();
  return text.ok() ? *text : "";
}

TEST(RenderTest, ColumnsFollowTheMembersAndNestedOnesAreFolded) {
  EXPECT_EQ(Render(UROCE_DUMP_CM, R"({"ids": [{"id": 17, "peer": {"port": 4}, "state": "RTS"},
                                              {"id": 1234, "state": "INIT"}]})"),
            "id    peer.port  state\n"
            "  17          4  RTS\n"
            "1234             INIT\n");
}

TEST(RenderTest, QueuePairsShowWhatAPersonReads) {
  EXPECT_EQ(Render(UROCE_DUMP_QP, R"({"qps": [
      {"qpn": 17, "remote_qpn": 4, "state": "RTS", "udp_source_port": 5, "send_psn": 6,
       "counters": {"rx_write_requests": 7, "retransmitted_pkts": 8}}]})"),
            "qpn       state  remote_qpn  retransmitted\n"
            "0x000011  RTS    0x000004                8\n");
}

TEST(RenderTest, FiltersSelectByDeviceProgramAndNumber) {
  const std::string json = R"({"qps": [{"device": "a", "pid": 1, "qpn": 17},
                                       {"device": "a", "pid": 2, "qpn": 18},
                                       {"device": "b", "pid": 1, "qpn": 19}], "more": {"x": 1}})";
  Selection select;
  ASSERT_TRUE(AddFilter("device=a", select).ok());
  ASSERT_TRUE(AddFilter("pid=1", select).ok());
  ASSERT_TRUE(AddFilter("qpn=0x11", select).ok());
  const auto text = RenderJson(ListingOf(UROCE_DUMP_QP), json, select, absl::UnixEpoch(), true);
  ASSERT_TRUE(text.ok()) << text.status();
  EXPECT_EQ(*text,
            "{\"timestamp\":\"1970-01-01T00:00:00.000000Z\","
            "\"schema\":\"uroce-qp\",\"schema_version\":1,"
            "\"qps\":[{\"device\":\"a\",\"pid\":1,\"qpn\":17}],"
            "\"more\":{\"x\":1}}\n");
  for (const char* bad : {"pid", "pid=", "pid=x", "colour=1", "device=", "qpn=0xx"}) {
    EXPECT_FALSE(AddFilter(bad, select).ok()) << bad;
  }
}

TEST(RenderTest, JsonKeepsTerminalsFromEscapes) {
  const auto text =
      RenderJson(ListingOf(UROCE_DUMP_DEVICES), "{\"name\": \"\\u001b\\u009b\\u007f\"}", {},
                 absl::UnixEpoch(), false);
  ASSERT_TRUE(text.ok()) << text.status();
  EXPECT_THAT(*text, HasSubstr("\\u001b\\u009b\\u007f"));
}

TEST(RenderTest, IdleCountersSaySo) {
  EXPECT_THAT(Render(UROCE_DUMP_STAT, R"([{"name": "a", "counters": {"rx": 0}}])"),
              HasSubstr("nothing counted yet"));
}

TEST(RenderTest, EscapesInTheNameOfAColumnStayOffTheTerminal) {
  EXPECT_THAT(Render(UROCE_DUMP_STAT, R"([{"name": "a\u001b[2J", "rx": 1}])"),
              Not(HasSubstr("\033")));
}

TEST(RenderTest, DevicesListTheirGidsBelow) {
  const std::string text =
      Render(UROCE_DUMP_DEVICES,
             R"({"devices": [{"name": "uroce0", "gids": [{"index": 0, "gid": "::1"}]}]})");
  EXPECT_THAT(text, HasSubstr("uroce0 gids\nindex  gid\n    0  ::1\n"));
}

TEST(RenderTest, SpeedIsInWordsAndEmptyColumnsAreLeftOut) {
  EXPECT_EQ(Render(UROCE_DUMP_DEVICES,
                   R"({"devices": [{"name": "a", "fault": "", "speed_bps": 25000000000,
                                    "addresses": ["10.0.0.1/24", "fd00::1/64"], "routes": []}]})"),
            "name  speed    addresses\n"
            "a     25 Gb/s  10.0.0.1/24,fd00::1/64\n");
}

TEST(RenderTest, SwitchesHaveTheirPortsBelow) {
  EXPECT_EQ(Render(UROCE_DUMP_SWITCH,
                   R"({"switches": [{"name": "sw0", "ecn": "off"}],
                       "ports": [{"name": "sw0:0", "leads_to": "uroce0", "rate_bps": 5000000000,
                                  "queue_bytes": 12}]})"),
            "name  ecn\n"
            "sw0   off\n"
            "\n"
            "name   leads_to  rate    queue_bytes\n"
            "sw0:0  uroce0    5 Gb/s           12\n");
  EXPECT_EQ(Render(UROCE_DUMP_SWITCH, R"({"switches": [], "ports": []})"), "none\n");
}

TEST(RenderTest, FaultsAreThoseOfEachDevice) {
  const auto text = RenderFaults(R"({"devices": [
      {"name": "a", "counters": {"x": 1}},
      {"name": "b", "fault": "drop=0.1", "fault_receive": {"dropped": 3},
       "fault_transmit": {"dropped": 4}}]})",
                                 "");
  ASSERT_TRUE(text.ok()) << text.status();
  EXPECT_EQ(*text,
            "device  fault     rx_dropped  tx_dropped\n"
            "a       off\n"
            "b       drop=0.1           3           4\n");
}

TEST(RenderTest, RulesOfFaultsAreListedBelow) {
  const std::string json = R"({"devices": [
      {"name": "b", "counters": {"x": 1}, "fault": "rule=drop",
       "fault_rules": [{"rule": "rule=drop", "matched": 9, "acted": 1}]}]})";
  const auto text = RenderFaults(json, "");
  ASSERT_TRUE(text.ok()) << text.status();
  EXPECT_EQ(*text,
            "device  fault\n"
            "b       rule=drop\n"
            "\n"
            "device  rule       matched  acted\n"
            "b       rule=drop        9      1\n");
  const auto dump = FaultsOf(json);
  ASSERT_TRUE(dump.ok()) << dump.status();
  EXPECT_THAT(*dump, HasSubstr(R"("acted":1)"));
  EXPECT_THAT(*dump, Not(HasSubstr("counters")));
}

TEST(RenderTest, ZeroCountersAreHiddenUnlessAsked) {
  const std::string json =
      R"([{"name": "a", "counters": {"rx": 5, "bad": 0}},
          {"name": "b", "counters": {"rx": 0, "bad": 0}}])";
  const std::string brief = Render(UROCE_DUMP_STAT, json);
  EXPECT_THAT(brief, HasSubstr("rx       5  0"));
  EXPECT_THAT(brief, Not(HasSubstr("bad")));
  EXPECT_THAT(Render(UROCE_DUMP_STAT, json, {.all = true}), HasSubstr("bad"));
}

TEST(RenderTest, TheChoiceOfTheNumberOfWorkersStandsAboveThem) {
  EXPECT_THAT(Render(UROCE_DUMP_STAT,
                     R"({"devices": [], "workers": [{"worker": 0}],
                         "workers_chosen": "1 worker: auto, 2 usable CPUs"})",
                     {.workers = true}),
              StartsWith("1 worker: auto, 2 usable CPUs\n\nworker\n"));
}

TEST(RenderTest, DeviceFlagSelects) {
  const std::string text =
      Render(UROCE_DUMP_MR, R"([{"device": "a", "lkey": 1}, {"device": "b", "lkey": 2}])",
             {.select = {.device = "b"}});
  EXPECT_THAT(text, HasSubstr("2"));
  EXPECT_THAT(text, Not(HasSubstr("1")));
}

TEST(RenderTest, NothingThereSaysSo) {
  EXPECT_EQ(Render(UROCE_DUMP_QP, R"({"qps": []})"), "none\n");
}

TEST(RenderTest, ControlCharactersStayOffTheTerminal) {
  const std::string text =
      Render(UROCE_DUMP_QP, R"({"qps": [{"program": "\u001b[31mred\u0007\u007f\u009b1m\u00e9"}]})");
  EXPECT_THAT(text, HasSubstr("?[31mred????1m\u00e9"));
}

TEST(RenderTest, BrokenJsonIsAnError) {
  EXPECT_FALSE(RenderDump(UROCE_DUMP_QP, "{\"qps\": [", {}).ok());
  EXPECT_FALSE(RenderJson(ListingOf(UROCE_DUMP_QP), "nope", {}, absl::UnixEpoch(), false).ok());
}

TEST(RenderTest, MembersOfOtherTypesDoNotMatter) {
  EXPECT_EQ(Render(UROCE_DUMP_QP, R"({"qps": [7, null]})"), "none\n");
  EXPECT_EQ(Render(UROCE_DUMP_QP, R"("text")"), "none\n");
}

}  // namespace
}  // namespace uroce::tools
