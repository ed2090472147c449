/* SPDX-License-Identifier: Apache-2.0
 * Commands on the control socket by which librdmacm reaches the connection manager. They add to
 * those of uroce_commands.h. Covered by UROCE_ABI_VERSION.
 */
#ifndef UROCE_CM_COMMANDS_H_
#define UROCE_CM_COMMANDS_H_

#include <stdint.h>

/* Numbers that enum uroce_command leaves free. */
enum uroce_cm_command { UROCE_OPEN_CM = 80, UROCE_WRITE_CM = 81 };

/* OPEN_CM, without a body, opens a file of the connection manager, like an open of
 * /dev/infiniband/rdma_cm. Reply: uroce_handle; fd: one end of a pair of stream sockets, which the
 * program uses as that file. It is readable only while events wait: the daemon sends a byte for
 * each event, and the shim takes as many bytes as a reply tells it to. The daemon ends the
 * file when all copies of the program's end are closed. */

/* WRITE_CM carries what the program wrote to such a file, laid out as in <rdma/rdma_user_cm.h>:
 * uroce_write_cm, the rdma_ucm_cmd_hdr, `in` bytes of the command, and for SET_OPTION the value of
 * the option. The daemon ignores pointers in it. GET_EVENT does not wait: it fails with EAGAIN when
 * there is no event. Reply: uroce_write_cm_reply, then the bytes for the command's `response`. */
#define UROCE_MAX_CM_IN 512u      /* bytes after the rdma_ucm_cmd_hdr, without the option */
#define UROCE_MAX_CM_OPTION 1024u /* bytes of an option's value */
#define UROCE_MAX_CM_OUT 1024u    /* bytes for `response` */
struct uroce_write_cm {
  uint32_t file;     /* handle of OPEN_CM */
  uint32_t old_file; /* MIGRATE_ID: handle of the file that the id leaves */
};
struct uroce_write_cm_reply {
  int32_t error;           /* 0, or a positive errno; nothing follows then */
  uint32_t signals;        /* bytes to take from `file` */
  uint32_t old_signals;    /* bytes to take from `old_file` */
  uint32_t response_bytes; /* bytes that follow */
};

#endif /* UROCE_CM_COMMANDS_H_ */
