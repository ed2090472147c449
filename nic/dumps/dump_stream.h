// SPDX-License-Identifier: Apache-2.0
// Dumps as their texts are made and sent: in pieces, as the client that asked for the dump reads;
// lists of the objects in tables of programs.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "nic/base/event_loop.h"
#include "nic/objects/resources.h"
#include "pipeline/os/fd.h"

namespace uroce {

class EventLoop;
class UserTurns;

}  // namespace uroce

namespace uroce::nic {

class Client;
class HistoryRecorder;
class Nic;
class NegotiationHost;
class RdmaCmHost;

/// The parts of the daemon that dumps read. All references outlive every dump.
struct DumpContext {
  EventLoop& loop;
  Nic& nic;
  UserTurns& turns;
  const RdmaCmHost& rdma_cm;
  const NegotiationHost& peers;
  const HistoryRecorder& histories;
  /// Returns all clients in the order of their ids.
  std::function<std::vector<const Client*>()> clients;
};

/// Produces the text of a dump. Control thread. Objects may come and go between two calls.
class DumpSource {
 public:
  virtual ~DumpSource() = default;
  /// Appends the next piece: some tens of kilobytes, normally less than a millisecond's work.
  /// Returns false after the last piece.
  virtual bool Append(std::string& text) = 0;
};

/// Serializes `json`. Process names can be any bytes: invalid UTF-8 is replaced.
std::string JsonText(const nlohmann::ordered_json& json);

/// A dump whose whole text is ready.
class TextSource : public DumpSource {
 public:
  explicit TextSource(std::string text) : text_(std::move(text)) {}
  bool Append(std::string& text) override {
    text += text_;
    return false;
  }

 private:
  std::string text_;
};

/// JSON: {"name":[item,item]}.
class ListSource : public DumpSource {
 public:
  explicit ListSource(absl::string_view name);
  bool Append(std::string& text) final;

 protected:
  static constexpr size_t kPieceBytes = 32 << 10;
  /// Adds the next items. Returns false after the last ones.
  virtual bool AppendItems(std::string& text) = 0;
  void AddItem(std::string& text, const nlohmann::ordered_json& item);
  /// Writes what precedes an item, for items that AddItem does not write.
  void BeginItem(std::string& text);

 private:
  const std::string head_;
  bool has_begun_ = false;
  bool has_items_ = false;
};

/// Sends a dump on a stream socket, within the user's turns of the loop. If the client does not
/// read, the daemon holds one piece. Control thread.
class DumpStream {
 public:
  /// `asker` outlives the stream. `done` is called at the end, also when the client stops reading;
  /// it may destroy the stream. Errors: ResourceExhausted; Internal, no socket.
  static absl::StatusOr<std::unique_ptr<DumpStream>> Start(const DumpContext& context,
                                                           const Client& asker,
                                                           std::unique_ptr<DumpSource> source,
                                                           Fd& reader, std::function<void()> done);
  ~DumpStream();
  DumpStream(const DumpStream&) = delete;
  DumpStream& operator=(const DumpStream&) = delete;

 private:
  DumpStream(const DumpContext& context, const Client& asker, std::unique_ptr<DumpSource> source,
             UserSocket socket, std::function<void()> done);
  void OnWritable();
  /// Returns false when the dump is over.
  bool Continue(Nanos deadline);
  /// Identifies the stream among the connections of its user.
  uint64_t id() const;

  const DumpContext& context_;
  const Client& asker_;
  std::unique_ptr<DumpSource> source_;
  UserSocket socket_;
  std::function<void()> done_;
  EventLoop::Id watch_ = 0;
  std::string piece_;
  size_t sent_bytes_ = 0;  ///< Of `piece_`.
  bool is_last_ = false;
};

/// A dump of the objects in tables of programs.
/// JSON: {"name":[item,item]}, for the programs that the asker may see. Iterates over one or
/// several tables of each program. Programs and objects may come and go between two pieces.
class TablesSource : public ListSource {
 public:
  TablesSource(absl::string_view name, const DumpContext& context, const Client& asker,
               uint32_t tables = 1)
      : ListSource(name), context_(context), asker_(asker), tables_(tables) {}

 protected:
  /// Adds the object with this handle, or the next one, of the program's table number `table`.
  /// Returns the handle at which to continue, or UROCE_NONE after the last.
  virtual uint32_t AddNext(const Client& client, uint32_t table, uint32_t handle,
                           std::string& text) = 0;
  const DumpContext& context() const { return context_; }

 private:
  bool AppendItems(std::string& text) final;
  /// Returns false when the piece is full.
  bool AppendAllOf(const Client& client, std::string& text);

  const DumpContext& context_;
  const Client& asker_;
  const uint32_t tables_;
  uint32_t client_ = 0;  ///< Where to continue, as are the next two.
  uint32_t table_ = 0;
  uint32_t handle_ = 0;
};

}  // namespace uroce::nic
