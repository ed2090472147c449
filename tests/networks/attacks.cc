// SPDX-License-Identifier: Apache-2.0
#include "tests/networks/attacks.h"

#include <array>

#include "pipeline/wire/encode.h"
#include "pipeline/wire/icrc.h"
#include "tests/networks/link_watch.h"

namespace uroce::networks {
namespace {

constexpr uint32_t kSender = 0, kReceiver = 1, kAttacker = 5;
constexpr uint32_t kCnpsATurn = 4;

/// A CNP for the requester of `flow`.
std::vector<uint8_t> MakeCnp(NetworkBed& bed, const Flow& flow, const Gid& from) {
  const Flow::Ends& ends = flow.ends();
  const wire::HeaderTemplateConfig config{.source_mac = bed.nic(kAttacker).device().mac,
                                          .destination_mac = bed.nic(ends.from).device().mac,
                                          .source = from,
                                          .destination = bed.nic(ends.from).address(),
                                          .traffic_class = 0xc2,
                                          .dest_qpn = ends.requester->qp->qpn()};
  constexpr std::array<uint8_t, 16> kPayload{};
  std::vector<uint8_t> frame(wire::kMaxHeaderBytes + kPayload.size() + wire::kMaxTrailerBytes);
  const wire::EncodedHeaders headers =
      wire::EncodeHeaders(wire::HeaderTemplate(config), {.opcode = wire::Opcode::kCnp},
                          kPayload.size(), 0, frame.data());
  uint8_t* const payload = frame.data() + headers.length_bytes;
  const uint32_t crc =
      wire::CopyCrc32(headers.crc_state, payload, kPayload.data(), kPayload.size());
  const size_t trailer = wire::WriteTrailer(payload + kPayload.size(), kPayload.size(), crc);
  frame.resize(headers.length_bytes + kPayload.size() + trailer);
  return frame;
}

}  // namespace

AttackShares RunAttack(const congestion::Settings& settings, Attack attack, Nanos warm,
                       Nanos measured) {
  NetworkConfig config = Star(Kind::kMarked, kAttacker + 1, settings);
  if (attack == Attack::kMarks) {
    config.faults_of[kReceiver] = {.ce_mark = 1, .direction = drivers::FaultDirection::kReceive};
  }
  NetworkBed bed(config);
  const std::array<Flow*, 3> flows{&bed.Connect(kSender, kReceiver), &bed.Connect(kSender, 2),
                                   &bed.Connect(3, 4)};
  for (Flow* flow : flows) flow->KeepPosted(kDepth, kMessageBytes);
  const uint32_t pretends = attack == Attack::kForgedCnps ? kReceiver : kAttacker;
  const std::vector<uint8_t> cnp = MakeCnp(bed, *flows[0], bed.nic(pretends).address());
  const bool sends = attack == Attack::kForgedCnps || attack == Attack::kAttackerCnps;
  const auto run = [&](Nanos duration) {
    for (const Nanos end = bed.now() + duration; bed.now() < end; bed.Run(config.turn)) {
      for (uint32_t i = 0; sends && i < kCnpsATurn; ++i) bed.Inject(kAttacker, cnp);
    }
  };
  run(warm);
  for (Flow* flow : flows) flow->ResetCounts();
  const LinkWatch watch(bed.LinkTo(0), bed.now());
  run(measured);
  const auto share = [&](const Flow& flow) {
    return watch.ShareOf(flow.completed_bytes(), bed.now());
  };
  using Counters = datapath::DeviceCounters;
  return {.attacked = share(*flows[0]),
          .same_nic = share(*flows[1]),
          .elsewhere = share(*flows[2]),
          .cnps_handled = bed.nic(kSender).device().Sum(&Counters::rp_cnp_handled),
          .cnps_ignored = bed.nic(kSender).device().Sum(&Counters::rp_cnp_ignored),
          .cnps_sent = bed.nic(kReceiver).device().Sum(&Counters::np_cnp_sent),
          .failed = flows[0]->failed() + flows[1]->failed() + flows[2]->failed()};
}

}  // namespace uroce::networks
