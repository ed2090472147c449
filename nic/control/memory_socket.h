// SPDX-License-Identifier: Apache-2.0
// The socket on which a program hands over its memory and files.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <memory>

#include "absl/status/statusor.h"
#include "nic/base/event_loop.h"
#include "nic/base/user_limits.h"
#include "nic/objects/program.h"
#include "nic/objects/regions.h"
#include "nic/objects/xrc.h"
#include "pipeline/os/credentials.h"
#include "pipeline/os/fd.h"
#include "pipeline/os/side_thread.h"
#include "pipeline/os/unix_socket.h"
#include "pipeline/shm/abi/uroce_commands.h"

namespace uroce::nic {

// ---- Files that a program lends: its own memory, and files that it has mapped shared. These fds
// are untrusted: a thread that uses one may block, so these functions run on threads that no other
// thread waits for. ----

/// The process that connected, and the credentials of its user.
struct Lender {
  pid_t pid = 0;
  Credentials user;
};

/// Makes the calling thread act for the lender's user from now on. The thread keeps only the
/// privilege to open what is behind a mapping (CAP_CHECKPOINT_RESTORE), if the daemon has it.
/// False: the system refused; do nothing for the user then.
[[nodiscard]] bool ActForLender(const Lender& lender);

/// Part of a file, mapped.
struct LentFile {
  Mapping mapping;
  uint64_t offset = 0;
  bool writable = false;
  Populated populated = Populated::kNone;
};

/// Which files in memory the daemon maps for a program. While a process frees pages of a file that
/// is mapped very often, each thread that touches them waits: a worker then serves no program.
enum class FilesToMap : uint8_t {
  kKeepingPages,  ///< Those whose pages no process can free (KeepsItsPages).
  kAll,
};

/// Whether no process can free pages of a file in memory while it has its length: a seal forbids
/// it, or the file is immutable.
bool KeepsItsPages(int fd);

/// Whether `fd` is a process's memory (/proc/PID/mem), open for reading and writing. Moves the file
/// position of `fd`.
bool IsMemoryFile(int fd);

/// Maps the part of `file` that `request` asks for. The calling thread acts for the lender, as the
/// thread does that populates regions of the file. Returns 0 or an errno: EINVAL (not a file on
/// tmpfs or hugetlbfs, not open for the access, bytes behind its end), or that of mmap.
[[nodiscard]] int MapLentFile(const uroce_lend& request, const Fd& file, FilesToMap files,
                              LentFile& lent);

/// Identifies the file `file`, and holds its identity without keeping its contents; `thread` will
/// release it. Returns 0 or an errno: EBADF when `file` was opened with O_PATH, which needs no
/// right to the file; EOPNOTSUPP on FUSE, whose server could block the thread without limit.
[[nodiscard]] int FindXrcFile(const Fd& file, const std::shared_ptr<SideThread>& thread,
                              XrcFile& found);

/// Opens the file behind the lender's mapping that `request` names. The calling thread acts for the
/// lender, so that it cannot look into a process that reuses the PID, nor into a program that now
/// runs as another user. Returns 0 or an errno; EACCES when the mapping
/// is not shared, or does not allow the access now.
[[nodiscard]] int OpenMappedFile(const Lender& lender, const uroce_lend& request, Fd& file);

/// The second socket of a program, over which it sends the files of its memory to the daemon.
///
/// An untrusted fd may block the thread that uses or closes it. So the connection's side thread
/// receives each message and checks, maps and closes its fd. The control thread only learns the
/// outcome. Control thread.
class MemorySocket {
 public:
  /// `program_end` is the program's end of the socket pair. Threads that hang in what the program
  /// lent keep `place`; `thread` does so itself.
  static absl::StatusOr<std::unique_ptr<MemorySocket>> Make(
      EventLoop& loop, BackgroundTasks& background_tasks, Program& program, const Lender& lender,
      Admission::Place place, std::shared_ptr<SideThread> thread, Fd& program_end);
  ~MemorySocket();
  MemorySocket(const MemorySocket&) = delete;
  MemorySocket& operator=(const MemorySocket&) = delete;

 private:
  struct Inspection;

  MemorySocket(EventLoop& loop, BackgroundTasks& background_tasks, Program& program,
               const Lender& lender, Admission::Place place, std::shared_ptr<SideThread> thread,
               Fd socket);
  void Watch();
  void OnMessage();
  void OnInspected(Inspection& inspection);
  /// Takes over what was lent; fills in `reply`.
  void Take(Inspection& inspection, uroce_lend_reply& reply);

  EventLoop& loop_;
  BackgroundTasks& tasks_;
  Program& program_;
  const Lender lender_;
  const Admission::Place place_;
  const std::shared_ptr<SideThread> thread_;
  const std::shared_ptr<UntrustedSocket> socket_;
  EventLoop::Id watch_ = 0;
  BackgroundTasks::Id task_ = 0;
};

}  // namespace uroce::nic
