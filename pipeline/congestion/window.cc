// SPDX-License-Identifier: Apache-2.0
#include "pipeline/congestion/window.h"

#include <algorithm>

namespace uroce::congestion {

uint32_t Window::MostOf(bool selective) const {
  return selective ? std::max(most_, LossWindow::kMostPackets) : most_;
}

void Window::Start(bool selective, uint32_t mtu_bytes) {
  environment_ = next_environment_;
  by_delay_ = environment_ != nullptr && environment_->reacts() &&
              environment_->settings.profile == Profile::kDelay;
  lost_ = 0;
  losses_.Start();
  if (by_delay_) delay_.Start(settings(), MostOf(selective), mtu_bytes);
  packets_ = by_delay_ ? delay_.packets() : losses_.packets();
}

void Window::SetSelective(bool selective) {
  losses_.Start();
  if (by_delay_) delay_.SetMost(MostOf(selective));
  packets_ = by_delay_ ? delay_.packets() : losses_.packets();
}

void Window::OnAllResent(bool selective) {
  if (by_delay_) return delay_.GiveUpSample();
  if (!selective) return;
  losses_.Start();
  packets_ = losses_.packets();
}

void Window::OnAcknowledgedByDelay(wire::Psn una, Nanos now, Nanos peer_delay) {
  delay_.OnAcknowledged(settings(), una, now - environment_->lag,
                        environment_->stalled + peer_delay);
  packets_ = delay_.packets();
}

void Window::OnGoBack() {
  if (by_delay_) {
    delay_.OnLoss(settings());
    packets_ = delay_.packets();
    return;
  }
  losses_.OnGoBack();
  packets_ = losses_.packets();
}

void Window::OnLost(uint32_t packets) {
  if (!by_delay_) return losses_.OnLost(packets);
  lost_ += packets;
  delay_.GiveUpSample();
}

void Window::OnRound(uint32_t in_flight) {
  if (by_delay_) {
    // Round-trip times show congestion. Single losses do not: a bad cable may cause them.
    const bool much = lost_ * LossWindow::kTolerable > packets_;
    lost_ = 0;
    if (much) delay_.OnLoss(settings());
    packets_ = delay_.packets();
    return;
  }
  losses_.OnRound(in_flight);
  packets_ = losses_.packets();
}

}  // namespace uroce::congestion
