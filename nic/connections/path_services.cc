// SPDX-License-Identifier: Apache-2.0
#include "nic/connections/path_services.h"

#include <sys/epoll.h>

#include <utility>
#include <vector>

#include "nic/devices/nic_device.h"
#include "nic/net/followed_paths.h"
#include "nic/objects/nic.h"
#include "nic/paths/host_stack.h"
#include "nic/settings/config.h"
#include "pipeline/base/observation.h"
#include "pipeline/datapath/frames/frame_link.h"
#include "pipeline/datapath/worker/worker.h"

namespace uroce::nic {
/// A FrameChannel over a link to a device's worker. Takes a bounded number of frames per turn of
/// the loop, so that a flood delays other work of the control thread little. Control thread.
class LinkChannel final : public FrameChannel {
 public:
  struct Pace {
    int frames_per_turn = 64;
    Nanos pause{0};  ///< Between turns when frames are left over.
  };

  /// `worker` serves `link`; both outlive it.
  LinkChannel(EventLoop& loop, datapath::FrameLink& link, datapath::Worker& worker, Pace pace);
  ~LinkChannel() override;
  LinkChannel(const LinkChannel&) = delete;
  LinkChannel& operator=(const LinkChannel&) = delete;

  void SetReceiver(Receiver receiver) override;
  bool has_room() const override { return !link_.outbound().Reserve().empty(); }
  void Send(std::span<const uint8_t> frame) override;
  bool is_idle() const override { return link_.outbound().empty(); }

 private:
  void OnFrames();
  void Stop();

  EventLoop& loop_;
  datapath::FrameLink& link_;
  datapath::Worker& worker_;
  const Pace pace_;
  Receiver receiver_;
  EventLoop::Id watch_ = 0;
  EventLoop::Id again_ = 0;
};

namespace {

constexpr LinkChannel::Pace kGsiPace{.frames_per_turn = 256, .pause = Nanos(0)};
constexpr LinkChannel::Pace kHostPace{.frames_per_turn = 64, .pause = Nanos(1'000'000)};

}  // namespace

LinkChannel::LinkChannel(EventLoop& loop, datapath::FrameLink& link, datapath::Worker& worker,
                         Pace pace)
    : loop_(loop), link_(link), worker_(worker), pace_(pace) {}

LinkChannel::~LinkChannel() { Stop(); }

void LinkChannel::Stop() {
  loop_.Forget(watch_);
  loop_.Cancel(again_);
}

void LinkChannel::SetReceiver(Receiver receiver) {
  Stop();
  receiver_ = std::move(receiver);
  if (receiver_) watch_ = loop_.Watch(link_.wait_fd(), EPOLLIN, [this] { OnFrames(); });
}

void LinkChannel::Send(std::span<const uint8_t> frame) {
  if (link_.Send(frame)) worker_.Wake();
}

// Frames beyond a turn's share wait, so that other work is not delayed.
void LinkChannel::OnFrames() {
  link_.ClearWake();
  int taken = 0;
  for (; taken < pace_.frames_per_turn; ++taken) {
    const std::span<const uint8_t> frame = link_.inbound().Front();
    if (frame.empty()) break;
    if (!receiver_(frame)) Count(link_.counters().rx_refused);
    link_.inbound().Pop();
  }
  if (taken < pace_.frames_per_turn && link_.PrepareSleep()) return;
  loop_.Cancel(again_);
  again_ = loop_.After(pace_.pause, [this] { OnFrames(); });
}

PathServices::~PathServices() = default;

PathServices::PathServices(EventLoop& loop, Nic& nic)
    : loop_(loop),
      nic_(nic),
      neighbours_(loop, netlink_, nic.net_devices(),
                  [&nic](std::span<const FollowedPath> paths) { nic.MovePaths(paths); }),
      gsi_(loop, neighbours_, {}) {
  for (const auto& device : nic.devices()) OpenGsi(*device);
}

void PathServices::OpenGsi(NicDevice& device) {
  std::unique_ptr<LinkChannel>& channel = gsi_channels_[&device];
  channel = std::make_unique<LinkChannel>(loop_, *device.datapath().gsi_link,
                                          nic_.workers().OwnerOf(wire::kGsiQpn), kGsiPace);
  gsi_.AddPort({&device, channel.get()});
}

void PathServices::StartHosts(std::function<void(NicDevice&)> on_addresses) {
  on_addresses_ = std::move(on_addresses);
  for (const auto& device : nic_.devices()) StartHost(*device);
}

void PathServices::StartHost(NicDevice& device) {
  if (!device.is_host()) return;
  std::unique_ptr<LinkChannel>& channel = host_channels_[&device];
  channel = std::make_unique<LinkChannel>(loop_, *device.datapath().host_link,
                                          nic_.HostWorkerOf(device), kHostPace);
  const HostConfig config{device.mac(), device.config().addresses, device.routes()};
  neighbours_.StartHost(device, *channel, config,
                        [this, &device](std::vector<InterfaceAddress> usable) {
                          device.SetUsableAddresses(std::move(usable));
                          on_addresses_(device);
                        });
  device.groups().Listen([this, &device](const Gid& group, bool joined) {
    neighbours_.SetGroup(device, group, joined);
  });
}

void PathServices::AddDevice(NicDevice& device) {
  neighbours_.AddDevice(device);
  OpenGsi(device);
  StartHost(device);
}

void PathServices::RemoveDevice(NicDevice& device) {
  gsi_.RemovePort(device);
  gsi_channels_.erase(&device);
  neighbours_.RemoveDevice(device);
  host_channels_.erase(&device);
}

}  // namespace uroce::nic
