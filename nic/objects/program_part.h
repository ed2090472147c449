// SPDX-License-Identifier: Apache-2.0
// A part of a program: the objects of one kind, or of kinds that belong together.
#pragma once

namespace uroce::nic {

struct Context;

/// What the end of a context, or of the program, asks of each part, in the order of
/// Program::ForEachPart: what uses objects of another part comes before that part. Control thread.
class ProgramPart {
 public:
  virtual ~ProgramPart() = default;

  /// Ends all that belongs to the context.
  virtual void EndAllOf(const Context& context) = 0;

  // ---- at the program's end, in this order ----
  /// Takes from workers what they own, some at a time.
  virtual void LeaveWorkers() {}
  /// Hides what all workers can find. A grace period follows.
  virtual void Unpublish() {}
  /// Gives back what others may have next: numbers, keys, places in tables of the daemon.
  virtual void Release() {}
};

}  // namespace uroce::nic
