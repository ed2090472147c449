/* SPDX-License-Identifier: Apache-2.0
 * What datagrams have in front of their payload, and what that says of who sent them. */
#ifndef VERBS_CHECK_DATAGRAMS_H_
#define VERBS_CHECK_DATAGRAMS_H_

#include <stdint.h>

#include "side.h"

#define VC_GRH_AREA 40
#define VC_QKEY 0x11223344u

/* Bytes in front of each message: none but for datagrams. */
uint32_t vc_area_bytes(const struct vc_side* side);
/* Makes the address handle of side->peer. */
void vc_make_address(struct vc_side* side);
/* Addresses a request to side->peer; does nothing for connections. */
void vc_address(const struct vc_side* side, struct ibv_send_wr* request);
/* Checks the completion of a datagram of side->peer and the area that came with it. */
void vc_check_datagram(const struct vc_side* side, struct ibv_wc* wc, uint8_t* area);

#endif /* VERBS_CHECK_DATAGRAMS_H_ */
