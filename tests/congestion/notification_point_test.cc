// SPDX-License-Identifier: Apache-2.0
// When marks are answered (docs/protocol/congestion.md, section 4).
#include "pipeline/congestion/dcqcn.h"

#include <gtest/gtest.h>

#include "pipeline/congestion/settings.h"

namespace uroce::congestion {
namespace {

using wire::Opcode;
using wire::Service;

// [cc.np.interval] At most one CNP in an interval; the next mark behind it gets one.
TEST(NotificationPoint, OneCnpInAnInterval) {
  NotificationPoint point;
  const Nanos interval = Micros(50);
  EXPECT_TRUE(point.OnMarked(Micros(7), interval));
  EXPECT_FALSE(point.OnMarked(Micros(8), interval));
  EXPECT_FALSE(point.OnMarked(Micros(57) - Nanos(1), interval));
  EXPECT_TRUE(point.OnMarked(Micros(57), interval));
  EXPECT_FALSE(point.OnMarked(Micros(106), interval));
}

// [cc.np.burst] Without an interval: one for a burst, in which time stands still.
TEST(NotificationPoint, OneCnpInABurst) {
  NotificationPoint point;
  EXPECT_TRUE(point.OnMarked(Nanos(0), Nanos(0)));
  EXPECT_FALSE(point.OnMarked(Nanos(0), Nanos(0)));
  EXPECT_TRUE(point.OnMarked(Nanos(1), Nanos(0)));
}

// [cc.np.datagrams] Flows of datagrams are told apart by address and queue pair.
TEST(NotificationPoint, EachSenderOfDatagramsIsAFlow) {
  DatagramNotificationPoints points;
  const Gid one{{1}};
  const Gid two{{2}};
  EXPECT_TRUE(points.OnMarked(one, Qpn(5), Nanos(0), Micros(50)));
  EXPECT_FALSE(points.OnMarked(one, Qpn(5), Micros(1), Micros(50)));
  EXPECT_TRUE(points.OnMarked(one, Qpn(6), Micros(1), Micros(50)));
  EXPECT_TRUE(points.OnMarked(two, Qpn(5), Micros(1), Micros(50)));
}

// [cc.np.data] Marks on data are answered, of all services; on CNPs and acknowledgements never.
TEST(NotificationPoint, DataAlone) {
  for (const Service service : {Service::kRc, Service::kXrc}) {
    EXPECT_TRUE(IsNotified(OpcodeOf(service, Opcode::kWriteMiddle)));
    EXPECT_TRUE(IsNotified(OpcodeOf(service, Opcode::kReadRequest)));
    EXPECT_TRUE(IsNotified(OpcodeOf(service, Opcode::kReadResponseMiddle)));
    EXPECT_FALSE(IsNotified(OpcodeOf(service, Opcode::kAcknowledge)));
    EXPECT_FALSE(IsNotified(OpcodeOf(service, Opcode::kAtomicAcknowledge)));
    EXPECT_FALSE(IsNotified(OpcodeOf(service, Opcode::kSelectiveAcknowledge)));
  }
  EXPECT_TRUE(IsNotified(OpcodeOf(Service::kUc, Opcode::kSendOnly)));
  EXPECT_TRUE(IsNotified(OpcodeOf(Service::kUd, Opcode::kSendOnly)));
  EXPECT_FALSE(IsNotified(Opcode::kCnp));
}

}  // namespace
}  // namespace uroce::congestion
