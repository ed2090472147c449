// SPDX-License-Identifier: Apache-2.0
#include "nic/net/address.h"

#include <arpa/inet.h>

#include <algorithm>
#include <cstring>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_split.h"

namespace uroce::nic {
namespace {

constexpr uint16_t kMaxVlanId = 4094;  // IEEE 802.1Q: 4095 is reserved.

bool IsUnspecifiedOrLoopback(const Gid& gid) {
  if (gid.is_ipv4()) return gid.bytes[12] == 0 || gid.bytes[12] == 127;
  const bool zero =
      std::all_of(gid.bytes.begin(), gid.bytes.end() - 1, [](uint8_t byte) { return byte == 0; });
  return zero && gid.bytes[15] <= 1;
}

void Eui64(const Mac& mac, uint8_t* out) {
  const uint8_t bytes[8] = {
      static_cast<uint8_t>(mac[0] ^ 0x02), mac[1], mac[2], 0xff, 0xfe, mac[3], mac[4], mac[5]};
  std::memcpy(out, bytes, sizeof(bytes));
}

}  // namespace

absl::StatusOr<IpPrefix> ParseIpPrefix(absl::string_view text) {
  const size_t slash = text.find('/');
  const std::string address(text.substr(0, slash));
  IpPrefix prefix;
  in_addr v4{};
  if (inet_pton(AF_INET, address.c_str(), &v4) == 1) {
    prefix.gid = Ipv4Gid(ntohl(v4.s_addr));
  } else if (inet_pton(AF_INET6, address.c_str(), prefix.gid.bytes.data()) != 1) {
    return absl::InvalidArgumentError(
        absl::StrCat("\"", text, "\" is not an address such as 10.0.0.1/24 or fd00::1/64"));
  }
  if (slash == absl::string_view::npos) return prefix;
  const uint8_t base = prefix.gid.is_ipv4() ? kIpv4Bits : 0;
  uint32_t bits = 0;
  if (!absl::SimpleAtoi(text.substr(slash + 1), &bits) || bits > 128u - base) {
    return absl::InvalidArgumentError(
        absl::StrCat("\"", text, "\": the prefix length must be at most ", 128 - base));
  }
  prefix.bits = static_cast<uint8_t>(base + bits);
  return prefix;
}

absl::StatusOr<InterfaceAddress> ParseInterfaceAddress(absl::string_view text) {
  const std::vector<absl::string_view> words = absl::StrSplit(text, ' ', absl::SkipEmpty());
  const absl::StatusOr<IpPrefix> prefix = ParseIpPrefix(words.empty() ? text : words.front());
  if (!prefix.ok()) return prefix.status();
  InterfaceAddress address{prefix->gid, prefix->bits};
  if (!IsUnicast(address.gid)) {
    return absl::InvalidArgumentError(
        absl::StrCat("\"", text, "\" is not a unicast address that a port can own"));
  }
  if (address.prefix_bits == (address.gid.is_ipv4() ? kIpv4Bits : 0)) {
    return absl::InvalidArgumentError(
        absl::StrCat("\"", text, "\": the prefix length must be at least 1"));
  }
  if (words.size() == 1) return address;
  uint32_t vlan_id = 0;
  if (words.size() != 3 || words[1] != "vlan" || !absl::SimpleAtoi(words[2], &vlan_id) ||
      vlan_id == 0 || vlan_id > kMaxVlanId) {
    return absl::InvalidArgumentError(absl::StrCat(
        "\"", text, "\": behind the address comes vlan 1 to ", kMaxVlanId, ", or nothing"));
  }
  address.vlan_id = static_cast<uint16_t>(vlan_id);
  return address;
}

bool IsUnicast(const Gid& gid) {
  // 224 and above: multicast, reserved addresses, and 255.255.255.255.
  if (gid.is_ipv4() && gid.bytes[12] >= 224) return false;
  return !IsMulticast(gid) && !IsUnspecifiedOrLoopback(gid);
}

Gid Ipv4Gid(uint32_t address) {
  Gid gid;
  gid.bytes[10] = gid.bytes[11] = 0xff;
  const uint32_t big_endian = htonl(address);
  std::memcpy(gid.bytes.data() + 12, &big_endian, 4);
  return gid;
}

Gid DefaultGid(const Mac& mac) {
  Gid gid;
  gid.bytes[0] = 0xfe;
  gid.bytes[1] = 0x80;
  Eui64(mac, gid.bytes.data() + 8);
  return gid;
}

uint64_t NodeGuid(const Mac& mac) {
  uint64_t guid = 0;
  Eui64(mac, reinterpret_cast<uint8_t*>(&guid));
  return guid;
}

bool IsLinkLocal(const Gid& gid) { return gid.bytes[0] == 0xfe && (gid.bytes[1] & 0xc0) == 0x80; }

bool IsMulticast(const Gid& gid) {
  return gid.is_ipv4() ? (gid.bytes[12] & 0xf0) == 0xe0 : gid.bytes[0] == 0xff;
}

bool OnLink(const InterfaceAddress& address, const Gid& gid) {
  const size_t bytes = address.prefix_bits / 8;
  if (!std::equal(gid.bytes.begin(), gid.bytes.begin() + bytes, address.gid.bytes.begin())) {
    return false;
  }
  const int rest = address.prefix_bits % 8;
  return rest == 0 || ((gid.bytes[bytes] ^ address.gid.bytes[bytes]) >> (8 - rest)) == 0;
}

Mac MulticastMac(const Gid& gid) {
  const auto& b = gid.bytes;
  if (gid.is_ipv4()) return {0x01, 0x00, 0x5e, static_cast<uint8_t>(b[13] & 0x7f), b[14], b[15]};
  return {0x33, 0x33, b[12], b[13], b[14], b[15]};
}

std::string FormatAddress(const Gid& gid) {
  char text[INET6_ADDRSTRLEN] = "";
  if (gid.is_ipv4()) {
    inet_ntop(AF_INET, gid.bytes.data() + 12, text, sizeof(text));
  } else {
    inet_ntop(AF_INET6, gid.bytes.data(), text, sizeof(text));
  }
  return text;
}

std::string FormatInterfaceAddress(const InterfaceAddress& address) {
  const int base = address.gid.is_ipv4() ? kIpv4Bits : 0;
  std::string text = absl::StrCat(FormatAddress(address.gid), "/", address.prefix_bits - base);
  if (address.vlan_id != 0) absl::StrAppend(&text, " vlan ", address.vlan_id);
  return text;
}

std::string FormatGid(const Gid& gid) {
  std::string text;
  for (size_t i = 0; i < gid.bytes.size(); i += 2) {
    absl::StrAppendFormat(&text, "%s%02x%02x", i == 0 ? "" : ":", gid.bytes[i], gid.bytes[i + 1]);
  }
  return text;
}

std::string FormatMac(const Mac& mac) {
  return absl::StrFormat("%02x:%02x:%02x:%02x:%02x:%02x", mac[0], mac[1], mac[2], mac[3], mac[4],
                         mac[5]);
}

}  // namespace uroce::nic
