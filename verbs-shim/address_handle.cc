// SPDX-License-Identifier: Apache-2.0
// Makes address handles, also from a received datagram. The daemon knows a handle by its number:
// posting a datagram needs no command. Rules: docs/protocol/verbs-semantics.md, sections 4 and 7.
#include <endian.h>
#include <string.h>

#include "verbs-shim/objects.h"
#include "verbs-shim/real_library.h"
#include "verbs-shim/verbs_ops.h"

namespace uroce::shim {
namespace {

UROCE_REAL(ibv_create_ah, "IBVERBS_1.1");
UROCE_REAL(ibv_destroy_ah, "IBVERBS_1.1");
UROCE_REAL(ibv_init_ah_from_wc, "IBVERBS_1.1");
UROCE_REAL(ibv_create_ah_from_wc, "IBVERBS_1.1");

constexpr size_t kIpv4Offset = 20;  // Of an IPv4 header in the 40 bytes before a datagram.

ibv_ah* Create(ibv_pd* pd, const ibv_ah_attr& attr) {
  auto* ah = Make<AddressHandle>();
  if (ah == nullptr) return FailWith(ENOMEM);
  ah->verbs.context = pd->context;
  ah->verbs.pd = pd;
  const int error = MakeHandle(*Ours(pd->context)->connection, UROCE_CREATE_AH,
                               uroce_create_ah{pd->handle, ToAbi(attr)}, &ah->verbs.handle);
  if (error == 0) return &ah->verbs;
  Free(ah);
  return FailWith(error);
}

int Destroy(ibv_ah* ah) {
  const int error = EndObject(*Ours(ah->context)->connection, UROCE_DESTROY_AH, ah->handle);
  if (error == 0) Free(ah);
  return error;
}

void MappedGid(const uint8_t* ipv4, uint8_t* gid) {
  memset(gid, 0, 10);
  gid[10] = gid[11] = 0xff;
  memcpy(gid + 12, ipv4, 4);
}

/// The sender of a datagram, and the address of ours that it was sent to.
struct Ends {
  uint8_t source[16];
  uint8_t destination[16];
  uint8_t traffic_class;
  uint32_t flow_label;
};

Ends ReadHeader(const ibv_wc& wc, const ibv_grh& grh) {
  constexpr uint32_t kLayerThree = 7;
  constexpr uint32_t kIpv4 = 2;
  Ends ends = {};
  if ((wc.sl & kLayerThree) == kIpv4) {
    const auto* header = reinterpret_cast<const uint8_t*>(&grh) + kIpv4Offset;
    ends.traffic_class = header[1];
    MappedGid(header + 12, ends.source);
    MappedGid(header + 16, ends.destination);
    return ends;
  }
  const uint32_t word = be32toh(grh.version_tclass_flow);
  ends.traffic_class = static_cast<uint8_t>(word >> 20);
  ends.flow_label = word & 0xfffff;
  memcpy(ends.source, grh.sgid.raw, sizeof(ends.source));
  memcpy(ends.destination, grh.dgid.raw, sizeof(ends.destination));
  return ends;
}

/// The index in our GID table of the address that the datagram was sent to, or -1.
int FindSourceIndex(Context& context, const uint8_t* gid, int* error) {
  uroce_gid_entry entries[UROCE_MAX_GIDS];
  uint32_t count;
  *error = ReadGids(context, entries, &count);
  if (*error != 0) return -1;
  for (uint32_t i = 0; i < count; ++i) {
    if (entries[i].valid == 0 || entries[i].type != IBV_GID_TYPE_ROCE_V2) continue;
    if (memcmp(entries[i].gid, gid, sizeof(entries[i].gid)) == 0) return static_cast<int>(i);
  }
  *error = ENOENT;
  return -1;
}

int InitFromWc(Context& context, uint8_t port, const ibv_wc& wc, const ibv_grh& grh,
               ibv_ah_attr& attr) {
  if (port != 1) return EINVAL;
  if ((wc.wc_flags & IBV_WC_GRH) == 0) return EPROTOTYPE;
  const Ends ends = ReadHeader(wc, grh);
  int error;
  const int index = FindSourceIndex(context, ends.destination, &error);
  if (index < 0) return error;
  memset(&attr, 0, sizeof(attr));
  attr.port_num = port;
  attr.is_global = 1;
  memcpy(attr.grh.dgid.raw, ends.source, sizeof(ends.source));
  attr.grh.sgid_index = static_cast<uint8_t>(index);
  attr.grh.hop_limit = 64;
  attr.grh.traffic_class = ends.traffic_class;
  attr.grh.flow_label = ends.flow_label;
  return 0;
}

}  // namespace
}  // namespace uroce::shim

using namespace uroce::shim;

extern "C" {

UROCE_EXPORT ibv_ah* ibv_create_ah(ibv_pd* pd, ibv_ah_attr* attr) {
  return IsOurs(pd->context) ? Create(pd, *attr) : real_ibv_create_ah.CallOr(nullptr, pd, attr);
}

UROCE_EXPORT int ibv_destroy_ah(ibv_ah* ah) {
  return IsOurs(ah->context) ? Destroy(ah) : real_ibv_destroy_ah.CallOr(ENOSYS, ah);
}

UROCE_EXPORT int ibv_init_ah_from_wc(ibv_context* context, uint8_t port, ibv_wc* wc, ibv_grh* grh,
                                     ibv_ah_attr* attr) {
  if (!IsOurs(context)) {
    return real_ibv_init_ah_from_wc.CallOr(-1, context, port, wc, grh, attr);
  }
  const int error = InitFromWc(*Ours(context), port, *wc, *grh, *attr);
  if (error == 0) return 0;
  errno = error;
  return -1;
}

UROCE_EXPORT ibv_ah* ibv_create_ah_from_wc(ibv_pd* pd, ibv_wc* wc, ibv_grh* grh, uint8_t port) {
  if (!IsOurs(pd->context)) {
    return real_ibv_create_ah_from_wc.CallOr(nullptr, pd, wc, grh, port);
  }
  ibv_ah_attr attr;
  const int error = InitFromWc(*Ours(pd->context), port, *wc, *grh, attr);
  return error == 0 ? Create(pd, attr) : FailWith(error);
}

}  // extern "C"
