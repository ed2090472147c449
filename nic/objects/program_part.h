// SPDX-License-Identifier: Apache-2.0
// A part of a program: the objects of one kind, or of kinds that belong together.
#pragma once

namespace uroce::nic {

struct Context;

/// Ends objects with their context or program. Parts are called in the order of
/// Program::ForEachPart: a part that uses objects of another comes before it. Control thread.
class ProgramPart {
 public:
  virtual ~ProgramPart() = default;

  /// Destroys all objects of the context.
  virtual void EndAllOf(const Context& context) = 0;

  // ---- at the program's end, in this order ----
  /// Takes the objects that workers own from them, some at a time.
  virtual void LeaveWorkers() {}
  /// Removes the objects that all workers can find. A grace period follows.
  virtual void Unpublish() {}
  /// Releases what others may get next: numbers, keys, places in tables of the daemon.
  virtual void Release() {}
};

}  // namespace uroce::nic
