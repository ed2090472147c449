// SPDX-License-Identifier: Apache-2.0
// Ports that come and go, as a program sees it that has one open.
#include "nic/control/reconfiguration.h"

#include <gtest/gtest.h>
#include <infiniband/verbs.h>
#include <sys/socket.h>

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "drivers/cable/cable_port.h"
#include "drivers/dpdk/dpdk_port.h"
#include "nic/control/monitor.h"
#include "nic/devices/nic_device.h"
#include "nic/objects/nic.h"
#include "nic/objects/resources.h"
#include "nic/settings/config.h"
#include "nic/settings/port_settings.h"
#include "pipeline/datapath/queue/completion_queue.h"
#include "pipeline/datapath/worker/worker.h"
#include "tests/nic/control/watched_nic.h"

namespace uroce::nic {
namespace {

constexpr char kSpec[] = "name=guest,udp=192.0.2.7";

class PortChangesTest : public testing::Test {
 protected:
  PortChangesTest() {
    bed_.services().paths.StartHosts([](NicDevice&) {});
    changes_.SetOpener(
        [this](const std::vector<DeviceConfig>& nics, const std::vector<uint32_t>& indices) {
          return Open(nics, indices);
        });
  }
  ~PortChangesTest() override {
    bed_.programs.clear();
    for (const char* const name : {"guest", "left", "right"}) {
      if (NicDevice* const device = Find(name)) static_cast<void>(changes_.Remove(*device));
    }
    nic_.ReleaseDevices();
  }

  /// Both ends of a wire, or one end, if the other end has no NIC.
  absl::StatusOr<std::vector<std::unique_ptr<NicDevice>>> Open(
      const std::vector<DeviceConfig>& nics, const std::vector<uint32_t>& indices) {
    if (fails_) return absl::NotFoundError("there is none");
    drivers::CableEndConfig left;
    drivers::CableEndConfig right;
    left.mac = Mac{2, 0, 0, 0, 9, 1};
    right.mac = Mac{2, 0, 0, 0, 9, 2};
    auto wire = drivers::MakeCable(left, right, {.queues = 1});
    std::vector<std::unique_ptr<NicDevice>> made;
    made.push_back(std::make_unique<NicDevice>(nics[0], indices[0], std::move(wire->first), 1));
    if (nics.size() == 2) {
      made.push_back(std::make_unique<NicDevice>(nics[1], indices[1], std::move(wire->second), 1));
    } else {
      other_ends_.push_back(std::move(wire->second));
    }
    return made;
  }
  NicDevice* Find(const std::string& name) const {
    for (const auto& device : nic_.devices()) {
      if (device->name() == name) return device.get();
    }
    return nullptr;
  }
  NicDevice* Guest() const { return Find("guest"); }
  uint32_t Add() {
    const absl::Status status = changes_.Add("port", kSpec);
    EXPECT_TRUE(status.ok()) << status;
    return Guest()->index();
  }
  absl::Status Remove() { return changes_.Remove(*Guest()); }
  /// The types of the events that a program has been sent.
  static std::vector<uint32_t> EventsOf(const WatchedProgram& program) {
    std::vector<uint32_t> types;
    uroce_event_record record{};
    while (recv(program.events.get(), &record, sizeof(record), MSG_DONTWAIT) ==
           static_cast<ssize_t>(sizeof(record))) {
      types.push_back(record.event_type);
    }
    return types;
  }
  transport::QpState StateOf(const WatchedProgram& program, uint32_t handle) {
    const QueuePairObject& object = **program.program().queue_pairs().table().Find(handle);
    transport::QpState state{};
    nic_.OwnerOf(object.queue_pair).Run([&] { state = object.queue_pair.state(); });
    return state;
  }

