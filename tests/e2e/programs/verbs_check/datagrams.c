/* SPDX-License-Identifier: Apache-2.0 */
#include "datagrams.h"

#include <errno.h>
#include <string.h>

uint32_t vc_area_bytes(const struct vc_side* side) {
  return side->options->type == IBV_QPT_UD ? VC_GRH_AREA : 0;
}

void vc_make_address(struct vc_side* side) {
  struct ibv_ah_attr attributes = vc_address_vector(side);
  side->ah = ibv_create_ah(side->pd, &attributes);
  if (!side->ah) vc_die(side, "ibv_create_ah: %s", strerror(errno));
}

void vc_address(const struct vc_side* side, struct ibv_send_wr* request) {
  if (side->options->type != IBV_QPT_UD) return;
  request->wr.ud.ah = side->ah;
  request->wr.ud.remote_qpn = side->peer.qpn;
  request->wr.ud.remote_qkey = VC_QKEY;
}

static int is_ipv4(const union ibv_gid* gid) {
  static const uint8_t kPrefix[12] = {[10] = 0xff, [11] = 0xff};
  return !memcmp(gid->raw, kPrefix, sizeof(kPrefix));
}

/* An IPv4 header fills the second half of the area, an IPv6 header all of it. */
static void check_area(const struct vc_side* side, const uint8_t* area) {
  const union ibv_gid* from = &side->peer.gid;
  const union ibv_gid* to = &side->info.gid;
  if (is_ipv4(from)) {
    static const uint8_t kZeros[20];
    if (memcmp(area, kZeros, sizeof(kZeros)) || area[20] != 0x45 ||
        memcmp(area + 32, from->raw + 12, 4) || memcmp(area + 36, to->raw + 12, 4)) {
      vc_die(side, "the area in front of a datagram is no IPv4 header of the peer's");
    }
  } else if (area[0] >> 4 != 6 || memcmp(area + 8, from->raw, 16) ||
             memcmp(area + 24, to->raw, 16)) {
    vc_die(side, "the area in front of a datagram is no IPv6 header of the peer's");
  }
}

void vc_check_datagram(const struct vc_side* side, struct ibv_wc* wc, uint8_t* area) {
  const uint8_t layer_three = is_ipv4(&side->info.gid) ? 2 : 1;
  /* rxe says nothing of the header in wc.sl. */
  const int says_layer = side->options->rxe_end != side->index;
  if (!(wc->wc_flags & IBV_WC_GRH) || wc->src_qp != side->peer.qpn ||
      (says_layer && (wc->sl & 7) != layer_three)) {
    vc_die(side, "a datagram's completion: flags %u, from qp %x, sl %u; expected qp %x",
           wc->wc_flags, wc->src_qp, wc->sl, side->peer.qpn);
  }
  check_area(side, area);
  struct ibv_ah_attr answer;
  memset(&answer, 0, sizeof(answer));
  if (ibv_init_ah_from_wc(side->context, 1, wc, (struct ibv_grh*)area, &answer)) {
    vc_die(side, "ibv_init_ah_from_wc: %s", strerror(errno));
  }
  if (memcmp(&answer.grh.dgid, &side->peer.gid, sizeof(answer.grh.dgid)) ||
      answer.grh.sgid_index != side->options->gid_indices[side->index] || !answer.is_global) {
    vc_die(side, "ibv_init_ah_from_wc does not lead back to the peer");
  }
}
