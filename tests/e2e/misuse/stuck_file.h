/* SPDX-License-Identifier: Apache-2.0
 * A file in a file system of this process's own (FUSE) that never answers. */
#ifndef MISUSE_STUCK_FILE_H_
#define MISUSE_STUCK_FILE_H_

#define SF_BYTES (1 << 20)

/* Mounts the file where nobody else sees it, and opens it. Whoever reads its bytes, or closes an
 * fd of it, waits for as long as this process lives. This process itself can close it, and must,
 * before it ends. Needs root. -1: errno says why not. */
int sf_open(void);
/* How often somebody has begun to wait. */
unsigned sf_waiters(void);

#endif /* MISUSE_STUCK_FILE_H_ */
