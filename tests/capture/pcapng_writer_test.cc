// SPDX-License-Identifier: Apache-2.0
// What is written must be read back by libpcap, an implementation that is not ours.
#include "pipeline/capture/pcapng_writer.h"

#include <gtest/gtest.h>
#include <pcap/pcap.h>

#include <cstdio>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

namespace uroce::capture {
namespace {

uroce_capture_interface Interface(const char* name) {
  uroce_capture_interface interface {};
  strncpy(interface.name, name, sizeof(interface.name) - 1);
  return interface;
}

struct ClosePcap {
  void operator()(pcap_t* pcap) const { pcap_close(pcap); }
};
using Pcap = std::unique_ptr<pcap_t, ClosePcap>;

Pcap OpenBytes(const PcapngWriter& writer) {
  FILE* file = tmpfile();
  fwrite(writer.bytes().data(), 1, writer.bytes().size(), file);
  rewind(file);
  char error[PCAP_ERRBUF_SIZE] = "";
  Pcap pcap(pcap_fopen_offline_with_tstamp_precision(file, PCAP_TSTAMP_PRECISION_NANO, error));
  EXPECT_TRUE(pcap) << error;
  return pcap;
}

uint32_t WordAt(const PcapngWriter& writer, size_t offset) {
  uint32_t word = 0;
  memcpy(&word, writer.bytes().data() + offset, sizeof(word));
  return word;
}

TEST(PcapngWriterTest, LibpcapReadsFramesWithNanosecondTimes) {
  PcapngWriter writer;
  writer.AddSection("uroce test");
  writer.AddInterface(Interface("uroce0"), 65536);
  writer.AddInterface(Interface("uroce1"), 65536);
  const std::vector<uint8_t> bytes_sent(61, 0x5a);
  const CapturedFrame frame{.time_ns = 1'700'000'000'123'456'789,
                            .interface_index = 1,
                            .direction = UROCE_CAPTURE_INBOUND,
                            .wire_length_bytes = 9000,
                            .bytes = bytes_sent};
  writer.AddFrame(frame);
  writer.AddStatistics(0, frame.time_ns, {.lost_frames = 3});
  const Pcap pcap = OpenBytes(writer);
  ASSERT_TRUE(pcap);
  EXPECT_EQ(pcap_datalink(pcap.get()), DLT_EN10MB);
  pcap_pkthdr* header = nullptr;
  const u_char* bytes = nullptr;
  ASSERT_EQ(pcap_next_ex(pcap.get(), &header, &bytes), 1);
  EXPECT_EQ(header->ts.tv_sec, 1'700'000'000);
  EXPECT_EQ(header->ts.tv_usec, 123'456'789);
  EXPECT_EQ(header->caplen, 61u);
  EXPECT_EQ(header->len, 9000u);
  EXPECT_EQ(memcmp(bytes, frame.bytes.data(), frame.bytes.size()), 0);
  EXPECT_EQ(pcap_next_ex(pcap.get(), &header, &bytes), PCAP_ERROR_BREAK);
}

TEST(PcapngWriterTest, EveryBlockEndsWithItsLengthOnAWordBoundary) {
  PcapngWriter writer;
  writer.AddSection("x");
  writer.AddInterface(Interface("odd"), 0);
  const std::vector<uint8_t> bytes(9);
  for (size_t length = 0; length < 9; ++length) {
    writer.AddFrame({.wire_length_bytes = 64, .bytes = {bytes.data(), length}},
                    std::string(length, 'c'));
  }
  writer.AddStatistics(0, 1, {2, 3, 4, "five"});
  size_t offset = 0;
  int blocks = 0;
  for (; offset < writer.bytes().size(); ++blocks) {
    const uint32_t length_bytes = WordAt(writer, offset + 4);
    ASSERT_EQ(length_bytes % 4, 0u);
    ASSERT_LE(offset + length_bytes, writer.bytes().size());
    EXPECT_EQ(WordAt(writer, offset + length_bytes - 4), length_bytes);
    offset += length_bytes;
  }
  EXPECT_EQ(blocks, 12);
}

TEST(PcapngWriterTest, HeadFrameAndTailMakeTheSameBlock) {
  const std::vector<uint8_t> bytes(1001, 0x77);
  for (const uint8_t reason : {UROCE_REASON_NONE, UROCE_REASON_BAD_ICRC}) {
    CapturedFrame frame{.wire_length_bytes = 2000, .bytes = bytes};
    frame.note.reason = reason;
    PcapngWriter whole;
    whole.AddFrame(frame);
    PcapngWriter parts;
    parts.AddFrameHead(frame);
    const size_t head_bytes = parts.bytes().size();
    parts.AddFrameTail(frame);
    std::vector<uint8_t> joined(parts.bytes().begin(), parts.bytes().end());
    joined.insert(joined.begin() + static_cast<ptrdiff_t>(head_bytes), bytes.begin(), bytes.end());
    EXPECT_EQ(joined, std::vector<uint8_t>(whole.bytes().begin(), whole.bytes().end()));
  }
}

TEST(PcapngWriterTest, TheNoteOfAFrameIsItsComment) {
  PcapngWriter writer;
  CapturedFrame frame{.wire_length_bytes = 64};
  frame.note = {.reason = UROCE_REASON_UNKNOWN_QPN, .qpn = 0x99};
  writer.AddFrame(frame, "and more");
  const std::string text(writer.bytes().begin(), writer.bytes().end());
  EXPECT_NE(text.find("dropped: there is no qp 0x000099 here; and more"), std::string::npos);
  EXPECT_EQ(WordAt(writer, 28) & 0xffff, 1u) << "opt_comment";
}

}  // namespace
}  // namespace uroce::capture