  WatchedNic& bed_ = WatchedNic::Get();
  Nic& nic_ = bed_.nic();
  bool fails_ = false;
  std::vector<std::unique_ptr<drivers::Port>> other_ends_;
  std::vector<std::string> hooked_;
  Monitor monitor_{bed_.dumps()};
  PortChanges changes_{
      nic_, bed_.services(), monitor_,
      PortChanges::Hooks{
          .added = [this](NicDevice& device) { hooked_.push_back("+" + device.name()); },
          .removed = [this](NicDevice& device) { hooked_.push_back("-" + device.name()); }}};
};

TEST_F(PortChangesTest, AProgramThatHasItOpenIsToldAndCanEndItsObjects) {
  WatchedProgram program(nic_, 1, 0, Add());
  const uint32_t used = program.MakeQp().handle;
  program.ToInit(used);
  EXPECT_EQ(StateOf(program, used), transport::QpState::kInit);
  const uint32_t index = Guest()->index();
  ASSERT_TRUE(Remove().ok());

  EXPECT_EQ(EventsOf(program), std::vector<uint32_t>{IBV_EVENT_DEVICE_FATAL});
  EXPECT_EQ(StateOf(program, used), transport::QpState::kErr);
  EXPECT_TRUE(absl::IsCancelled(program.program().contexts().AllocPd(program.context).status()));
  EXPECT_TRUE(absl::IsCancelled(program.program().contexts().QueryPort(program.context).status()));
  uroce_modify_qp reset{};
  reset.handle = used;
  reset.attr.attr_mask = IBV_QP_STATE;
  reset.attr.qp_state = IBV_QPS_RESET;
  EXPECT_TRUE(absl::IsCancelled(program.program().queue_pairs().PlanModify(reset).status()));
  Fd events;
  Fd name;
  const auto again =
      program.program().contexts().Open({.device_index = index, .reserved = 0}, events, name);
  EXPECT_TRUE(absl::IsCancelled(again.status()));

  EXPECT_TRUE(program.program().queue_pairs().Destroy(used).ok());
  EXPECT_TRUE(*program.program().CloseSome(program.context, [] { return false; }));
}

TEST_F(PortChangesTest, AProgramWhoseWakeUpsRestIsToldAfterwards) {
  using datapath::WakePace;
  constexpr uid_t kUid = 4711;
  WatchedProgram program(nic_, 1, kUid, Add());
  WakePace& pace = nic_.user(kUid).wake_pace;
  pace.Account(Nic::Now(), Nanos(1'000'000'000), /*is_own_time=*/true);
  ASSERT_TRUE(Remove().ok());
  program.program().contexts().RetryPortEvents();
  EXPECT_TRUE(EventsOf(program).empty());
  pace.Account(Nanos(0), WakePace::kCheap + Nanos(1), /*is_own_time=*/true);  // It is long over.
  program.program().contexts().RetryPortEvents();
  EXPECT_EQ(EventsOf(program), std::vector<uint32_t>{IBV_EVENT_DEVICE_FATAL});
}

TEST_F(PortChangesTest, ProgramsOnOthersAreNotTold) {
  WatchedProgram other(nic_, 1, 0);
  const uint32_t used = other.MakeQp().handle;
  other.ToInit(used);
  Add();
  ASSERT_TRUE(Remove().ok());
  EXPECT_TRUE(EventsOf(other).empty());
  EXPECT_EQ(StateOf(other, used), transport::QpState::kInit);
}

TEST_F(PortChangesTest, ItsPlaceIsTakenUntilNoProgramHoldsIt) {
  std::optional<WatchedProgram> program;
  program.emplace(nic_, 1, 0, Add());
  ASSERT_TRUE(Remove().ok());
  const uint32_t next = nic_.NextDeviceIndices(1).front();
  nic_.ReleaseDevices();
  EXPECT_EQ(nic_.NextDeviceIndices(1).front(), next);
  const uint32_t second = Add();  // By the same name, while the first is held.
  EXPECT_EQ(second, next);
  EXPECT_TRUE(*program->program().CloseSome(program->context, [] { return false; }));
  program.reset();
  ASSERT_TRUE(Remove().ok());
  EXPECT_NE(Add(), second);
}

TEST_F(PortChangesTest, WhatIsRefusedChangesNothing) {
  const size_t before = nic_.devices().size();
  fails_ = true;
  EXPECT_EQ(changes_.Add("port", kSpec).message(), "there is none");
  fails_ = false;
  EXPECT_TRUE(absl::IsInvalidArgument(changes_.Add("port", "name=guest")));
  EXPECT_TRUE(
      absl::IsUnimplemented(changes_.Add("port", "name=guest,dev=net_tap0,ip=10.9.0.1/24")));
  Add();
  EXPECT_TRUE(absl::IsInvalidArgument(changes_.Add("port", kSpec))) << "there is one of this name";
  EXPECT_EQ(nic_.devices().size(), before + 1);
  EXPECT_EQ(hooked_, std::vector<std::string>{"+guest"});
  ASSERT_TRUE(Remove().ok());
  EXPECT_EQ(nic_.devices().size(), before);
  EXPECT_EQ(hooked_, (std::vector<std::string>{"+guest", "-guest"}));
}

TEST_F(PortChangesTest, EachEndOfAWireIsRemovedByItself) {
  ASSERT_TRUE(changes_.Add("wire", "left=10.4.0.1/24,right=10.4.0.2/24").ok());
  EXPECT_EQ(hooked_, (std::vector<std::string>{"+left", "+right"}));
  NicDevice& left = *Find("left");
  NicDevice& right = *Find("right");
  EXPECT_EQ(left.addition(), right.addition());
  WatchedProgram program(nic_, 1, 0, right.index());
  const uint32_t used = program.MakeQp().handle;
  program.ToInit(used);
  ASSERT_TRUE(changes_.Remove(left).ok());
  EXPECT_TRUE(EventsOf(program).empty());
  EXPECT_EQ(StateOf(program, used), transport::QpState::kInit);
  EXPECT_TRUE(nic_.Refresh(right).link);
  EXPECT_FALSE(right.link_up());
  ASSERT_TRUE(changes_.Remove(right).ok());
  EXPECT_EQ(EventsOf(program), std::vector<uint32_t>{IBV_EVENT_DEVICE_FATAL});
}

TEST_F(PortChangesTest, AWireNeedsTwoPlaces) {
  WatchedProgram program(nic_, 1, 0);
  std::vector<uint32_t> contexts;  // Each holds the place of a removed device.
  while (nic_.NextDeviceIndices(2).size() == 2) {
    Fd events;
    Fd name;
    const auto opened =
        program.program().contexts().Open({.device_index = Add(), .reserved = 0}, events, name);
    ASSERT_TRUE(opened.ok()) << opened.status();
    contexts.push_back(*opened);
    ASSERT_TRUE(Remove().ok());
  }
  EXPECT_TRUE(nic_.NextDeviceIndices(1).size() == 1);
  const size_t before = nic_.devices().size();
  const absl::Status status = changes_.Add("wire", "left=10.4.0.1/24,right=10.4.0.2/24");
  EXPECT_TRUE(absl::IsResourceExhausted(status)) << status;
  EXPECT_EQ(nic_.devices().size(), before);
  for (const uint32_t context : contexts) {
    EXPECT_TRUE(*program.program().CloseSome(context, [] { return false; }));
  }
}

TEST_F(PortChangesTest, NothingIsFoundUnderTheIndexOfOneThatIsGone) {
  const uint32_t index = Add();
  ASSERT_TRUE(Remove().ok());
  nic_.ReleaseDevices();
  const uint32_t other = Add();
  EXPECT_NE(other, index);
  EXPECT_EQ(nic_.DeviceAt(index), nullptr);
  const cm::Route route{.device = cm::RouteDevice(index, 0), .local = {}, .remote = {}};
  EXPECT_TRUE(bed_.services().paths.gsi().Send(route, Mad{})) << "it is dropped";
}

}  // namespace
}  // namespace uroce::nic
