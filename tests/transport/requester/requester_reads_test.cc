// SPDX-License-Identifier: Apache-2.0
// READs of a requester whose shell bounds what is asked for (pipeline/transport/send_queue.h).
#include <gtest/gtest.h>

#include "pipeline/transport/send_queue.h"
#include "tests/transport/script/script.h"

namespace uroce::transport {
namespace {

constexpr int64_t kTimeout = 67'108'864;  // Code 14.

// What was measured of Linux, which counts the memory of a packet; bytes of a datagram there
// include BTH, RETH or AETH, and ICRC.
TEST(ReadAllowanceTest, TheBufferOfAResponseIsNoLessThanTheKernelCounts) {
  struct Measured {
    uint32_t datagram_bytes, taken_bytes;
  };
  for (const Measured& of :
       {Measured{60, 832}, {316, 1280}, {572, 1280}, {1084, 2304}, {2108, 4352}, {4156, 8448}}) {
    EXPECT_GE(ReceiveBufferBytes(of.datagram_bytes - 24, 1, false), of.taken_bytes);
  }
  // A superframe of 14 packets.
  EXPECT_GE(ReceiveBufferBytes(58'184 - 14 * 24, 14, true), 59'016u);
  EXPECT_EQ(ReceiveBufferBytes(3000, 3, false), 3 * ReceiveBufferBytes(1000, 1, false));
}

TEST(RequesterReads, AReadWaitsForItsAllowance) {
  Script s;
  s.qp().AllowReads(0);
  s.Post(Read(3000)).Nothing();
  const uint64_t wanted = ReceiveBufferBytes(3000, 3, false);
  EXPECT_EQ(s.qp().WantedByRead(), wanted);
  EXPECT_FALSE(s.qp().HasPacket());
  s.qp().AllowReads(wanted - 1);
  s.Nothing();
  s.qp().AllowReads(wanted + 1);
  EXPECT_EQ(s.qp().WantedByRead(), 0u);
  s.Sends({"READ_REQUEST psn=000100 len=3000 ackreq"});
  EXPECT_EQ(s.qp().read_allowance(), 1u);
  // Responses count by whole packets until the last one.
  EXPECT_GE(s.qp().AwaitedByReads(), wanted);
  s.Receive("READ_RESPONSE_FIRST psn=000100 len=1024 msn=1");
  s.Receive("READ_RESPONSE_MIDDLE psn=000101 len=1024");
  EXPECT_EQ(s.qp().AwaitedByReads(), ReceiveBufferBytes(3000 - 2048, 1, false));
  s.Receive("READ_RESPONSE_LAST psn=000102 len=952 msn=1").Completes({"0 READ SUCCESS"});
  EXPECT_EQ(s.qp().AwaitedByReads(), 0u);
}

TEST(RequesterReads, OnlyReadsNeedAnAllowanceAndLaterWorksWaitForThem) {
  Script s;
  s.qp().AllowReads(0);
  s.Post(Write(8)).Post(Read(8)).Post(Send(8));
  s.Sends({"WRITE_ONLY psn=000100 len=8 ackreq"}).Nothing();
  s.qp().AllowReads(ReceiveBufferBytes(8, 1, false));
  s.Sends({"READ_REQUEST psn=000101 len=8 ackreq", "SEND_ONLY psn=000102 len=8 ackreq"});
}

TEST(RequesterReads, AReadThatIsSentAgainNeedsAnAllowanceForWhatIsMissing) {
  Script s;
  s.qp().AllowReads(ReceiveBufferBytes(3000, 3, false));
  s.At(0).Post(Read(3000)).Sends({"READ_REQUEST psn=000100 len=3000 ackreq"});
  s.At(10).Receive("READ_RESPONSE_FIRST psn=000100 len=1024 msn=1");
  s.At(10 + kTimeout).Nothing();
  EXPECT_EQ(s.qp().AwaitedByReads(), 0u);
  EXPECT_EQ(s.qp().WantedByRead(), ReceiveBufferBytes(3000 - 1024, 2, false));
  s.qp().AllowReads(ReceiveBufferBytes(3000 - 1024, 2, false));
  s.Sends({"READ_REQUEST psn=000101 len=1976 ackreq"});
  EXPECT_EQ(s.qp().read_allowance(), 0u);
}

TEST(RequesterReads, AQueuePairInErrorWantsAndAwaitsNothing) {
  Script s;
  s.qp().AllowReads(ReceiveBufferBytes(2000, 2, false));
  s.Post(Read(2000)).Post(Read(2000)).Sends({"READ_REQUEST psn=000100 len=2000 ackreq"});
  EXPECT_NE(s.qp().WantedByRead(), 0u);
  s.Modify(QpState::kErr);
  EXPECT_EQ(s.qp().WantedByRead(), 0u);
  EXPECT_EQ(s.qp().AwaitedByReads(), 0u);
  s.Completes({"0 READ WR_FLUSH_ERR", "1 READ WR_FLUSH_ERR"});
}

}  // namespace
}  // namespace uroce::transport
