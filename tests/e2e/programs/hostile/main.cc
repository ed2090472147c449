// SPDX-License-Identifier: Apache-2.0
// usage: hostile SOCKET SEED SECONDS: programs that attack the daemon, one after the other, each in
// its own process; some are killed at it. Exit status 1: the daemon did not serve one. usage:
// hostile SOCKET ATTACK: one attack of kAttacks. Exit status 1: it succeeded.
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <thread>

#include "tests/e2e/programs/hostile/attacks.h"

extern "C" {
#include "tests/e2e/programs/faulty_programs/stuck_file.h"
}

namespace uroce::hostile {
namespace {

constexpr int kServed = 0;
constexpr int kRefused = 1;

/// Attacks until the daemon hangs up or the life is over.
int Live(const std::string& socket_path, uint64_t seed, int stuck_fd) {
  Random random(seed);
  if (Below(random, 4) == 0) AttackHello(socket_path, random);
  Program program(socket_path, random);
  if (!program.Make()) return kRefused;
  if (Below(random, 2) == 0) AddCopies(program, random);
  std::thread writer([&program, seed] {
    Random its(seed + 1);
    for (int i = 0; i < 3000; ++i) AttackMemory(program, its);
  });
  bool served = true;
  const bool commands = Below(random, 2) == 0;
  for (int i = 0; i < 300 && served; ++i) {
    if (commands) served = AttackCommands(program, random);
    if (Below(random, 4) == 0) served = AttackFiles(program, random, stuck_fd) && served;
  }
  writer.join();
  return kServed;
}

/// Runs one life; now and then cuts it short.
int RunLife(const std::string& socket_path, uint64_t seed, int stuck_fd) {
  const pid_t child = fork();
  if (child == 0) _exit(Live(socket_path, seed, stuck_fd));
  if (seed % 3 == 0) {
    std::this_thread::sleep_for(std::chrono::milliseconds(seed % 20));
    kill(child, SIGKILL);
  }
  int status = 0;
  waitpid(child, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : kServed;
}

int RunAttack(const std::string& socket_path, const std::string& name) {
  for (const Attack& attack : kAttacks) {
    if (attack.name != name) continue;
    const std::string failure = attack.run(socket_path);
    std::fputs(failure.c_str(), stderr);
    return failure.empty() ? 0 : 1;
  }
  std::fprintf(stderr, "hostile: there is no attack %s\n", name.c_str());
  return 2;
}

}  // namespace
}  // namespace uroce::hostile

int main(int argc, char** argv) {
  if (argc == 3) return uroce::hostile::RunAttack(argv[1], argv[2]);
  if (argc != 4) {
    std::fputs("usage: hostile SOCKET SEED SECONDS | hostile SOCKET ATTACK\n", stderr);
    return 2;
  }
  uint64_t seed = std::strtoull(argv[2], nullptr, 0);
  const auto end =
      std::chrono::steady_clock::now() + std::chrono::seconds(std::strtoul(argv[3], nullptr, 0));
  const int stuck_fd = sf_open();
  uint64_t lives = 0;
  for (; std::chrono::steady_clock::now() < end; ++seed, ++lives) {
    if (uroce::hostile::RunLife(argv[1], seed, stuck_fd) != 0) {
      std::fprintf(stderr, "hostile: seed %lu: the daemon serves no more\n", seed);
      return 1;
    }
  }
  std::printf("hostile: %lu lives up to seed %lu\n", lives, seed);
}
