// SPDX-License-Identifier: Apache-2.0
// Writers wait in a handler of SIGSEGV, and the program's own action for the signal is what it was.
#include "verbs-shim/memory/write_protection.h"

#include <gtest/gtest.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <ucontext.h>
#include <unistd.h>

#include <atomic>
#include <csetjmp>
#include <cstring>
#include <fstream>
#include <sstream>
#include <string>
#include <thread>

#include "verbs-shim/memory/segv_action.h"

namespace uroce::memory {
namespace {

constexpr uint64_t kWindowPages = 4;
constexpr uint64_t kWindowBytes = kWindowPages * kPageBytes;
constexpr int kReadWriteAccess = PROT_READ | PROT_WRITE;

/// What the program's handler has seen last.
struct Seen {
  std::atomic<int> calls = 0;
  void* address = nullptr;
  int code = 0;
  bool is_on_other_stack = false;
  sigset_t blocked;
};
Seen seen;
alignas(16) char other_stack[64 << 10];

void Note(const siginfo_t* info) {
  const char local = 0;
  ++seen.calls;
  seen.address = info->si_addr;
  seen.code = info->si_code;
  seen.is_on_other_stack = &local >= other_stack && &local < other_stack + sizeof(other_stack);
  sigprocmask(SIG_SETMASK, nullptr, &seen.blocked);
}

/// Allows what was forbidden, as collectors of garbage do.
void AllowAndNote(int, siginfo_t* info, void*) {
  Note(info);
  void* page = reinterpret_cast<void*>(PageDown(reinterpret_cast<uint64_t>(info->si_addr)));
  mprotect(page, kPageBytes, kReadWriteAccess);
}

sigjmp_buf escape;
void EscapeAndNote(int, siginfo_t* info, void*) {
  Note(info);
  siglongjmp(escape, 1);
}

KernelAction ActionOf(SegvHandler* handler, uint64_t flags, uint64_t mask = 0) {
  return {.handler = reinterpret_cast<uint64_t>(handler),
          .flags = flags | SA_SIGINFO,
          .restorer = 0,
          .mask = mask};
}

/// Whether a thread of the system is in a system call whose first argument is `word`.
bool SleepsInFutex(pid_t id, const void* word) {
  std::ifstream file("/proc/" + std::to_string(id) + "/syscall");
  std::string number, argument;
  file >> number >> argument;
  std::ostringstream address;
  address << "0x" << std::hex << reinterpret_cast<uint64_t>(word);
  return argument == address.str();
}

/// What the kernel tells a handler about a write to a page that allows reading alone.
ucontext_t ContextOfRefusedWrite() {
  ucontext_t context = {};
#if defined(__x86_64__)
  context.uc_mcontext.gregs[REG_TRAPNO] = 14;
  context.uc_mcontext.gregs[REG_ERR] = 7;
#else
  // A data abort of user space, a write, refused by the last level of the page table.
  const esr_context record{{ESR_MAGIC, sizeof(record)}, uint64_t{0x24} << 26 | 1 << 6 | 0x0f};
  memcpy(context.uc_mcontext.__reserved, &record, sizeof(record));
#endif
  return context;
}

class WriteWindowTest : public testing::Test {
 protected:
  void SetUp() override {
    ASSERT_TRUE(PrepareWriteWindows());
    SetAction({});
    seen.calls = 0;
    pages_ = Map();
    other_ = Map();
  }
  void TearDown() override {
    SetAction({});
    munmap(pages_, kWindowBytes);
    munmap(other_, kWindowBytes);
  }

