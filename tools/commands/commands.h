// SPDX-License-Identifier: Apache-2.0
// The sub-commands of `uroce`. Each function adds some of them, with their flags, to `app`.
#pragma once

#include <string>
#include <vector>

namespace uroce::tools {

struct CaptureOptions;
class Command;
struct Invocation;

/// The listings that have no other commands below them: devices, stat, qp, cq, mr, srq, pd, ctx,
/// peers, cm.
void AddListings(const Command& app, Invocation& invocation);
/// top: the highest rates, again after each interval. monitor: events as they come.
void AddWatching(const Command& app, Invocation& invocation);
/// What changes the daemon while it runs, and shows what can be changed: cc, switch, fault, config,
/// port.
void AddChanges(const Command& app, Invocation& invocation);

/// capture and flight: packets as pcapng files.
void AddCaptures(const Command& app, Invocation& invocation);
/// The flags that capture and uroce-extcap share: which packets, and how much of each. `options`
/// outlives the parse.
void AddCaptureFlags(const Command& app, CaptureOptions& options);

/// run and env: programs on the daemon's devices. `program` outlives the parse.
void AddLaunchers(const Command& app, Invocation& invocation,
                  const std::vector<std::string>& program);
/// Removes the program of run and its arguments: this tool must not parse them.
std::vector<std::string> TakeProgram(std::vector<std::string>& arguments);

/// doctor and extcap: what this machine has, without a daemon too.
void AddDoctor(const Command& app, Invocation& invocation);
void AddExtcap(const Command& app, Invocation& invocation);

}  // namespace uroce::tools
