// SPDX-License-Identifier: Apache-2.0
// Turns the bytes of a command into the arguments of a method, and the method's results into the
// bytes of the reply.
#pragma once

#include <cstdint>
#include <cstring>
#include <span>
#include <tuple>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "nic/base/reply.h"
#include "pipeline/os/fd.h"
#include "pipeline/shm/abi/uroce_commands.h"

namespace uroce::nic {

/// The bytes behind the header of a command.
using Body = std::span<const uint8_t>;

/// Adds a result to the reply: a handle, an object's description, or a list of these.
template <typename T>
void AddTo(Reply& reply, const T& value) {
  reply.Add(value);
}
inline void AddTo(Reply& reply, uint32_t handle) { reply.Add(uroce_handle{handle, 0}); }
template <typename T>
void AddTo(Reply& reply, const std::vector<T>& values) {
  for (const T& value : values) reply.Add(value);
}

inline absl::Status AddResult(absl::Status status, Reply&) { return status; }
template <typename T>
absl::Status AddResult(const absl::StatusOr<T>& result, Reply& reply) {
  if (result.ok()) AddTo(reply, *result);
  return result.status();
}

/// One argument of a method that a command calls, chosen by its type: `uint32_t`, a handle; `const
/// T&`, the structure of a command; `Body`, the list behind it; `Fd&`, an fd that goes with the
/// reply; `Reply&`, for other results. kBytes is the size of the argument in the command's body.
/// The size of the body is checked before.
template <typename T>
struct Argument;

template <>
struct Argument<uint32_t> {
  static constexpr size_t kBytes = sizeof(uroce_handle);
  Argument(Body body, size_t, Reply&) { std::memcpy(&structure, body.data(), sizeof(structure)); }
  uint32_t get() { return structure.handle; }
  void Finish(Reply&) {}
  uroce_handle structure;
};

template <typename T>
struct Argument<const T&> {
  static constexpr size_t kBytes = sizeof(T);
  Argument(Body body, size_t, Reply&) { std::memcpy(&structure, body.data(), sizeof(structure)); }
  const T& get() { return structure; }
  void Finish(Reply&) {}
  T structure;
};

template <>
struct Argument<Body> {
  static constexpr size_t kBytes = 0;
  Argument(Body body, size_t structure_bytes, Reply&) : list(body.subspan(structure_bytes)) {}
  Body get() { return list; }
  void Finish(Reply&) {}
  Body list;
};

template <>
struct Argument<Fd&> {
  static constexpr size_t kBytes = 0;
  Argument(Body, size_t, Reply&) {}
  Fd& get() { return fd; }
  void Finish(Reply& reply) { reply.Give(std::move(fd)); }
  Fd fd;
};

template <>
struct Argument<Reply&> {
  static constexpr size_t kBytes = 0;
  Argument(Body, size_t, Reply& its_reply) : reply(its_reply) {}
  Reply& get() { return reply; }
  void Finish(Reply&) {}
  Reply& reply;
};

/// Calls `kMethod` of a `Part` with the arguments of a command.
template <auto kMethod, typename Of, typename... Arguments>
struct MethodCall {
  using Part = Of;
  /// Size of the body; its minimum for a command with a list.
  static constexpr size_t kBodyBytes = (size_t{0} + ... + Argument<Arguments>::kBytes);
  static constexpr bool kHasList = (false || ... || std::is_same_v<Arguments, Body>);

  static absl::Status Run(Part& part, Body body, Reply& reply) {
    std::tuple<Argument<Arguments>...> arguments{Argument<Arguments>(body, kBodyBytes, reply)...};
    return std::apply(
        [&](auto&... argument) {
          absl::Status status = AddResult((part.*kMethod)(argument.get()...), reply);
          if (status.ok()) (argument.Finish(reply), ...);
          return status;
        },
        arguments);
  }
};

template <auto kMethod>
struct MethodOf;
template <typename Part, typename Result, typename... Arguments,
          Result (Part::*kMethod)(Arguments...)>
struct MethodOf<kMethod> : MethodCall<kMethod, Part, Arguments...> {};
template <typename Part, typename Result, typename... Arguments,
          Result (Part::*kMethod)(Arguments...) const>
struct MethodOf<kMethod> : MethodCall<kMethod, Part, Arguments...> {};

}  // namespace uroce::nic
