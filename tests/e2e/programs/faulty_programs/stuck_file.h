/* SPDX-License-Identifier: Apache-2.0
 * A file in a file system (FUSE) that answers late, or never. */
#ifndef MISUSE_STUCK_FILE_H_
#define MISUSE_STUCK_FILE_H_

#define SF_BYTES (1 << 20)

/* Mounts the file where no other process sees it, and opens it. A process that reads its bytes
 * waits until sf_let_go, and a daemon that closes an fd of it for as long as this process lives:
 * another process serves the file, and ends with this one. Needs root. -1: errno says why not. */
int sf_open(void);
/* Its bytes are there from now on: zeros. */
void sf_let_go(void);
/* How often a process has begun to wait. */
unsigned sf_waiters(void);

#endif /* MISUSE_STUCK_FILE_H_ */
