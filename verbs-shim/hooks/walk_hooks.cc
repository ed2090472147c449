// SPDX-License-Identifier: Apache-2.0
// Hooks on libc's functions that read whole directories: libc does not call its own functions of
// paths by their names, so path_hooks.cc does not see what these read.
//
// The hooks have their own names in C++, and libc's names as labels, as in path_hooks.cc.
#include <dirent.h>
#include <fts.h>
#include <ftw.h>
#include <glob.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "verbs-shim/hooks/redirected_path.h"
#include "verbs-shim/real_library.h"
#include "verbs-shim/support.h"

namespace uroce::shim {
namespace {

// On 64-bit machines the functions with and without 64 have the same structures.
static_assert(sizeof(glob_t) == sizeof(glob64_t));
static_assert(sizeof(struct stat) == sizeof(struct stat64));

using OnGlobError = int(const char*, int);
using Glob = int(const char*, int, OnGlobError*, glob_t*);
using OnWalked = int(const char*, const struct stat*, int, FTW*);
using Walk = int(const char*, OnWalked*, int, int);
using OnSimplyWalked = int(const char*, const struct stat*, int);
using SimpleWalk = int(const char*, OnSimplyWalked*, int);
using OpenWalk = void*(char* const*, int, void*);

constinit NextFunction<Glob> next_glob("glob"), next_glob64("glob64");
constinit NextFunction<Walk> next_nftw("nftw"), next_nftw64("nftw64");
constinit NextFunction<SimpleWalk> next_ftw("ftw"), next_ftw64("ftw64");
constinit NextFunction<OpenWalk> next_fts_open("fts_open"), next_fts64_open("fts64_open");

// ---- glob ----

/// Has libc read by the functions that path_hooks.cc catches. A program that passes its own
/// functions is left alone.
int GlobOurs(NextFunction<Glob>& next, const char* pattern, int flags, OnGlobError* on_error,
             glob_t* found) {
  if ((flags & GLOB_ALTDIRFUNC) != 0 || !ProgramPath::MayBeOurs(pattern)) {
    return next.Get()(pattern, flags, on_error, found);
  }
  found->gl_opendir = [](const char* path) -> void* { return opendir(path); };
  found->gl_readdir = [](void* directory) { return readdir(static_cast<DIR*>(directory)); };
  found->gl_closedir = [](void* directory) { closedir(static_cast<DIR*>(directory)); };
  found->gl_stat = stat;
  found->gl_lstat = lstat;
  const int result = next.Get()(pattern, flags | GLOB_ALTDIRFUNC, on_error, found);
  found->gl_flags &= ~GLOB_ALTDIRFUNC;
  return result;
}

// ---- ftw ----

/// A walk that this thread is in: the program learns paths that begin as it has said.
struct Walking {
  const char* given;
  size_t given_length;
  size_t used_length;
  OnWalked* on_walked;
  OnSimplyWalked* on_simply_walked;
};
thread_local const Walking* t_walking = nullptr;

/// Without slashes at the end, which libc leaves out, too.
size_t LengthOf(const char* path) {
  size_t length = strlen(path);
  while (length > 1 && path[length - 1] == '/') --length;
  return length;
}

/// Writes the path that the program knows. False: it is too long.
bool ToGiven(const char* path, char (&place)[PATH_MAX]) {
  const Walking& walking = *t_walking;
  const char* rest = path + walking.used_length;
  const size_t rest_length = strlen(rest);
  if (walking.given_length + rest_length >= sizeof(place)) return false;
  memcpy(place, walking.given, walking.given_length);
  memcpy(place + walking.given_length, rest, rest_length + 1);
  return true;
}

int OnEntry(const char* path, const struct stat* status, int type, FTW* place) {
  const Walking* walking = t_walking;
  char given[PATH_MAX];
  if (!ToGiven(path, given)) return walking->on_walked(path, status, type, place);
  FTW moved = *place;
  moved.base += static_cast<int>(walking->given_length) - static_cast<int>(walking->used_length);
  if (place->level == 0) {
    const char* slash = strrchr(given, '/');
    moved.base = slash == nullptr ? 0 : static_cast<int>(slash - given) + 1;
  }
  const int result = walking->on_walked(given, status, type, &moved);
  t_walking = walking;  // The program may have walked elsewhere.
  return result;
}

int OnSimpleEntry(const char* path, const struct stat* status, int type) {
  const Walking* walking = t_walking;
  char given[PATH_MAX];
  const char* known = ToGiven(path, given) ? given : path;
  const int result = walking->on_simply_walked(known, status, type);
  t_walking = walking;
  return result;
}

int WalkOurs(NextFunction<Walk>& next, const char* path, OnWalked* on_walked, int fds, int flags) {
  const ProgramPath used(path);
  if (!used.is_ours()) return next.Get()(path, on_walked, fds, flags);
  const Walking walking{path, LengthOf(path), LengthOf(used.get()), on_walked, nullptr};
  const Walking* outer = t_walking;
  t_walking = &walking;
  const int result = next.Get()(used.get(), OnEntry, fds, flags);
  t_walking = outer;
  return result;
}

int WalkOursSimply(NextFunction<SimpleWalk>& next, const char* path, OnSimplyWalked* on_walked,
                   int fds) {
  const ProgramPath used(path);
  if (!used.is_ours()) return next.Get()(path, on_walked, fds);
  const Walking walking{path, LengthOf(path), LengthOf(used.get()), nullptr, on_walked};
  const Walking* outer = t_walking;
  t_walking = &walking;
  const int result = next.Get()(used.get(), OnSimpleEntry, fds);
  t_walking = outer;
  return result;
}

// ---- fts ----

/// Paths of its entries begin in the daemon's directory: programs open them, and seldom read them.
void* OpenWalkOurs(NextFunction<OpenWalk>& next, char* const* paths, int flags, void* order) {
  size_t count = 0;
  bool may_be_ours = false;
  for (; paths[count] != nullptr; ++count) {
    may_be_ours = may_be_ours || ProgramPath::MayBeOurs(paths[count]);
  }
  if (!may_be_ours) return next.Get()(paths, flags, order);
  auto** used = static_cast<char**>(calloc(count + 1, sizeof(char*)));
  if (used == nullptr) return FailWith(ENOMEM);
  bool has_all = true;
  for (size_t i = 0; i < count; ++i) {
    used[i] = strdup(ProgramPath(paths[i]).get());
    has_all = has_all && used[i] != nullptr;
  }
  void* walk = has_all ? next.Get()(used, flags, order) : FailWith(ENOMEM);
  const ErrnoKeeper keeper;
  for (size_t i = 0; i < count; ++i) free(used[i]);
  free(used);
  return walk;
}

}  // namespace

extern "C" {

int HookGlob(const char* pattern, int flags, OnGlobError* on_error, glob_t* found) __asm__("glob");
int HookGlob64(const char* pattern, int flags, OnGlobError* on_error,
               glob_t* found) __asm__("glob64");
int HookNftw(const char* path, OnWalked* on_walked, int fds, int flags) __asm__("nftw");
int HookNftw64(const char* path, OnWalked* on_walked, int fds, int flags) __asm__("nftw64");
int HookFtw(const char* path, OnSimplyWalked* on_walked, int fds) __asm__("ftw");
int HookFtw64(const char* path, OnSimplyWalked* on_walked, int fds) __asm__("ftw64");
void* HookOpenWalk(char* const* paths, int flags, void* order) __asm__("fts_open");
void* HookOpenWalk64(char* const* paths, int flags, void* order) __asm__("fts64_open");

UROCE_EXPORT int HookGlob(const char* pattern, int flags, OnGlobError* on_error, glob_t* found) {
  return GlobOurs(next_glob, pattern, flags, on_error, found);
}
UROCE_EXPORT int HookGlob64(const char* pattern, int flags, OnGlobError* on_error, glob_t* found) {
  return GlobOurs(next_glob64, pattern, flags, on_error, found);
}
UROCE_EXPORT int HookNftw(const char* path, OnWalked* on_walked, int fds, int flags) {
  return WalkOurs(next_nftw, path, on_walked, fds, flags);
}
UROCE_EXPORT int HookNftw64(const char* path, OnWalked* on_walked, int fds, int flags) {
  return WalkOurs(next_nftw64, path, on_walked, fds, flags);
}
UROCE_EXPORT int HookFtw(const char* path, OnSimplyWalked* on_walked, int fds) {
  return WalkOursSimply(next_ftw, path, on_walked, fds);
}
UROCE_EXPORT int HookFtw64(const char* path, OnSimplyWalked* on_walked, int fds) {
  return WalkOursSimply(next_ftw64, path, on_walked, fds);
}
UROCE_EXPORT void* HookOpenWalk(char* const* paths, int flags, void* order) {
  return OpenWalkOurs(next_fts_open, paths, flags, order);
}
UROCE_EXPORT void* HookOpenWalk64(char* const* paths, int flags, void* order) {
  return OpenWalkOurs(next_fts64_open, paths, flags, order);
}

}  // extern "C"

}  // namespace uroce::shim
