// SPDX-License-Identifier: Apache-2.0
// Sends a dump to the client that asked for it, piece by piece as the client reads.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <utility>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "nic/base/event_loop.h"
#include "nic/base/fd.h"
#include "nic/dumps/dump_context.h"

namespace uroce::nic {

/// Says what a dump holds. Control thread. Between two calls objects come and go.
class DumpSource {
 public:
  virtual ~DumpSource() = default;
  /// Appends the next piece, of some tens of kilobytes and at best less than a millisecond's work.
  /// False: that was the last.
  virtual bool Append(std::string& text) = 0;
};

/// As it goes out. A process may be named by any bytes: those that are no UTF-8 are replaced.
std::string JsonText(const nlohmann::ordered_json& json);

/// A text that is there already.
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
  /// Adds the next items; false: those were the last.
  virtual bool AppendItems(std::string& text) = 0;
  void AddItem(std::string& text, const nlohmann::ordered_json& item);
  /// What comes before an item that is written otherwise.
  void BeginItem(std::string& text);

 private:
  const std::string head_;
  bool has_begun_ = false;
  bool has_items_ = false;
};

/// Sends on a stream socket what the asker's user has time for in the turns of the loop. Whoever
/// does not read it has the daemon hold one piece. Control thread.
class DumpStream {
 public:
  /// `asker` outlives it. `done` is called at the end, also when nobody reads any more; it may
  /// destroy the stream. Errors: Internal, no socket.
  static absl::StatusOr<std::unique_ptr<DumpStream>> Start(const DumpContext& context,
                                                           const Client& asker,
                                                           std::unique_ptr<DumpSource> source,
                                                           Fd& reader, std::function<void()> done);
  ~DumpStream();
  DumpStream(const DumpStream&) = delete;
  DumpStream& operator=(const DumpStream&) = delete;

 private:
  DumpStream(const DumpContext& context, const Client& asker, std::unique_ptr<DumpSource> source,
             Fd socket, std::function<void()> done);
  void OnWritable();
  /// False: it is over.
  bool Continue(Nanos deadline);
  /// Among the connections of its user.
  uint64_t id() const;

  const DumpContext& context_;
  const Client& asker_;
  std::unique_ptr<DumpSource> source_;
  Fd socket_;
  std::function<void()> done_;
  EventLoop::Id watch_ = 0;
  std::string piece_;
  size_t sent_bytes_ = 0;  ///< Of the piece.
  bool is_last_ = false;
};

}  // namespace uroce::nic
