// SPDX-License-Identifier: Apache-2.0
#include "pipeline/capture/note.h"

#include <gtest/gtest.h>

#include <set>

namespace uroce::capture {
namespace {

TEST(NoteTextTest, AFrameWithNothingToSayHasNoText) {
  EXPECT_EQ(NoteText({}), "");
  EXPECT_EQ(NoteText({.qpn = 5, .psn = 7}), "");
}

TEST(NoteTextTest, ARetransmissionSaysWhyAndWhichOfHowMany) {
  EXPECT_EQ(NoteText({.reason = UROCE_REASON_RETRANSMITTED,
                      .detail = UROCE_RESEND_ACK_TIMEOUT,
                      .number = 2,
                      .limit = 7,
                      .qpn = 0x123}),
            "retransmission 2 of 7 of qp 0x000123: ACK timeout");
  EXPECT_EQ(NoteText({.reason = UROCE_REASON_RETRANSMITTED,
                      .detail = UROCE_RESEND_RNR_NAK,
                      .limit = UROCE_NO_LIMIT,
                      .qpn = 0x123}),
            "retransmission without limit of qp 0x000123: RNR NAK, its timer has run out");
  EXPECT_EQ(NoteText({.reason = UROCE_REASON_RETRANSMITTED,
                      .detail = UROCE_RESEND_ACK_TIMEOUT,
                      .limit = 7,
                      .qpn = 0x123}),
            "retransmission of qp 0x000123: ACK timeout")
      << "it costs no retry";
}

TEST(NoteTextTest, ATailLossProbeIsNoTimeout) {
  EXPECT_EQ(NoteText({.reason = UROCE_REASON_RETRANSMITTED,
                      .detail = UROCE_RESEND_TAIL_LOSS_PROBE,
                      .qpn = 0x123}),
            "retransmission of qp 0x000123: tail loss probe, nothing came for some round trips");
}

TEST(NoteTextTest, AGapNamesBothPsnsAndWhetherANakWent) {
  uroce_capture_note note{.reason = UROCE_REASON_OUT_OF_SEQUENCE,
                          .detail = 1,
                          .qpn = 0x123,
                          .psn = 1042,
                          .expected_psn = 1040};
  EXPECT_EQ(NoteText(note),
            "dropped: psn 1042 is out of sequence, qp 0x000123 expects 1040, NAK sent");
  note.detail = 0;
  EXPECT_EQ(NoteText(note),
            "dropped: psn 1042 is out of sequence, qp 0x000123 expects 1040, NAK was sent before");
}

TEST(NoteTextTest, ARefusalNamesItsNakAndTheEndOfTheQueuePair) {
  EXPECT_EQ(NoteText({.reason = UROCE_REASON_REFUSED,
                      .detail = UROCE_REFUSAL_REMOTE_KEY,
                      .number = 0x62,
                      .flags = UROCE_NOTE_FAILED,
                      .qpn = 0x123}),
            "refused by qp 0x000123: the key does not grant the range, NAK remote access error "
            "sent; qp 0x000123 goes to error");
}

TEST(NoteTextTest, ANakThatIsSentNamesWhatItSays) {
  uroce_capture_note note{.reason = UROCE_REASON_NAK, .number = 0x60, .qpn = 0x123, .psn = 1040};
  EXPECT_EQ(NoteText(note), "NAK of qp 0x000123: sequence error, psn 1040 is expected");
  note.number = 0x62;
  EXPECT_EQ(NoteText(note), "NAK of qp 0x000123: remote access error");
  note.number = 0x2c;
  EXPECT_EQ(NoteText(note), "RNR NAK of qp 0x000123: no receive is posted, timer code 12");
}

TEST(NoteTextTest, NotificationsTellTheRate) {
  uroce_capture_note note{.reason = UROCE_REASON_CNP_SENT, .qpn = 0x123, .psn = 1042};
  EXPECT_EQ(NoteText(note), "CNP sent by qp 0x000123 for psn 1042");
  note.rate_mbps = 4240;
  EXPECT_EQ(NoteText(note), "CNP sent by qp 0x000123 for psn 1042, rate 4.2 Gb/s");
  EXPECT_EQ(NoteText({.reason = UROCE_REASON_CNP_HANDLED, .qpn = 0x123, .rate_mbps = 950}),
            "congestion notification: qp 0x000123 sends less, rate 950 Mb/s");
}

TEST(NoteTextTest, MarksAndFailuresStandBesideTheReason) {
  EXPECT_EQ(NoteText({.flags = UROCE_NOTE_MARKED}), "arrived with congestion experienced");
  EXPECT_EQ(NoteText({.flags = UROCE_NOTE_FAILED, .status = 12, .qpn = 1}),
            "qp 0x000001 goes to error: RETRY_EXC_ERR");
}

TEST(NoteTextTest, EveryReasonHasItsOwnText) {
  std::set<std::string> texts;
  for (int reason = 1; reason <= UROCE_REASON_CNP_SENT; ++reason) {
    const std::string text = NoteText({.reason = static_cast<uint8_t>(reason)});
    EXPECT_EQ(text.find("reason "), std::string::npos) << text;
    texts.insert(text);
  }
  EXPECT_EQ(texts.size(), static_cast<size_t>(UROCE_REASON_CNP_SENT));
}

TEST(NoteTextTest, UnknownCodesBecomeNumbers) {
  for (int code = 0; code < 256; ++code) {
    uroce_capture_note note{};
    note.reason = note.detail = note.number = note.limit = note.status = static_cast<uint8_t>(code);
    note.flags = UROCE_NOTE_FAILED;
    EXPECT_FALSE(NoteText(note).empty());
  }
  EXPECT_EQ(NoteText({.reason = 200, .qpn = 1}), "reason 200 of qp 0x000001");
}

TEST(NoteTest, KindsAreWhatTheFiltersAskFor) {
  EXPECT_EQ(KindsOf({}), 0u);
  EXPECT_EQ(KindsOf({.reason = UROCE_REASON_NOT_ROCE}), UROCE_CAPTURE_DROPPED);
  EXPECT_EQ(KindsOf({.reason = UROCE_REASON_REFUSED}), UROCE_CAPTURE_DROPPED);
  EXPECT_EQ(KindsOf({.reason = UROCE_REASON_RETRANSMITTED}), UROCE_CAPTURE_RETRANSMITTED);
  EXPECT_EQ(KindsOf({.reason = UROCE_REASON_ANSWERED_AGAIN}), UROCE_CAPTURE_RETRANSMITTED);
  for (const uint8_t taken : {UROCE_REASON_NAK, UROCE_REASON_SELECTIVE_ACK, UROCE_REASON_CNP_SENT,
                              UROCE_REASON_CNP_HANDLED}) {
    EXPECT_EQ(KindsOf({.reason = taken}), 0u) << int{taken};
  }
  EXPECT_EQ(KindsOf({.reason = UROCE_REASON_CNP_IGNORED}), UROCE_CAPTURE_DROPPED);
  EXPECT_EQ(KindsOf({.reason = UROCE_REASON_GHOST, .flags = UROCE_NOTE_MARKED}),
            UROCE_CAPTURE_DROPPED | UROCE_CAPTURE_MARKED);
}

}  // namespace
}  // namespace uroce::capture
