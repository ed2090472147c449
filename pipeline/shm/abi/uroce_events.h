/* SPDX-License-Identifier: Apache-2.0
 * What a tool gets that follows what happens in the daemon.
 *
 * UROCE_DUMP with this `what` (uroce_commands.h) has no end: the stream socket of the reply carries
 * one JSON object a line. Each has "timestamp" (RFC 3339, UTC) and "event":
 *
 *   program_joined, program_left   program, pid, session
 *   queue_pair     device, qpn, program, pid, from, to: states, "" before and after its life;
 *                  "counters", those that are not 0, when `to` is ERR or SQE
 *   port_added, port_removed   device
 *   link           device, link: up or down, why
 *   gids           device, gids
 *   mac            device, mac
 *   interface      device, interface, is_there
 *   lost           count: events that the reader was too slow for
 *
 * Only root and the daemon's user get the events of other users' programs. The daemon looks for
 * queue pairs that failed every 250 ms.
 */
#ifndef UROCE_EVENTS_H_
#define UROCE_EVENTS_H_

enum { UROCE_DUMP_EVENTS = 64 };

#endif /* UROCE_EVENTS_H_ */
