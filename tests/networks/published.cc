// SPDX-License-Identifier: Apache-2.0
#include "tests/networks/published.h"

namespace uroce::networks {
namespace {

NetworkConfig PfcStar(uint32_t nics, uint64_t rate_bps, const congestion::Settings& settings) {
  NetworkConfig config = Star(Kind::kLossless, nics, settings);
  config.link = {.rate_bps = rate_bps, .delay = Nanos(1'000)};
  config.switches[0].buffer_bytes = 40'000'000;
  config.switches[0].pfc = {.on = true, .xoff_bytes = 500'000, .xon_bytes = 490'000};
  return config;
}

}  // namespace

NetworkConfig PaperStarWithoutMarks(uint32_t nics, const congestion::Settings& settings) {
  return PfcStar(nics, 40 * kGigabit, settings);
}

NetworkConfig PaperStar(uint32_t nics, const congestion::Settings& settings) {
  NetworkConfig config = PaperStarWithoutMarks(nics, settings);
  config.switches[0].ecn = {
      .on = true, .min_bytes = 5'000, .max_bytes = 200'000, .max_probability = 0.01};
  return config;
}

congestion::Settings PaperSettings() {
  congestion::Settings settings = congestion::DefaultsOf(congestion::Profile::kDcqcn);
  settings.rp.rpg_min_rate = 100;
  return settings;
}

congestion::Settings PaperFirstSettings() {
  congestion::Settings settings = PaperSettings();
  settings.rp.rpg_time_reset = 1'500;
  settings.rp.rpg_byte_reset = 150'000 / 64;
  settings.rp.dce_tcp_g = 1024 - 1024 / 16;
  return settings;
}

NetworkConfig PaperFirstStar(uint32_t nics) {
  NetworkConfig config = PaperStarWithoutMarks(nics, PaperFirstSettings());
  config.switches[0].ecn = {
      .on = true, .min_bytes = 40'000, .max_bytes = 40'000, .max_probability = 1};
  return config;
}

congestion::Settings HpccSettings(uint32_t gigabits) {
  congestion::Settings settings = congestion::DefaultsOf(congestion::Profile::kDcqcnMlx);
  settings.rp.rpg_time_reset = 300;
  settings.rp.rate_reduce_monitor_period = 4;
  settings.rp.dce_tcp_rtt = 1;
  settings.rp.dce_tcp_g = 1024 - 1024 / 256;
  settings.rp.rpg_threshold = 1;
  settings.rp.rpg_ai_rate = 5 * gigabits / 25;
  settings.rp.rpg_hai_rate = 50 * gigabits / 25;
  settings.rp.rpg_min_rate = 1'000;
  return settings;
}

NetworkConfig HpccStar(uint32_t nics, uint32_t gigabits, const congestion::Settings& settings) {
  NetworkConfig config = PfcStar(nics, gigabits * kGigabit, settings);
  config.switches[0].ecn = {.on = true,
                            .min_bytes = 4'000 * gigabits,
                            .max_bytes = 16'000 * gigabits,
                            .max_probability = 0.2};
  return config;
}

}  // namespace uroce::networks
