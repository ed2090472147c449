// SPDX-License-Identifier: Apache-2.0
// Hooks on libc's functions of paths and on dlopen: programs find our devices in /sys, the
// connection manager's node in /dev, and our verbs in libibverbs.
//
// The hooks have their own names in C++, and libc's names as labels: libc's headers give some of
// their declarations other labels, depending on the size of file offsets.
#include <dlfcn.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "pipeline/shm/abi/uroce_arena.h"
#include "verbs-shim/cm_commands.h"
#include "verbs-shim/hooks/redirected_path.h"
#include "verbs-shim/real_library.h"
#include "verbs-shim/support.h"

namespace uroce::shim {

// ---- Paths ----
// The daemon keeps devices and node beside its socket, which needs no privilege. Other paths, and
// those that the daemon does not have, are passed on unchanged. Async-signal-safe; errno is kept.

namespace {

using Open = int(const char*, int, ...);
using OpenFortified = int(const char*, int);
using OpenAt = int(int, const char*, int, ...);
using OpenAtFortified = int(int, const char*, int);
using Stat = int(const char*, void*);
using VersionedStat = int(int, const char*, void*);
using StatAt = int(int, const char*, void*, int);
using StatX = int(int, const char*, int, unsigned, void*);
using Access = int(const char*, int);
using AccessAt = int(int, const char*, int, int);
using ReadLink = ssize_t(const char*, char*, size_t);
using ReadLinkAt = ssize_t(int, const char*, char*, size_t);
using RealPath = char*(const char*, char*);
using RealPathFortified = char*(const char*, char*, size_t);
using CanonicalName = char*(const char*);
using ChangeDirectory = int(const char*);
using OpenDirectory = void*(const char*);
using ScanDirectory = int(const char*, void*, void*, void*);
using OpenStream = FILE*(const char*, const char*);
using ReopenStream = FILE*(const char*, const char*, FILE*);
using AboutFileSystem = int(const char*, void*);
using GetAttribute = ssize_t(const char*, const char*, void*, size_t);
using ListAttributes = ssize_t(const char*, char*, size_t);
using AddWatch = int(int, const char*, uint32_t);

constinit NextFunction<Open> next_open("open"), next_open64("open64");
constinit NextFunction<OpenFortified> next_open_2("__open_2"), next_open64_2("__open64_2");
constinit NextFunction<OpenAt> next_openat("openat"), next_openat64("openat64");
constinit NextFunction<OpenAtFortified> next_openat_2("__openat_2"),
    next_openat64_2("__openat64_2");
constinit NextFunction<Stat> next_stat("stat"), next_stat64("stat64"), next_lstat("lstat"),
    next_lstat64("lstat64");
constinit NextFunction<VersionedStat> next_xstat("__xstat"), next_xstat64("__xstat64"),
    next_lxstat("__lxstat"), next_lxstat64("__lxstat64");
constinit NextFunction<StatAt> next_fstatat("fstatat"), next_fstatat64("fstatat64");
constinit NextFunction<StatX> next_statx("statx");
constinit NextFunction<Access> next_access("access");
constinit NextFunction<AccessAt> next_faccessat("faccessat");
constinit NextFunction<ReadLink> next_readlink("readlink");
constinit NextFunction<ReadLinkAt> next_readlinkat("readlinkat");
constinit NextFunction<RealPath> next_realpath("realpath");
constinit NextFunction<RealPathFortified> next_realpath_chk("__realpath_chk");
constinit NextFunction<CanonicalName> next_canonical("canonicalize_file_name");
constinit NextFunction<ChangeDirectory> next_chdir("chdir");
constinit NextFunction<OpenDirectory> next_opendir("opendir");
constinit NextFunction<ScanDirectory> next_scandir("scandir"), next_scandir64("scandir64");
constinit NextFunction<OpenStream> next_fopen("fopen"), next_fopen64("fopen64");
constinit NextFunction<ReopenStream> next_freopen("freopen"), next_freopen64("freopen64");
constinit NextFunction<Access> next_eaccess("eaccess"), next_euidaccess("euidaccess");
constinit NextFunction<AboutFileSystem> next_statfs("statfs"), next_statfs64("statfs64"),
    next_statvfs("statvfs"), next_statvfs64("statvfs64");
constinit NextFunction<GetAttribute> next_getxattr("getxattr"), next_lgetxattr("lgetxattr");
constinit NextFunction<ListAttributes> next_listxattr("listxattr"), next_llistxattr("llistxattr");
constinit NextFunction<AddWatch> next_add_watch("inotify_add_watch");

template <typename... Functions>
void LookUp(Functions&... functions) {
  (static_cast<void>(functions.Get()), ...);
}

// Looked up here, so that no signal handler has to do it later.
__attribute__((constructor)) void LookUpAll() {
  LookUp(next_open, next_open64, next_open_2, next_open64_2, next_openat, next_openat64,
         next_openat_2, next_openat64_2, next_stat, next_stat64, next_lstat, next_lstat64,
         next_xstat, next_xstat64, next_lxstat, next_lxstat64, next_fstatat, next_fstatat64,
         next_statx, next_access, next_faccessat, next_readlink, next_readlinkat, next_realpath,
         next_realpath_chk, next_canonical, next_chdir, next_opendir, next_scandir, next_scandir64,
         next_fopen, next_fopen64, next_freopen, next_freopen64, next_eaccess, next_euidaccess,
         next_statfs, next_statfs64, next_statvfs, next_statvfs64, next_getxattr, next_lgetxattr,
         next_listxattr, next_llistxattr, next_add_watch);
}

/// The mode argument, which is there when `flags` make a file; 0 otherwise.
int ModeOf(int flags, va_list arguments) {
  const bool makes = (flags & O_CREAT) != 0 || (flags & O_TMPFILE) == O_TMPFILE;
  return makes ? va_arg(arguments, int) : 0;
}

/// Turns a path in the daemon's directory into the one that the kernel would have, as programs that
/// read the topology of a machine know it. It leads to the same file. Null stays null.
char* ToKernels(const ProgramPath& path, char* real) {
  if (real == nullptr || !path.is_ours()) return real;
  constexpr const char* kPlaces[] = {UROCE_TREE_SUFFIX UROCE_TREE_BUS,
                                     UROCE_TREE_SUFFIX UROCE_TREE_CLASS};
  for (const char* place : kPlaces) {
    const char* found = strstr(real, place);
    if (found == nullptr) continue;
    found += strlen(UROCE_TREE_SUFFIX);
    memmove(real, found, strlen(found) + 1);
    break;
  }
  return real;
}

/// The path to open. The node of the connection manager is the kernel's where OpenCm has left it to
/// the kernel: what the daemon has there can be listed, and takes no command.
const char* ToOpen(const ProgramPath& path) {
  return IsCmNode(path.given()) ? path.given() : path.get();
}

/// Like OpenCm, for all paths.
int OpenIfCm(const char* path, int flags) { return IsCmNode(path) ? OpenCm(flags) : kNotOurs; }

}  // namespace

extern "C" {

int HookOpen(const char* path, int flags, ...) __asm__("open");
int HookOpen64(const char* path, int flags, ...) __asm__("open64");
int HookOpenAt(int directory, const char* path, int flags, ...) __asm__("openat");
int HookOpenAt64(int directory, const char* path, int flags, ...) __asm__("openat64");
int HookOpen_2(const char* path, int flags) __asm__("__open_2");
int HookOpen64_2(const char* path, int flags) __asm__("__open64_2");
int HookOpenAt_2(int directory, const char* path, int flags) __asm__("__openat_2");
int HookOpenAt64_2(int directory, const char* path, int flags) __asm__("__openat64_2");
int HookStat(const char* path, void* status) __asm__("stat");
int HookStat64(const char* path, void* status) __asm__("stat64");
int HookLstat(const char* path, void* status) __asm__("lstat");
int HookLstat64(const char* path, void* status) __asm__("lstat64");
int HookXstat(int version, const char* path, void* status) __asm__("__xstat");
int HookXstat64(int version, const char* path, void* status) __asm__("__xstat64");
int HookLxstat(int version, const char* path, void* status) __asm__("__lxstat");
int HookLxstat64(int version, const char* path, void* status) __asm__("__lxstat64");
int HookFstatAt(int directory, const char* path, void* status, int flags) __asm__("fstatat");
int HookFstatAt64(int directory, const char* path, void* status, int flags) __asm__("fstatat64");
int HookStatx(int directory, const char* path, int flags, unsigned mask,
              void* status) __asm__("statx");
int HookAccess(const char* path, int mode) __asm__("access");
int HookAccessAt(int directory, const char* path, int mode, int flags) __asm__("faccessat");
ssize_t HookReadLink(const char* path, char* text, size_t room) __asm__("readlink");
ssize_t HookReadLinkAt(int directory, const char* path, char* text,
                       size_t room) __asm__("readlinkat");
char* HookRealPath(const char* path, char* place) __asm__("realpath");
char* HookRealPathFortified(const char* path, char* place, size_t room) __asm__("__realpath_chk");
char* HookCanonicalName(const char* path) __asm__("canonicalize_file_name");
int HookChangeDirectory(const char* path) __asm__("chdir");
void* HookOpenDirectory(const char* path) __asm__("opendir");
int HookScanDirectory(const char* path, void* list, void* filter, void* order) __asm__("scandir");
int HookScanDirectory64(const char* path, void* list, void* filter,
                        void* order) __asm__("scandir64");
FILE* HookOpenStream(const char* path, const char* mode) __asm__("fopen");
FILE* HookOpenStream64(const char* path, const char* mode) __asm__("fopen64");
FILE* HookReopenStream(const char* path, const char* mode, FILE* stream) __asm__("freopen");
FILE* HookReopenStream64(const char* path, const char* mode, FILE* stream) __asm__("freopen64");
int HookEffectiveAccess(const char* path, int mode) __asm__("eaccess");
int HookEffectiveUserAccess(const char* path, int mode) __asm__("euidaccess");
int HookStatFs(const char* path, void* status) __asm__("statfs");
int HookStatFs64(const char* path, void* status) __asm__("statfs64");
int HookStatVfs(const char* path, void* status) __asm__("statvfs");
int HookStatVfs64(const char* path, void* status) __asm__("statvfs64");
ssize_t HookGetAttribute(const char* path, const char* name, void* value,
                         size_t room) __asm__("getxattr");
ssize_t HookGetAttributeOfLink(const char* path, const char* name, void* value,
                               size_t room) __asm__("lgetxattr");
ssize_t HookListAttributes(const char* path, char* list, size_t room) __asm__("listxattr");
ssize_t HookListAttributesOfLink(const char* path, char* list, size_t room) __asm__("llistxattr");
int HookAddWatch(int fd, const char* path, uint32_t mask) __asm__("inotify_add_watch");

UROCE_EXPORT int HookOpen(const char* path, int flags, ...) {
  va_list arguments;
  va_start(arguments, flags);
  const int mode = ModeOf(flags, arguments);
  va_end(arguments);
  const int cm = OpenIfCm(path, flags);
  return cm != kNotOurs ? cm : next_open.Get()(ToOpen(ProgramPath(path)), flags, mode);
}

UROCE_EXPORT int HookOpen64(const char* path, int flags, ...) {
  va_list arguments;
  va_start(arguments, flags);
  const int mode = ModeOf(flags, arguments);
  va_end(arguments);
  const int cm = OpenIfCm(path, flags);
  return cm != kNotOurs ? cm : next_open64.Get()(ToOpen(ProgramPath(path)), flags, mode);
}

UROCE_EXPORT int HookOpenAt(int directory, const char* path, int flags, ...) {
  va_list arguments;
  va_start(arguments, flags);
  const int mode = ModeOf(flags, arguments);
  va_end(arguments);
  const int cm = OpenIfCm(path, flags);
  return cm != kNotOurs
             ? cm
             : next_openat.Get()(directory, ToOpen(ProgramPath(path, directory)), flags, mode);
}

UROCE_EXPORT int HookOpenAt64(int directory, const char* path, int flags, ...) {
  va_list arguments;
  va_start(arguments, flags);
  const int mode = ModeOf(flags, arguments);
  va_end(arguments);
  const int cm = OpenIfCm(path, flags);
  return cm != kNotOurs
             ? cm
             : next_openat64.Get()(directory, ToOpen(ProgramPath(path, directory)), flags, mode);
}

UROCE_EXPORT int HookOpen_2(const char* path, int flags) {
  const int cm = OpenIfCm(path, flags);
  return cm != kNotOurs ? cm : next_open_2.Get()(ToOpen(ProgramPath(path)), flags);
}
UROCE_EXPORT int HookOpen64_2(const char* path, int flags) {
  const int cm = OpenIfCm(path, flags);
  return cm != kNotOurs ? cm : next_open64_2.Get()(ToOpen(ProgramPath(path)), flags);
}
UROCE_EXPORT int HookOpenAt_2(int directory, const char* path, int flags) {
  const int cm = OpenIfCm(path, flags);
  return cm != kNotOurs
             ? cm
             : next_openat_2.Get()(directory, ToOpen(ProgramPath(path, directory)), flags);
}
UROCE_EXPORT int HookOpenAt64_2(int directory, const char* path, int flags) {
  const int cm = OpenIfCm(path, flags);
  return cm != kNotOurs
             ? cm
             : next_openat64_2.Get()(directory, ToOpen(ProgramPath(path, directory)), flags);
}

UROCE_EXPORT int HookStat(const char* path, void* status) {
  return next_stat.Get()(ProgramPath(path).get(), status);
}
UROCE_EXPORT int HookStat64(const char* path, void* status) {
  return next_stat64.Get()(ProgramPath(path).get(), status);
}
// Like ProgramPath::Follow.
UROCE_EXPORT int HookLstat(const char* path, void* status) {
  const ProgramPath used(path);
  return (used.is_node() ? next_stat : next_lstat).Get()(used.get(), status);
}
UROCE_EXPORT int HookLstat64(const char* path, void* status) {
  const ProgramPath used(path);
  return (used.is_node() ? next_stat64 : next_lstat64).Get()(used.get(), status);
}
UROCE_EXPORT int HookXstat(int version, const char* path, void* status) {
  return next_xstat.Get()(version, ProgramPath(path).get(), status);
}
UROCE_EXPORT int HookXstat64(int version, const char* path, void* status) {
  return next_xstat64.Get()(version, ProgramPath(path).get(), status);
}
UROCE_EXPORT int HookLxstat(int version, const char* path, void* status) {
  const ProgramPath used(path);
  return (used.is_node() ? next_xstat : next_lxstat).Get()(version, used.get(), status);
}
UROCE_EXPORT int HookLxstat64(int version, const char* path, void* status) {
  const ProgramPath used(path);
  return (used.is_node() ? next_xstat64 : next_lxstat64).Get()(version, used.get(), status);
}
UROCE_EXPORT int HookFstatAt(int directory, const char* path, void* status, int flags) {
  const ProgramPath used(path, directory);
  return next_fstatat.Get()(directory, used.get(), status, used.Follow(flags));
}
UROCE_EXPORT int HookFstatAt64(int directory, const char* path, void* status, int flags) {
  const ProgramPath used(path, directory);
  return next_fstatat64.Get()(directory, used.get(), status, used.Follow(flags));
}
UROCE_EXPORT int HookStatx(int directory, const char* path, int flags, unsigned mask,
                           void* status) {
  const ProgramPath used(path, directory);
  return next_statx.Get()(directory, used.get(), used.Follow(flags), mask, status);
}

UROCE_EXPORT int HookAccess(const char* path, int mode) {
  return next_access.Get()(ProgramPath(path).get(), mode);
}
UROCE_EXPORT int HookAccessAt(int directory, const char* path, int mode, int flags) {
  return next_faccessat.Get()(directory, ProgramPath(path, directory).get(), mode, flags);
}
UROCE_EXPORT ssize_t HookReadLink(const char* path, char* text, size_t room) {
  return next_readlink.Get()(ProgramPath(path).get(), text, room);
}
UROCE_EXPORT ssize_t HookReadLinkAt(int directory, const char* path, char* text, size_t room) {
  return next_readlinkat.Get()(directory, ProgramPath(path, directory).get(), text, room);
}
UROCE_EXPORT char* HookRealPath(const char* path, char* place) {
  const ProgramPath used(path);
  return ToKernels(used, next_realpath.Get()(used.get(), place));
}
UROCE_EXPORT char* HookRealPathFortified(const char* path, char* place, size_t room) {
  const ProgramPath used(path);
  return ToKernels(used, next_realpath_chk.Get()(used.get(), place, room));
}
UROCE_EXPORT char* HookCanonicalName(const char* path) {
  const ProgramPath used(path);
  return ToKernels(used, next_canonical.Get()(used.get()));
}
UROCE_EXPORT int HookChangeDirectory(const char* path) {
  return next_chdir.Get()(ProgramPath(path).get());
}
UROCE_EXPORT void* HookOpenDirectory(const char* path) {
  return next_opendir.Get()(ProgramPath(path).get());
}
UROCE_EXPORT int HookScanDirectory(const char* path, void* list, void* filter, void* order) {
  return next_scandir.Get()(ProgramPath(path).get(), list, filter, order);
}
UROCE_EXPORT int HookScanDirectory64(const char* path, void* list, void* filter, void* order) {
  return next_scandir64.Get()(ProgramPath(path).get(), list, filter, order);
}
UROCE_EXPORT FILE* HookOpenStream(const char* path, const char* mode) {
  return next_fopen.Get()(ProgramPath(path).get(), mode);
}
UROCE_EXPORT FILE* HookOpenStream64(const char* path, const char* mode) {
  return next_fopen64.Get()(ProgramPath(path).get(), mode);
}

UROCE_EXPORT FILE* HookReopenStream(const char* path, const char* mode, FILE* stream) {
  return next_freopen.Get()(ProgramPath(path).get(), mode, stream);
}
UROCE_EXPORT FILE* HookReopenStream64(const char* path, const char* mode, FILE* stream) {
  return next_freopen64.Get()(ProgramPath(path).get(), mode, stream);
}
UROCE_EXPORT int HookEffectiveAccess(const char* path, int mode) {
  return next_eaccess.Get()(ProgramPath(path).get(), mode);
}
UROCE_EXPORT int HookEffectiveUserAccess(const char* path, int mode) {
  return next_euidaccess.Get()(ProgramPath(path).get(), mode);
}
UROCE_EXPORT int HookStatFs(const char* path, void* status) {
  return next_statfs.Get()(ProgramPath(path).get(), status);
}
UROCE_EXPORT int HookStatFs64(const char* path, void* status) {
  return next_statfs64.Get()(ProgramPath(path).get(), status);
}
UROCE_EXPORT int HookStatVfs(const char* path, void* status) {
  return next_statvfs.Get()(ProgramPath(path).get(), status);
}
UROCE_EXPORT int HookStatVfs64(const char* path, void* status) {
  return next_statvfs64.Get()(ProgramPath(path).get(), status);
}
UROCE_EXPORT ssize_t HookGetAttribute(const char* path, const char* name, void* value,
                                      size_t room) {
  return next_getxattr.Get()(ProgramPath(path).get(), name, value, room);
}
// Like ProgramPath::Follow.
UROCE_EXPORT ssize_t HookGetAttributeOfLink(const char* path, const char* name, void* value,
                                            size_t room) {
  const ProgramPath used(path);
  return (used.is_node() ? next_getxattr : next_lgetxattr).Get()(used.get(), name, value, room);
}
UROCE_EXPORT ssize_t HookListAttributes(const char* path, char* list, size_t room) {
  return next_listxattr.Get()(ProgramPath(path).get(), list, room);
}
UROCE_EXPORT ssize_t HookListAttributesOfLink(const char* path, char* list, size_t room) {
  const ProgramPath used(path);
  return (used.is_node() ? next_listxattr : next_llistxattr).Get()(used.get(), list, room);
}
UROCE_EXPORT int HookAddWatch(int fd, const char* path, uint32_t mask) {
  return next_add_watch.Get()(fd, ProgramPath(path).get(), mask);
}

}  // extern "C"

// ---- dlopen ----
// Programs that dlopen libibverbs get its functions by dlsym of that handle, and dlsym does not
// search preloaded libraries then. So dlopen gives them a library that depends on ours and then on
// libibverbs: dlsym and dlvsym both search the dependencies in this order.

namespace {

/// Whether `path` names libibverbs: its name for linking, its soname, or the file behind them, such
/// as libibverbs.so.1.14.44.0.
bool IsVerbsLibrary(const char* path) {
  if (path == nullptr) return false;
  const char* slash = strrchr(path, '/');
  const char* name = slash == nullptr ? path : slash + 1;
  constexpr char kName[] = "libibverbs.so";
  constexpr size_t kLength = sizeof(kName) - 1;
  if (strncmp(name, kName, kLength) != 0) return false;
  const char* version = name + kLength;
  return *version == '\0' ||
         (strncmp(version, ".1", 2) == 0 && version[strspn(version, ".0123456789")] == '\0');
}

/// Whether programs may name the library so without a directory: each installation has it.
bool IsUsualName(const char* path) {
  return strcmp(path, "libibverbs.so") == 0 || strcmp(path, "libibverbs.so.1") == 0;
}

/// Opens the library with these dependencies, which lies beside ours. Null: the file is missing.
void* OpenFront(int flags) {
  Dl_info own = {};
  if (dladdr(reinterpret_cast<void*>(&OpenFront), &own) == 0 || own.dli_fname == nullptr) {
    return nullptr;
  }
  const char* slash = strrchr(own.dli_fname, '/');
  const int directory = slash == nullptr ? 0 : static_cast<int>(slash - own.dli_fname) + 1;
  char path[512];
  const int length =
      snprintf(path, sizeof(path), "%.*sliburoce-verbs.so", directory, own.dli_fname);
  if (length >= static_cast<int>(sizeof(path))) return nullptr;
  void* front = next_dlopen.Get()(path, flags);
  static bool was_said = false;
  if (front == nullptr && !__atomic_exchange_n(&was_said, true, __ATOMIC_RELAXED)) {
    Warn("%s cannot be loaded: a program that opens libibverbs by dlopen sees no devices of uroced",
         path);
  }
  return front;
}

/// Opens what stands for libibverbs; null: libibverbs itself cannot be opened as `path` and `flags`
/// say, or the library in front of it is missing.
void* OpenInPlaceOf(const char* path, int flags) {
  // A libibverbs named in an unusual way is loaded first, and then is also the dependency. With
  // RTLD_NOLOAD it must be loaded already: under its soname, whatever the name of its file.
  const bool must_be_loaded = (flags & RTLD_NOLOAD) != 0;
  if (!must_be_loaded && IsUsualName(path)) return OpenFront(flags);
  const char* name = must_be_loaded && IsUsualName(path) ? "libibverbs.so.1" : path;
  void* real = next_dlopen.Get()(name, flags);
  if (real == nullptr) return nullptr;
  void* front = OpenFront(flags & ~RTLD_NOLOAD);
  dlclose(real);
  return front;
}

}  // namespace

extern "C" {

void* HookDlopen(const char* path, int flags) __asm__("dlopen");

// The hook ends in a tail call: the real dlopen searches the RUNPATH of its caller.
__attribute__((optimize("optimize-sibling-calls"))) UROCE_EXPORT void* HookDlopen(const char* path,
                                                                                  int flags) {
  if (IsVerbsLibrary(path)) {
    void* front = OpenInPlaceOf(path, flags);
    if (front != nullptr) return front;
  }
  return next_dlopen.Get()(path, flags);
}

}  // extern "C"

}  // namespace uroce::shim
