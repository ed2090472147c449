// SPDX-License-Identifier: Apache-2.0
#include "drivers/memif/memif_config.h"

#include <rte_ether.h>
#include <sys/un.h>

#include <algorithm>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "drivers/dpdk/device_arguments.h"
#include "drivers/dpdk/eal.h"
#include "drivers/memif/memif_queue.h"
#include "pipeline/port/port.h"

namespace uroce::drivers {
namespace {

// More does not fit the 16-bit length of an mbuf with headroom.
constexpr uint32_t kMaxBufferBytes = UINT16_MAX - RTE_PKTMBUF_HEADROOM;
constexpr uint32_t kMinLog2RingSlots = 5;  // A burst.
constexpr uint32_t kFrameOverheadBytes = RTE_ETHER_HDR_LEN + RTE_VLAN_HLEN;

absl::Status Bad(const DeviceArguments& arguments, absl::string_view key, absl::string_view why) {
  // A message must not contain the secret.
  const std::string value = key == "secret" ? "..." : arguments.Value(key);
  return absl::InvalidArgumentError(
      absl::StrCat("dev \"", arguments.name, "\": ", key, "=", value, ": ", why));
}

absl::Status CheckWords(const DeviceArguments& arguments) {
  const std::string role = arguments.Value("role");
  if (role != "server" && role != "client") return Bad(arguments, "role", "server or client");
  for (const char* const key : {"zero-copy", "socket-abstract"}) {
    const std::string value = arguments.Value(key);
    if (!value.empty() && value != "no") {
      return Bad(arguments, key, "only no: the peer must not reach more than the rings");
    }
  }
  if (arguments.Value("secret").size() < memif::kSecretBytes) return absl::OkStatus();
  return Bad(arguments, "secret", absl::StrCat("at most ", memif::kSecretBytes - 1, " characters"));
}

absl::Status CheckSocket(const DeviceArguments& arguments) {
  constexpr size_t kLongest = sizeof(sockaddr_un::sun_path) - 1;
  const std::string path = arguments.Value("socket");
  if (path.empty()) return Bad(arguments, "socket", "a path is missing, such as /run/x.sock");
  if (path.size() <= kLongest) return absl::OkStatus();
  return Bad(arguments, "socket", absl::StrCat(path.size(), " characters, at most ", kLongest));
}

/// Reads the number of `key`, which must lie in [least, most].
absl::Status ReadNumber(const DeviceArguments& arguments, absl::string_view key, uint32_t least,
                        uint32_t most, absl::string_view what, uint32_t& number) {
  if (absl::SimpleAtoi(arguments.Value(key), &number) && number >= least && number <= most) {
    return absl::OkStatus();
  }
  return Bad(arguments, key, absl::StrCat(what, ", ", least, " to ", most));
}

}  // namespace

absl::StatusOr<MemifConfig> ParseMemifConfig(const DeviceArguments& arguments) {
  uint32_t id = 0;
  uint32_t buffer_bytes = 0;
  uint32_t log2_slots = 0;
  for (const absl::Status& status :
       {CheckWords(arguments), CheckSocket(arguments),
        ReadNumber(arguments, "id", 0, UINT32_MAX, "a number that both ends give", id),
        ReadNumber(arguments, "bsize", kRoceFrameBytes, kMaxBufferBytes,
                   "bytes of a buffer, so that RoCE frames of path MTU 4096 fit", buffer_bytes),
        ReadNumber(arguments, "rsize", kMinLog2RingSlots, memif::kMaxLog2RingSlots,
                   "base 2 logarithm of the slots of a ring", log2_slots)}) {
    if (!status.ok()) return status;
  }
  MemifConfig config;
  config.device = arguments.name;
  config.is_server = arguments.Value("role") == "server";
  config.socket = arguments.Value("socket");
  config.id = id;
  config.buffer_bytes = static_cast<uint16_t>(buffer_bytes);
  config.log2_ring_slots = static_cast<uint8_t>(log2_slots);
  config.secret = arguments.Value("secret");
  config.mac = arguments.mac.value_or(StableMac(arguments.Identity()));
  return config;
}

uint32_t RequiredFrameBytes(const MemifConfig& config, uint32_t mtu_bytes) {
  return std::max<uint32_t>(RequiredFrameBytes(mtu_bytes), config.buffer_bytes);
}

uint32_t MemifMtuBytes(const MemifConfig& config) {
  return config.buffer_bytes - kFrameOverheadBytes;
}

}  // namespace uroce::drivers