  static uint8_t* Map() {
    return static_cast<uint8_t*>(
        mmap(nullptr, kWindowBytes, kReadWriteAccess, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
  }
  static void SetAction(const KernelAction& action) {
    ASSERT_TRUE(ChangeSegvAction(&action, nullptr));
  }
  AddressRange range() const {
    const auto start = reinterpret_cast<uint64_t>(pages_);
    return {start, start + kWindowBytes};
  }
  void Open() { ASSERT_EQ(OpenWriteWindow(range(), kReadWriteAccess), 0); }

  /// Starts a thread, and returns when it sleeps until the window closes.
  template <typename Work>
  std::thread StartAndAwaitSleep(Work work) {
    id_ = 0;
    has_ended_ = false;
    std::thread thread([this, work] {
      id_ = static_cast<pid_t>(syscall(SYS_gettid));
      work();
      has_ended_ = true;
    });
    const void* sequence = &FindFaultState()->sequence;
    while (!has_ended_ && (id_ == 0 || !SleepsInFutex(id_, sequence))) std::this_thread::yield();
    EXPECT_FALSE(has_ended_) << "It did not wait.";
    return thread;
  }

  uint8_t* pages_ = nullptr;
  uint8_t* other_ = nullptr;  // not in the window
  // Of the thread that was started last.
  std::atomic<pid_t> id_ = 0;
  std::atomic<bool> has_ended_ = false;
};

TEST_F(WriteWindowTest, AWriterWaitsAndWritesToWhatLiesThereThen) {
  pages_[0] = 1;
  Open();
  std::thread writer =
      StartAndAwaitSleep([this] { std::atomic_ref(pages_[kPageBytes]).fetch_add(5); });
  EXPECT_EQ(pages_[kPageBytes], 0) << "Reading goes on.";
  ASSERT_EQ(
      mmap(pages_, kWindowBytes, kReadWriteAccess, MAP_SHARED | MAP_ANONYMOUS | MAP_FIXED, -1, 0),
      pages_);
  pages_[kPageBytes] = 7;
  CloseWriteWindow(true);
  writer.join();
  EXPECT_EQ(pages_[kPageBytes], 12);
  EXPECT_EQ(pages_[0], 0);
}

TEST_F(WriteWindowTest, PagesThatStayGetTheirProtectionBack) {
  Open();
  std::thread writer = StartAndAwaitSleep([this] { pages_[1] = 5; });
  CloseWriteWindow(false);
  writer.join();
  EXPECT_EQ(pages_[1], 5);
}

TEST_F(WriteWindowTest, AWindowOfMissingPagesDoesNotOpen) {
  munmap(pages_ + kPageBytes, kPageBytes);
  EXPECT_NE(OpenWriteWindow(range(), kReadWriteAccess), 0);
  pages_[0] = 1;
  EXPECT_EQ(FindFaultState()->sequence % 2, 0u);
}

// The window is closed, and another handler would get what it never caused.
TEST_F(WriteWindowTest, AFaultThatIsDeliveredLateIsNotTheProgramsOwn) {
  SetAction(ActionOf(AllowAndNote, 0));
  struct sigaction front;
  ASSERT_EQ(sigaction(SIGSEGV, nullptr, &front), 0);
  siginfo_t info = {};
  info.si_code = SEGV_ACCERR;
  info.si_addr = pages_ + 11;
  ucontext_t context = ContextOfRefusedWrite();
  pages_[11] = 3;
  front.sa_sigaction(SIGSEGV, &info, &context);
  EXPECT_EQ(seen.calls, 0);
  EXPECT_EQ(pages_[11], 3) << "and the look has changed nothing";
  mprotect(pages_, kPageBytes, PROT_READ);
  front.sa_sigaction(SIGSEGV, &info, &context);
  EXPECT_EQ(seen.calls, 1) << "The program itself has forbidden this one.";
}

TEST_F(WriteWindowTest, TheProgramGetsItsOwnFaultsWhileAWindowIsOpen) {
  SetAction(ActionOf(AllowAndNote, 0));
  mprotect(other_, kPageBytes, PROT_READ);
  Open();
  *const_cast<volatile uint8_t*>(other_ + 8) = 9;
  CloseWriteWindow(false);
  EXPECT_EQ(seen.calls, 1);
  EXPECT_EQ(seen.address, other_ + 8);
  EXPECT_EQ(seen.code, SEGV_ACCERR);
  mprotect(pages_, kPageBytes, PROT_READ);
  *const_cast<volatile uint8_t*>(pages_ + 3) = 9;
  EXPECT_EQ(seen.calls, 2) << "after the window, in its pages";
  EXPECT_EQ(seen.address, pages_ + 3);
}

TEST_F(WriteWindowTest, AHandlerMayLeaveByAJump) {
  SetAction(ActionOf(EscapeAndNote, 0));
  mprotect(other_, kPageBytes, PROT_NONE);
  for (int i = 1; i <= 3; ++i) {
    if (sigsetjmp(escape, 1) == 0) (void)*const_cast<volatile uint8_t*>(other_ + 5);
    EXPECT_EQ(seen.calls, i);
    EXPECT_EQ(seen.address, other_ + 5);
  }
}

TEST_F(WriteWindowTest, AHandlerRunsOnTheStackThatItHasAskedFor) {
  const stack_t mine{.ss_sp = other_stack, .ss_flags = 0, .ss_size = sizeof(other_stack)};
  stack_t before;
  ASSERT_EQ(sigaltstack(&mine, &before), 0);
  for (const uint64_t flag : {uint64_t{SA_ONSTACK}, uint64_t{0}}) {
    SetAction(ActionOf(AllowAndNote, flag));
    mprotect(other_, kPageBytes, PROT_READ);
    *const_cast<volatile uint8_t*>(other_) = 1;
    EXPECT_EQ(seen.is_on_other_stack, flag != 0);
  }
  ASSERT_EQ(sigaltstack(&before, nullptr), 0);
}

TEST_F(WriteWindowTest, AHandlerHasTheSignalMaskThatItHasAskedFor) {
  for (const uint64_t flag : {uint64_t{0}, uint64_t{SA_NODEFER}}) {
    SetAction(ActionOf(AllowAndNote, flag, 1 << (SIGUSR1 - 1)));
    mprotect(other_, kPageBytes, PROT_READ);
    *const_cast<volatile uint8_t*>(other_) = 1;
    EXPECT_EQ(sigismember(&seen.blocked, SIGUSR1), 1);
    EXPECT_EQ(sigismember(&seen.blocked, SIGSEGV), flag == 0);
  }
}

TEST_F(WriteWindowTest, AHandlerForOneTimeIsOneForOneTime) {
  SetAction(ActionOf(AllowAndNote, SA_RESETHAND));
  for (int window = 0; window < 2; ++window) {  // Faults of windows are not the one.
    Open();
    std::thread early = StartAndAwaitSleep([this] { pages_[1] = 5; });
    CloseWriteWindow(false);
    early.join();
  }
  EXPECT_EQ(seen.calls, 0);
  mprotect(other_, kPageBytes, PROT_READ);
  *const_cast<volatile uint8_t*>(other_) = 1;
  EXPECT_EQ(seen.calls, 1);
  KernelAction now;
  ASSERT_TRUE(ChangeSegvAction(nullptr, &now));
  EXPECT_EQ(now.handler, 0u);
  Open();  // Ours is still there.
  std::thread writer = StartAndAwaitSleep([this] { pages_[1] = 5; });
  CloseWriteWindow(false);
  writer.join();
}

TEST_F(WriteWindowTest, TheProgramSeesItsOwnActions) {
  const KernelAction mine = ActionOf(EscapeAndNote, SA_RESTART | SA_ONSTACK, 0x200);
  SetAction(mine);
  KernelAction told;
  const KernelAction next = ActionOf(AllowAndNote, 0);
  ASSERT_TRUE(ChangeSegvAction(&next, &told));
  EXPECT_EQ(memcmp(&told, &mine, sizeof(mine)), 0);
  ASSERT_TRUE(ChangeSegvAction(nullptr, &told));
  EXPECT_EQ(memcmp(&told, &next, sizeof(next)), 0);
}

TEST_F(WriteWindowTest, WhatIsSaidToTheKernelItselfIsTakenOver) {
  struct sigaction action = {};
  action.sa_sigaction = AllowAndNote;
  action.sa_flags = SA_SIGINFO;
  ASSERT_EQ(sigaction(SIGSEGV, &action, nullptr), 0) << "libc's own, without hooks";
  ASSERT_TRUE(PrepareWriteWindows());
  mprotect(other_, kPageBytes, PROT_READ);
  *const_cast<volatile uint8_t*>(other_) = 1;
  EXPECT_EQ(seen.calls, 1);
  Open();
  std::thread writer = StartAndAwaitSleep([this] { pages_[1] = 5; });
  CloseWriteWindow(false);
  writer.join();
  EXPECT_EQ(seen.calls, 1);
}

TEST_F(WriteWindowTest, AnActionIsChangedWhenNoWindowIsOpen) {
  Open();
  std::thread changer = StartAndAwaitSleep([] { SetAction(ActionOf(AllowAndNote, 0)); });
  KernelAction front;
  syscall(SYS_rt_sigaction, SIGSEGV, nullptr, &front, 8);
  CloseWriteWindow(false);
  changer.join();
  KernelAction now;
  ASSERT_TRUE(ChangeSegvAction(nullptr, &now));
  EXPECT_EQ(now.handler, reinterpret_cast<uint64_t>(AllowAndNote));
  EXPECT_NE(front.handler, now.handler);
}

/// How a child ends that does `work`: its exit status, or its signal and 1000.
template <typename Work>
int EndOf(Work work) {
  const pid_t child = fork();
  if (child == 0) {
    work();
    _exit(0);
  }
  int status = 0;
  waitpid(child, &status, 0);
  return WIFSIGNALED(status) ? 1000 + WTERMSIG(status) : WEXITSTATUS(status);
}

// By default, and also when it is ignored, a fault ends the program; a signal that a process sent
// only by default.
TEST_F(WriteWindowTest, WithoutAHandlerASignalHasItsUsualEnd) {
  const auto fault = [this] {
    mprotect(other_, kPageBytes, PROT_READ);
    *const_cast<volatile uint8_t*>(other_) = 1;
  };
  EXPECT_EQ(EndOf(fault), 1000 + SIGSEGV);
  EXPECT_EQ(EndOf([] { *reinterpret_cast<volatile int*>(8) = 1; }), 1000 + SIGSEGV);
  EXPECT_EQ(EndOf([] { kill(getpid(), SIGSEGV); }), 1000 + SIGSEGV);
  EXPECT_EQ(EndOf([] { abort(); }), 1000 + SIGABRT);
  KernelAction ignored{};
  ignored.handler = reinterpret_cast<uint64_t>(SIG_IGN);
  SetAction(ignored);
  EXPECT_EQ(EndOf(fault), 1000 + SIGSEGV);
  EXPECT_EQ(EndOf([] { kill(getpid(), SIGSEGV); }), 0);
  EXPECT_FALSE(PrepareWriteWindows()) << "what it would start would not ignore it any more";
  SetAction({});
  EXPECT_TRUE(PrepareWriteWindows());
}

// vfork's child is such a one: it waits as a thread does.
TEST_F(WriteWindowTest, AChildThatSharesTheMemoryWaits) {
  Open();
  const auto write_a_byte = [](void* page) {
    *static_cast<volatile uint8_t*>(page) = 6;
    return 0;
  };
  const pid_t child =
      clone(write_a_byte, other_stack + sizeof(other_stack), CLONE_VM | SIGCHLD, pages_);
  ASSERT_GT(child, 0);
  const void* sequence = &FindFaultState()->sequence;
  int status = 0;
  while (!SleepsInFutex(child, sequence))
    ASSERT_EQ(waitpid(child, &status, WNOHANG), 0) << "It did not wait.";
  EXPECT_EQ(pages_[0], 0);
  CloseWriteWindow(false);
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
  EXPECT_EQ(pages_[0], 6);
}

// clone(2) runs no handler of pthread_atfork, and copies a window that no thread closes there.
TEST_F(WriteWindowTest, AChildOfAnOpenWindowWritesToItsOwnPages) {
  Open();
  const auto child = static_cast<pid_t>(syscall(SYS_clone, SIGCHLD, nullptr, nullptr, nullptr, 0));
  if (child == 0) {
    pages_[0] = 1;
    pages_[kWindowBytes - 1] = 2;
    const bool is_open_here = FindFaultState()->sequence != 0;
    const bool is_ready = PrepareWriteWindows();
    _exit(pages_[0] == 1 && is_ready && !is_open_here ? 0 : 1);
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
  EXPECT_EQ(FindFaultState()->sequence % 2, 1u);
  CloseWriteWindow(false);
  EXPECT_EQ(pages_[0], 0);
}

TEST_F(WriteWindowTest, AChildThatWritesLaterHasItsPagesToo) {
  Open();
  const auto child = static_cast<pid_t>(syscall(SYS_clone, SIGCHLD, nullptr, nullptr, nullptr, 0));
  if (child == 0) {
    const bool is_ready = PrepareWriteWindows();
    pages_[0] = 1;
    _exit(is_ready ? 0 : 1);
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
  CloseWriteWindow(false);
}

}  // namespace
}  // namespace uroce::memory
