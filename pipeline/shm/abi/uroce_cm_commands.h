/* SPDX-License-Identifier: Apache-2.0
 * Commands on the control socket by which librdmacm reaches the connection manager, beside those
 * of uroce_commands.h. A part of the ABI's version.
 */
#ifndef UROCE_CM_COMMANDS_H_
#define UROCE_CM_COMMANDS_H_

#include <stdint.h>

/* Beside those of enum uroce_command. */
enum uroce_cm_command { UROCE_OPEN_CM = 80, UROCE_WRITE_CM = 81 };

/* OPEN_CM, without a body: an open file of the connection manager, as /dev/infiniband/rdma_cm makes
 * them. Reply: uroce_handle; fd: an end of a pair of stream sockets, which the program uses as its
 * file. It can be read while events wait, and never else: the daemon sends a byte when the first
 * one comes, and the shim takes a byte when a reply tells it to. The file ends when all copies of
 * that end are closed. */

/* WRITE_CM: what was written to such a file, laid out as in <rdma/rdma_user_cm.h>:
 * uroce_write_cm, then the rdma_ucm_cmd_hdr and `in` bytes of the command, then, of SET_OPTION, the
 * value of the option. Pointers in it mean nothing to the daemon. GET_EVENT does not wait: without
 * events it fails with EAGAIN. Reply: uroce_write_cm_reply, then what goes to the command's
 * `response`. */
#define UROCE_MAX_CM_IN 512u      /* bytes behind the rdma_ucm_cmd_hdr, without the option */
#define UROCE_MAX_CM_OPTION 1024u /* bytes of an option's value */
#define UROCE_MAX_CM_OUT 1024u    /* bytes for `response` */
struct uroce_write_cm {
  uint32_t file;     /* handle of OPEN_CM */
  uint32_t old_file; /* MIGRATE_ID: that of the file which the id comes from */
};
struct uroce_write_cm_reply {
  int32_t error;           /* 0, or a positive errno; nothing follows then */
  uint32_t signals;        /* bytes to take from the file, ... */
  uint32_t old_signals;    /* ... and from the old file */
  uint32_t response_bytes; /* of what follows */
};

#endif /* UROCE_CM_COMMANDS_H_ */
