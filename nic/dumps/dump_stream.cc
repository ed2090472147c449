// SPDX-License-Identifier: Apache-2.0
#include "nic/dumps/dump_stream.h"

#include <sys/epoll.h>
#include <sys/socket.h>

#include <cerrno>
#include <nlohmann/json.hpp>

#include "absl/strings/str_cat.h"
#include "nic/base/user_limits.h"
#include "nic/objects/client.h"
#include "nic/objects/nic.h"
#include "pipeline/os/unix_socket.h"
#include "pipeline/shm/abi/uroce_commands.h"

namespace uroce::nic {

std::string JsonText(const nlohmann::ordered_json& json) {
  return json.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace);
}

ListSource::ListSource(absl::string_view name) : head_(absl::StrCat("{\"", name, "\":[")) {}

bool ListSource::Append(std::string& text) {
  if (!has_begun_) text += head_;
  has_begun_ = true;
  const bool has_more = AppendItems(text);
  if (!has_more) text += "]}";
  return has_more;
}

void ListSource::AddItem(std::string& text, const nlohmann::ordered_json& item) {
  BeginItem(text);
  text += JsonText(item);
}

void ListSource::BeginItem(std::string& text) {
  if (has_items_) text += ',';
  has_items_ = true;
}

absl::StatusOr<std::unique_ptr<DumpStream>> DumpStream::Start(const DumpContext& context,
                                                              const Client& asker,
                                                              std::unique_ptr<DumpSource> source,
                                                              Fd& reader,
                                                              std::function<void()> done) {
  absl::StatusOr<UserSocket> socket =
      UserSocket::Make("dump", UserSocket::Holds::kText, context.nic.user(asker.account()), reader);
  if (!socket.ok()) return socket.status();
  return std::unique_ptr<DumpStream>(
      new DumpStream(context, asker, std::move(source), *std::move(socket), std::move(done)));
}

DumpStream::DumpStream(const DumpContext& context, const Client& asker,
                       std::unique_ptr<DumpSource> source, UserSocket socket,
                       std::function<void()> done)
    : context_(context),
      asker_(asker),
      source_(std::move(source)),
      socket_(std::move(socket)),
      done_(std::move(done)) {
  watch_ = context_.loop.Watch(socket_.get(), EPOLLOUT, [this] { OnWritable(); });
}

DumpStream::~DumpStream() {
  context_.loop.Forget(watch_);
  context_.turns.Forget(asker_.account(), id());
}

uint64_t DumpStream::id() const { return uint64_t{1} << 32 | asker_.id(); }

void DumpStream::OnWritable() {
  const uid_t uid = asker_.account();
  const Nanos begin = Nic::Now();
  const Nanos deadline = context_.turns.Enter(uid, id(), context_.loop.turn(), begin);
  if (deadline <= begin) return;
  const bool goes_on = Continue(deadline);
  context_.turns.Leave(uid, Nic::Now() - begin);
  if (goes_on) return;
  const std::function<void()> done = std::move(done_);  // The callback may destroy this object.
  done();
}

bool DumpStream::Continue(Nanos deadline) {
  do {
    if (sent_bytes_ == piece_.size()) {
      if (is_last_) return false;
      piece_.clear();
      sent_bytes_ = 0;
      is_last_ = !source_->Append(piece_);
    }
    const ssize_t sent = send(socket_.get(), piece_.data() + sent_bytes_,
                              piece_.size() - sent_bytes_, MSG_DONTWAIT | MSG_NOSIGNAL);
    if (sent < 0) return errno == EAGAIN;
    sent_bytes_ += static_cast<size_t>(sent);
  } while (Nic::Now() < deadline);
  return true;
}

bool TablesSource::AppendItems(std::string& text) {
  for (const Client* client : context_.clients()) {
    if (client->id() < client_) continue;
    if (client->id() != client_) table_ = handle_ = 0;
    client_ = client->id();
    if (client->program() == nullptr || !asker_.MaySee(*client)) continue;
    if (!AppendAllOf(*client, text)) return true;
  }
  return false;
}

bool TablesSource::AppendAllOf(const Client& client, std::string& text) {
  while (table_ < tables_) {
    if (text.size() >= kPieceBytes) return false;
    handle_ = AddNext(client, table_, handle_, text);
    if (handle_ != UROCE_NONE) continue;
    ++table_;
    handle_ = 0;
  }
  return true;
}

}  // namespace uroce::nic
