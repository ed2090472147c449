// SPDX-License-Identifier: Apache-2.0
#include "tools/doctor/hugepages.h"

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"

namespace uroce::tools {
namespace {

constexpr char kDirectory[] = "/sys/kernel/mm/hugepages";
constexpr uint64_t kMib = 1 << 20;
constexpr uint64_t kWantedBytes = 1024 * kMib;  // A daemon with a port or two of large frames.
constexpr char kReserve[] = "sudo sysctl -w vm.nr_hugepages=512";

}  // namespace

std::vector<HugepagePool> ReadHugepages(const Machine& machine) {
  std::vector<HugepagePool> pools;
  for (const std::string& name : machine.List(kDirectory)) {
    absl::string_view size = name;
    uint64_t page_kib = 0;
    if (!absl::ConsumePrefix(&size, "hugepages-") || !absl::ConsumeSuffix(&size, "kB")) continue;
    if (!absl::SimpleAtoi(size, &page_kib)) continue;
    const std::string place = absl::StrCat(kDirectory, "/", name);
    pools.push_back({.page_bytes = page_kib * 1024,
                     .total = machine.ReadNumber(place + "/nr_hugepages").value_or(0),
                     .free = machine.ReadNumber(place + "/free_hugepages").value_or(0)});
  }
  return pools;
}

Findings CheckHugepages(const std::vector<HugepagePool>& pools, bool daemon_runs) {
  uint64_t total_bytes = 0;
  uint64_t free_bytes = 0;
  for (const HugepagePool& pool : pools) {
    total_bytes += pool.total * pool.page_bytes;
    free_bytes += pool.free * pool.page_bytes;
  }
  if (total_bytes == 0) {
    return {{Level::kNote, "hugepages",
             "none reserved; ordinary pages serve all but zero copy between ports and large NICs",
             kReserve}};
  }
  const std::string amount =
      absl::StrCat(total_bytes / kMib, " MiB reserved, ", free_bytes / kMib, " MiB free");
  if (free_bytes < kWantedBytes && !daemon_runs) {
    return {{Level::kNote, "hugepages",
             amount + ": uroced takes ordinary pages if its own need more", kReserve}};
  }
  return {{Level::kOk, "hugepages", amount, ""}};
}

}  // namespace uroce::tools
