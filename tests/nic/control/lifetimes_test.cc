// SPDX-License-Identifier: Apache-2.0
// Generates programs that make, share, use and end objects of all kinds in random orders, and
// compares each answer of the daemon with a model of the rule in nic/objects/lifetimes.h.
// UROCE_LIFETIMES=N runs N lives, UROCE_LIFETIMES_SEED=N begins with that one.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <infiniband/verbs.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <map>
#include <memory>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "nic/net/address.h"
#include "nic/objects/contexts.h"
#include "nic/objects/nic.h"
#include "nic/objects/program.h"
#include "nic/settings/config.h"
#include "pipeline/datapath/memory/memory_keys.h"
#include "tests/nic/control/client.h"
#include "tests/nic/control/hand_daemon.h"
#include "tests/nic/control/memory/lending.h"
#include "tests/sim/environment.h"

namespace uroce::nic {
namespace {

// A handle that there is not is ENOENT, an object of another context EINVAL: what is met first.
bool IsRefusal(int error) { return error == ENOENT || error == EINVAL; }

HandDaemon* daemon_under_test = nullptr;
HandDaemon& Daemon() { return *daemon_under_test; }

// Programs hold few objects of a kind, so that handles come back soon.
constexpr uint32_t kMostOfKind = 4;

Limits SmallLimits() {
  Limits limits{.contexts = kMostOfKind, .pds = kMostOfKind, .channels = kMostOfKind};
  for (const KindRow& row : kKinds) {
    if (row.kind != Kind::kMrPart) limits.kinds.of(row.kind).of_program = kMostOfKind;
  }
  return limits;
}

/// What all lives have done.
uint64_t programs_begun = 0;
uint64_t commands_sent = 0;

// ---- the model ----

enum class Of : uint8_t { kContext, kPd, kChannel, kCq, kXrcd, kSrq, kTarget, kQp, kAh, kMr, kMw };
constexpr size_t kKindCount = 11;

/// A context that other contexts may be imported from, as long as it is open.
struct Origin {
  uint32_t program = 0;  ///< Its number.
  const struct Object* context = nullptr;
};

struct Object {
  Of kind = Of::kContext;
  uint32_t handle = 0;
  Object* context = nullptr;       ///< Of a context: itself.
  std::vector<Object*> uses = {};  ///< The context is one of them, if it is used directly.
  uint32_t users = 0;              ///< Windows that are bound to a region are users, too.
  /// Of a PD: its domain. Of an XRC domain: the domain. Of a target: the target.
  std::shared_ptr<char> identity = nullptr;
  std::shared_ptr<Origin> origin = nullptr;  ///< Of a context that was opened.
  bool is_imported = false;
  std::weak_ptr<Origin> imported_from = {};
  uint32_t maker = 0;        ///< Of an imported context: the number of the program.
  uint32_t number = 0;       ///< Key of a region or window, QPN of a target.
  Object* region = nullptr;  ///< To which a window is bound.
  bool is_attached = false;  ///< A queue pair, to a multicast group.
  bool is_xrc = false;       ///< A shared receive queue.
};

/// What a command names: an object, a handle that is none, or nothing.
struct Named {
  uint32_t handle = UROCE_NONE;
  Object* object = nullptr;
  bool is_left_out = false;
};

/// One program: its connection, and the model of its objects.
struct Side {
  explicit Side(uint32_t its_number) : number(its_number), client(Daemon().socket_path()) {
    hello = Call(UROCE_HELLO, uroce_hello{UROCE_ABI_VERSION, 0});
    id = Daemon().nic().programs().rbegin()->first;
    segment = Call(UROCE_CREATE_SEGMENT, uroce_create_segment{kAddr, kBytes}).handle();
  }
  template <typename T>
  Answer Call(uint32_t command, const T& body) {
    ++commands_sent;
    return Daemon().Call(client, command, body);
  }
  Answer Handle(uint32_t command, uint32_t handle) {
    return Call(command, uroce_handle{handle, 0});
  }
  Object* Find(Of kind, uint32_t handle) const {
    const auto found = objects.find({kind, handle});
    return found == objects.end() ? nullptr : found->second.get();
  }
  uint32_t CountOf(Of kind) const {
    return static_cast<uint32_t>(std::ranges::count_if(
        objects, [kind](const auto& entry) { return entry.first.first == kind; }));
  }
  /// XRC files are lent by the second socket.
  uint32_t LendFile(int fd) {
    const uroce_lend request{.what = UROCE_LEND_XRC_FILE};
    const int socket = hello.fds.at(1 + hello.As<uroce_hello_reply>().worker_count).get();
    SendLend(socket, request, fd, sizeof(request));
    uroce_lend_reply reply{};
    Daemon().TurnUntil([&] { return recv(socket, &reply, sizeof(reply), MSG_DONTWAIT) > 0; });
    return reply.segment;
  }

  static constexpr uint64_t kAddr = 0x10000;
  static constexpr uint64_t kBytes = 0x1000;
  const uint32_t number;
  ControlClient client;
  Answer hello;
  uint32_t id = 0;  ///< In the daemon.
  uint32_t segment = 0;
  std::map<std::pair<Of, uint32_t>, std::unique_ptr<Object>> objects;
};

/// How often a kind of objects met another kind that it uses, in all lives.
struct Meetings {
  uint64_t made = 0;     ///< The user was made.
  uint64_t foreign = 0;  ///< It was refused, since the other one is of another context.
  uint64_t held = 0;     ///< The end of the other one was refused.
  uint64_t ended = 0;    ///< Their context ended with both.
};
std::array<std::array<Meetings, kKindCount>, kKindCount> meetings;
Meetings& Meet(Of user, Of used) {
  return meetings[static_cast<size_t>(user)][static_cast<size_t>(used)];
}

/// The lives of some programs at a time.
class Life {
 public:
  explicit Life(uint64_t seed) : random_(seed) {
    for (Fd& file : files_) file = Fd(memfd_create("domain", MFD_CLOEXEC));
  }
  ~Life() {
    sides_.clear();
    AwaitPrograms();
  }
  Life(const Life&) = delete;
  Life& operator=(const Life&) = delete;

  void Step();

 private:
  using Maker = void (Life::*)(Side& side);

  uint64_t Below(uint64_t bound) { return random_() % bound; }
  bool OneIn(uint64_t count) { return Below(count) == 0; }
  Side& AnySide() { return *sides_[Below(sides_.size())]; }
  Side* SideOf(uint32_t number) const {
    const auto found =
        std::ranges::find(sides_, number, [](const auto& its) { return its->number; });
    return found == sides_.end() ? nullptr : found->get();
  }
  void AwaitPrograms() const {
    Daemon().TurnUntil([this] { return Daemon().server().connection_count() == sides_.size(); });
  }

  /// An object of the kind, seldom a handle that may name none.
  Named Any(const Side& side, Of kind);
  Named AnyOrNone(const Side& side, Of kind) {
    return OneIn(3) ? Named{.is_left_out = true} : Any(side, kind);
  }
  /// Compares the answer with what the rule says of an object that would use `used`, in the context
  /// of the first of them. Returns the object if it was made.
  Object* Judge(Side& side, Of kind, const Answer& answer, const std::vector<Named>& used);
  static Object* Add(Side& side, Object object);
  static Object* AddContext(Side& side, const Answer& answer);
  /// Gives a target that was made or opened its identity.
  void AddTarget(Object* made, const Answer& answer);
  static Answer Register(Side& side, uint32_t pd, uint32_t replaces);
  void Forget(Side& side, const Object& object);
  void LeaveWindows(const Object& region);

  void Begin();
  void EndOne();
  void MakeContext(Side& side);
  void ImportContext(Side& side);
  void MakePd(Side& side);
  void ImportPd(Side& side);
  void ImportMr(Side& side);
  void MakeChannel(Side& side);
  void MakeCq(Side& side);
  void ResizeCq(Side& side);
  void MakeXrcd(Side& side);
  void MakeSrq(Side& side);
  void MakeTarget(Side& side);
  void OpenTarget(Side& side);
  void MakeQp(Side& side);
  void Attach(Side& side);
  void MakeAh(Side& side);
  void MakeMr(Side& side);
  void ReplaceMr(Side& side);
  void MakeMw(Side& side);
  void BindMw(Side& side);
  void End(Side& side);
  void CloseContext(Side& side);

  /// What each step chooses from.
  static constexpr std::pair<Of, Maker> kMakers[] = {
      {Of::kContext, &Life::MakeContext}, {Of::kContext, &Life::ImportContext},
      {Of::kPd, &Life::MakePd},           {Of::kPd, &Life::ImportPd},
      {Of::kChannel, &Life::MakeChannel}, {Of::kCq, &Life::MakeCq},
      {Of::kXrcd, &Life::MakeXrcd},       {Of::kSrq, &Life::MakeSrq},
      {Of::kTarget, &Life::MakeTarget},   {Of::kTarget, &Life::OpenTarget},
      {Of::kQp, &Life::MakeQp},           {Of::kQp, &Life::MakeQp},
      {Of::kAh, &Life::MakeAh},           {Of::kMr, &Life::MakeMr},
      {Of::kMw, &Life::MakeMw},           {Of::kSrq, &Life::MakeSrq}};
  static constexpr Maker kOthers[] = {&Life::ImportMr,  &Life::ResizeCq, &Life::Attach,
                                      &Life::ReplaceMr, &Life::BindMw,   &Life::End,
                                      &Life::End,       &Life::End,      &Life::End};

  std::mt19937_64 random_;
  std::vector<std::unique_ptr<Side>> sides_;
  uint32_t last_number_ = 0;
  Fd files_[2];                                      ///< Of XRC domains.
  std::map<uint64_t, std::weak_ptr<char>> domains_;  ///< By file and device.
  /// Names of all contexts that were opened, also of those that are closed.
  std::vector<std::pair<uroce_context_name, std::weak_ptr<Origin>>> names_;
  std::map<uint32_t, std::weak_ptr<char>> targets_;  ///< By QPN.
};

void Life::Step() {
  if (sides_.empty() || (sides_.size() < 3 && OneIn(40))) return Begin();
  if (OneIn(100)) return EndOne();
  Side& side = AnySide();
  if (OneIn(32)) return CloseContext(side);
  const uint64_t choice = Below(std::size(kMakers) + std::size(kOthers));
  if (choice >= std::size(kMakers)) return (this->*kOthers[choice - std::size(kMakers)])(side);
  const auto& [kind, make] = kMakers[choice];
  if (side.CountOf(kind) < kMostOfKind) (this->*make)(side);
}

void Life::Begin() {
  ++programs_begun;
  sides_.push_back(std::make_unique<Side>(++last_number_));
}

void Life::EndOne() {
  const auto at = sides_.begin() + static_cast<ptrdiff_t>(Below(sides_.size()));
  for (const auto& [key, object] : (*at)->objects) LeaveWindows(*object);
  for (const auto& [key, object] : (*at)->objects) {
    if (object->region != nullptr) --object->region->users;
  }
  sides_.erase(at);
  AwaitPrograms();
}

Named Life::Any(const Side& side, Of kind) {
  std::vector<Object*> there;
  for (const auto& [key, object] : side.objects) {
    if (key.first == kind) there.push_back(object.get());
  }
  if (!there.empty() && !OneIn(12)) {
    Object* const object = there[Below(there.size())];
    return {.handle = object->handle, .object = object};
  }
  uint32_t handle = static_cast<uint32_t>(Below(2 * kMostOfKind));
  if (kind == Of::kTarget) handle |= 1u << 31;
  return {.handle = handle, .object = side.Find(kind, handle)};
}

Object* Life::Add(Side& side, Object object) {
  for (Object* const used : object.uses) {
    ++used->users;
    ++Meet(object.kind, used->kind).made;
  }
  const std::pair key{object.kind, object.handle};
  EXPECT_FALSE(side.objects.contains(key)) << "two objects with handle " << object.handle;
  return (side.objects[key] = std::make_unique<Object>(std::move(object))).get();
}

Object* Life::Judge(Side& side, Of kind, const Answer& answer, const std::vector<Named>& used) {
  Object made{.kind = kind, .handle = answer.handle()};
  bool all_there = true;
  for (const Named& its : used) {
    if (its.is_left_out) continue;
    all_there &= its.object != nullptr;
    if (its.object != nullptr) made.uses.push_back(its.object);
  }
  bool is_allowed = all_there;
  if (all_there) {
    made.context = made.uses[0]->context;
    for (const Object* its : made.uses) {
      if (its->context == made.context) continue;
      is_allowed = false;
      ++Meet(kind, its->kind).foreign;
    }
  }
  EXPECT_TRUE(is_allowed ? answer.error == 0 : IsRefusal(answer.error))
      << "kind " << static_cast<int>(kind) << ": " << answer.text;
  if (!is_allowed || answer.error != 0) return nullptr;
  return Add(side, std::move(made));
}

Object* Life::AddContext(Side& side, const Answer& answer) {
  EXPECT_EQ(answer.error, 0) << answer.text;
  if (answer.error != 0) return nullptr;
  Object* const made = Add(side, {.kind = Of::kContext, .handle = answer.handle()});
  return made->context = made;
}

// ---- what programs make ----

void Life::MakeContext(Side& side) {
  const auto device = static_cast<uint32_t>(Below(2));
  const Answer answer = side.Call(UROCE_OPEN_CONTEXT, uroce_open_context{device, 0});
  Object* const made = AddContext(side, answer);
  if (made == nullptr) return;
  uroce_context_name name{};
  EXPECT_EQ(pread(answer.fds.at(1).get(), &name, sizeof(name), 0), ssize_t{sizeof(name)});
  made->number = device;
  made->origin = std::make_shared<Origin>(Origin{side.number, made});
  names_.emplace_back(name, made->origin);
}

void Life::ImportContext(Side& side) {
  if (names_.empty()) return;
  const auto& [name, origin] = names_[Below(names_.size())];
  const Answer answer = side.Call(UROCE_IMPORT_CONTEXT, name);
  const std::shared_ptr<Origin> alive = origin.lock();
  if (alive == nullptr) {
    EXPECT_TRUE(IsRefusal(answer.error)) << "the import of a context that is closed";
    return;
  }
  Object* const made = AddContext(side, answer);
  if (made == nullptr) return;
  made->number = alive->context->number;
  made->is_imported = true;
  made->maker = alive->program;
  made->imported_from = alive;
}

void Life::MakePd(Side& side) {
  const Named context = Any(side, Of::kContext);
  Object* const made = Judge(side, Of::kPd, side.Handle(UROCE_ALLOC_PD, context.handle), {context});
  if (made != nullptr) made->identity = std::make_shared<char>();
}

void Life::ImportPd(Side& side) {
  const Named context = Any(side, Of::kContext);
  Side* const maker = context.object == nullptr ? nullptr : SideOf(context.object->maker);
  const Named there = Any(maker == nullptr ? side : *maker, Of::kPd);
  const Answer answer = side.Call(UROCE_IMPORT_PD, uroce_import{context.handle, there.handle});
  const std::shared_ptr<Origin> origin =
      context.object == nullptr ? nullptr : context.object->imported_from.lock();
  const bool is_allowed = maker != nullptr && origin != nullptr && there.object != nullptr &&
                          there.object->context == origin->context;
  if (!is_allowed) {
    EXPECT_TRUE(IsRefusal(answer.error)) << "the import of a PD, not of the imported context";
    return;
  }
  Object* const made = Judge(side, Of::kPd, answer, {context});
  if (made != nullptr) made->identity = there.object->identity;
}

void Life::ImportMr(Side& side) {
  const Named pd = Any(side, Of::kPd);
  Side* const maker = pd.object == nullptr ? nullptr : SideOf(pd.object->context->maker);
  const Named there = Any(maker == nullptr ? side : *maker, Of::kMr);
  const bool is_allowed = maker != nullptr && there.object != nullptr &&
                          there.object->uses[0]->identity == pd.object->identity;
  const int error = side.Call(UROCE_IMPORT_MR, uroce_import{pd.handle, there.handle}).error;
  EXPECT_TRUE(is_allowed ? error == 0 : IsRefusal(error)) << "the import of a region";
}

void Life::MakeChannel(Side& side) {
  const Named context = Any(side, Of::kContext);
  Judge(side, Of::kChannel, side.Handle(UROCE_CREATE_CHANNEL, context.handle), {context});
}

void Life::MakeCq(Side& side) {
  const Named context = Any(side, Of::kContext);
  const Named channel = AnyOrNone(side, Of::kChannel);
  const Answer answer =
      side.Call(UROCE_CREATE_CQ, uroce_create_cq{context.handle, 16, 1, channel.handle, 0});
  Judge(side, Of::kCq, answer, {context, channel});
}

void Life::ResizeCq(Side& side) {
  const Named cq = Any(side, Of::kCq);
  const auto cqe = static_cast<uint32_t>(16 << Below(3));
  EXPECT_EQ(side.Call(UROCE_RESIZE_CQ, uroce_resize_cq{cq.handle, cqe}).error,
            cq.object == nullptr ? ENOENT : 0);
}

void Life::MakeXrcd(Side& side) {
  const Named context = Any(side, Of::kContext);
  const uint64_t file = Below(3);
  const bool has_file = file < std::size(files_);
  const uint32_t lent = has_file ? side.LendFile(files_[file].get()) : UROCE_NONE;
  const Answer answer =
      side.Call(UROCE_OPEN_XRCD, uroce_open_xrcd{context.handle, lent, O_CREAT, 0});
  Object* const made = Judge(side, Of::kXrcd, answer, {context});
  if (made == nullptr) return;
  std::weak_ptr<char>& domain = domains_[2 * file + made->context->number];
  if (has_file) made->identity = domain.lock();
  if (made->identity == nullptr) domain = made->identity = std::make_shared<char>();
}

void Life::MakeSrq(Side& side) {
  const Named pd = Any(side, Of::kPd);
  const bool is_xrc = OneIn(2);
  const Named none{.is_left_out = true};
  const Named xrcd = is_xrc ? Any(side, Of::kXrcd) : none;
  const Named cq = is_xrc ? Any(side, Of::kCq) : none;
  const uint32_t type = is_xrc ? IBV_SRQT_XRC : IBV_SRQT_BASIC;
  const Answer answer = side.Call(
      UROCE_CREATE_SRQ, uroce_create_srq{pd.handle, 4, 1, 0, 1, type, xrcd.handle, cq.handle, 0});
  Object* const made = Judge(side, Of::kSrq, answer, {pd, xrcd, cq});
  if (made != nullptr) made->is_xrc = is_xrc;
}

void Life::AddTarget(Object* made, const Answer& answer) {
  if (made == nullptr) return;
  made->number = answer.As<uroce_target_reply>().qp_num;
  std::weak_ptr<char>& target = targets_[made->number];
  made->identity = target.lock();
  if (made->identity == nullptr) target = made->identity = std::make_shared<char>();
}

void Life::MakeTarget(Side& side) {
  const Named xrcd = Any(side, Of::kXrcd);
  const Answer answer = side.Call(UROCE_CREATE_TARGET, uroce_create_target{xrcd.handle, 0, 1});
  AddTarget(Judge(side, Of::kTarget, answer, {xrcd}), answer);
}

void Life::OpenTarget(Side& side) {
  if (targets_.empty()) return;
  const Named xrcd = Any(side, Of::kXrcd);
  const uint32_t qpn = std::next(targets_.begin(), ptrdiff_t(Below(targets_.size())))->first;
  const Answer answer = side.Call(UROCE_OPEN_TARGET, uroce_open_target{xrcd.handle, qpn, 1});
  const bool is_of_domain = std::ranges::any_of(sides_, [&](const auto& its) {
    return std::ranges::any_of(its->objects, [&](const auto& entry) {
      const Object& target = *entry.second;
      return target.kind == Of::kTarget && target.number == qpn && xrcd.object != nullptr &&
             target.uses[0]->identity == xrcd.object->identity;
    });
  });
  if (!is_of_domain) {
    EXPECT_TRUE(IsRefusal(answer.error)) << "a target of another domain";
    return;
  }
  AddTarget(Judge(side, Of::kTarget, answer, {xrcd}), answer);
}

void Life::MakeQp(Side& side) {
  const Named pd = Any(side, Of::kPd);
  const Named send_cq = Any(side, Of::kCq);
  const Named receive_cq = Any(side, Of::kCq);
  const Named srq = AnyOrNone(side, Of::kSrq);
  const Answer answer = side.Call(UROCE_CREATE_QP, uroce_create_qp{pd.handle,
                                                                   IBV_QPT_UD,
                                                                   send_cq.handle,
                                                                   receive_cq.handle,
                                                                   1,
                                                                   0,
                                                                   {1, 1, 1, 1, 0},
                                                                   srq.is_left_out ? 0u : 1u,
                                                                   srq.handle});
  if (srq.object != nullptr && srq.object->is_xrc) {
    EXPECT_TRUE(IsRefusal(answer.error)) << "a queue pair with a queue of an XRC domain";
    return;
  }
  Judge(side, Of::kQp, answer, {pd, send_cq, receive_cq, srq});
}

void Life::Attach(Side& side) {
  const Named qp = Any(side, Of::kQp);
  uroce_mcast request{qp.handle, 0, {}};
  const Gid group{{0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 239, 1, 2, 3}};
  std::ranges::copy(group.bytes, request.gid);
  const bool detaches = qp.object != nullptr && qp.object->is_attached;
  EXPECT_EQ(side.Call(detaches ? UROCE_DETACH_MCAST : UROCE_ATTACH_MCAST, request).error,
            qp.object == nullptr ? ENOENT : 0);
  if (qp.object != nullptr) qp.object->is_attached = !detaches;
}

void Life::MakeAh(Side& side) {
  const Named pd = Any(side, Of::kPd);
  uroce_create_ah request{pd.handle, {}};
  request.attr.is_global = 1;
  request.attr.port_num = 1;
  request.attr.sgid_index = 1;
  std::ranges::copy(ParseInterfaceAddress("10.0.0.2")->gid.bytes, request.attr.dgid);
  Judge(side, Of::kAh, side.Call(UROCE_CREATE_AH, request), {pd});
}

Answer Life::Register(Side& side, uint32_t pd, uint32_t replaces) {
  struct {
    uroce_reg_mr request;
    uroce_mr_segment segment;
  } message{};
  const uint32_t access = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_MW_BIND;
  message.request = {pd, access, Side::kAddr, Side::kBytes, Side::kAddr, 1, replaces};
  message.segment = {Side::kAddr, Side::kBytes, UROCE_MR_MAPPED, side.segment, 0, 0, 0};
  return side.Call(UROCE_REG_MR, message);
}

void Life::MakeMr(Side& side) {
  const Named pd = Any(side, Of::kPd);
  const Answer answer = Register(side, pd.handle, UROCE_NONE);
  Object* const made = Judge(side, Of::kMr, answer, {pd});
  if (made != nullptr) made->number = answer.As<uroce_reg_mr_reply>().lkey;
}

void Life::ReplaceMr(Side& side) {
  const Named pd = Any(side, Of::kPd);
  const Named mr = Any(side, Of::kMr);
  const Answer answer = Register(side, pd.handle, mr.handle);
  const bool is_there = pd.object != nullptr && mr.object != nullptr;
  if (!is_there || pd.object->context != mr.object->context) {
    EXPECT_TRUE(IsRefusal(answer.error)) << "the replacement of a region by one of another context";
    return;
  }
  ASSERT_EQ(answer.error, mr.object->users == 0 ? 0 : EBUSY) << answer.text;
  if (answer.error != 0) return;
  --mr.object->uses[0]->users;
  ++pd.object->users;
  mr.object->uses[0] = pd.object;
}

void Life::MakeMw(Side& side) {
  const Named pd = Any(side, Of::kPd);
  const Answer answer = side.Call(UROCE_ALLOC_MW, uroce_alloc_mw{pd.handle, IBV_MW_TYPE_1});
  Object* const made = Judge(side, Of::kMw, answer, {pd});
  if (made != nullptr) made->number = answer.As<uroce_alloc_mw_reply>().rkey;
}

// A worker would do it for a work of a queue pair. The region may be another program's.
void Life::BindMw(Side& side) {
  Side& other = AnySide();
  Object* const mw = Any(side, Of::kMw).object;
  Object* const mr = Any(other, Of::kMr).object;
  if (mw == nullptr || mr == nullptr) return;
  Program& program = *Daemon().nic().programs().at(side.id);
  const uint32_t pd = (*program.contexts().FindPd(mw->uses[0]->handle))->number();
  const datapath::WindowChange change = datapath::BindWindow(Daemon().nic().keys(),
                                                             {.addr = Side::kAddr,
                                                              .length_bytes = 64,
                                                              .window_key = mw->number,
                                                              .new_key = mw->number,
                                                              .region_key = mr->number,
                                                              .access = IBV_ACCESS_REMOTE_WRITE},
                                                             {.pd = pd, .qpn = 0});
  EXPECT_EQ(change.done, mw->uses[0]->identity == mr->uses[0]->identity);
  if (!change.done) return;
  if (mw->region != nullptr) --mw->region->users;
  mw->region = mr;
  ++mr->users;
  ++Meet(Of::kMw, Of::kMr).made;
}

// ---- and how it ends ----

/// The command that ends an object of each kind.
constexpr uint32_t kEnds[kKindCount] = {
    UROCE_CLOSE_CONTEXT, UROCE_DEALLOC_PD,  UROCE_DESTROY_CHANNEL, UROCE_DESTROY_CQ,
    UROCE_CLOSE_XRCD,    UROCE_DESTROY_SRQ, UROCE_DESTROY_QP,      UROCE_DESTROY_QP,
    UROCE_DESTROY_AH,    UROCE_DEREG_MR,    UROCE_DEALLOC_MW};

/// Windows that are bound to a region which is gone are bound to nothing.
void Life::LeaveWindows(const Object& region) {
  for (const auto& side : sides_) {
    for (const auto& [key, object] : side->objects) {
      if (object->region == &region) object->region = nullptr;
    }
  }
}

void Life::Forget(Side& side, const Object& object) {
  for (Object* const used : object.uses) --used->users;
  if (object.region != nullptr) --object.region->users;
  side.objects.erase({object.kind, object.handle});
}

void Life::End(Side& side) {
  const auto kind = static_cast<Of>(1 + Below(kKindCount - 1));
  const Named its = Any(side, kind);
  const Answer answer = side.Handle(kEnds[static_cast<size_t>(kind)], its.handle);
  if (its.object == nullptr) {
    EXPECT_EQ(answer.error, ENOENT) << "the end of what is not there";
    return;
  }
  const bool is_held = its.object->users != 0 || its.object->is_attached;
  EXPECT_EQ(answer.error, is_held ? EBUSY : 0)
      << "the end of kind " << static_cast<int>(kind) << ": " << answer.text;
  if (!is_held) return Forget(side, *its.object);
  for (const auto& [key, object] : side.objects) {
    if (std::ranges::find(object->uses, its.object) != object->uses.end() ||
        object->region == its.object) {
      ++Meet(object->kind, kind).held;
    }
  }
}

// All that is of the context ends with it, in use or not.
void Life::CloseContext(Side& side) {
  const Named its = Any(side, Of::kContext);
  const Answer answer = side.Handle(UROCE_CLOSE_CONTEXT, its.handle);
  EXPECT_EQ(answer.error, its.object == nullptr ? ENOENT : 0) << answer.text;
  if (its.object == nullptr) return;
  std::vector<Object*> ended;
  for (const auto& [key, object] : side.objects) {
    if (object->context == its.object) ended.push_back(object.get());
  }
  for (const Object* object : ended) {
    for (const Object* used : object->uses) ++Meet(object->kind, used->kind).ended;
    if (object->region != nullptr) ++Meet(Of::kMw, Of::kMr).ended;
  }
  std::ranges::reverse(ended);  // Users are of later kinds than what they use.
  for (const Object* object : ended) {
    LeaveWindows(*object);
    Forget(side, *object);
  }
}

// ---- the tests ----

class LifetimesTest : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    daemon_under_test = new HandDaemon(SmallLimits());
    daemon_under_test->StopWorkers();
  }
  static void TearDownTestSuite() { delete daemon_under_test; }
};

/// A kind of objects and one that it uses. Commands name the context of a new object by one of the
/// objects that it uses: all others may be foreign.
struct Pair {
  Of user;
  Of used;
  bool may_be_foreign = false;
};
constexpr Pair kPairs[] = {{Of::kPd, Of::kContext},
                           {Of::kChannel, Of::kContext},
                           {Of::kCq, Of::kContext},
                           {Of::kXrcd, Of::kContext},
                           {Of::kCq, Of::kChannel, true},
                           {Of::kSrq, Of::kPd},
                           {Of::kSrq, Of::kXrcd, true},
                           {Of::kSrq, Of::kCq, true},
                           {Of::kTarget, Of::kXrcd},
                           {Of::kQp, Of::kPd},
                           {Of::kQp, Of::kCq, true},
                           {Of::kQp, Of::kSrq, true},
                           {Of::kAh, Of::kPd},
                           {Of::kMr, Of::kPd},
                           {Of::kMw, Of::kPd},
                           {Of::kMw, Of::kMr}};

TEST_F(LifetimesTest, ObjectsOfAllKindsObeyTheRuleInAnyOrder) {
  constexpr int kSteps = 300;
  const uint64_t first = sim::FromEnvironment("UROCE_LIFETIMES_SEED", 1);
  const uint64_t count = sim::FromEnvironment("UROCE_LIFETIMES", 200);
  for (uint64_t seed = first; seed < first + count; ++seed) {
    {
      Life life(seed);
      for (int step = 0; step < kSteps && !HasFailure(); ++step) life.Step();
    }
    ASSERT_FALSE(HasFailure()) << "UROCE_LIFETIMES_SEED=" << seed << " UROCE_LIFETIMES=1";
    ASSERT_EQ(Daemon().Held(), "") << "UROCE_LIFETIMES_SEED=" << seed << " UROCE_LIFETIMES=1";
  }
  std::printf("%llu lives, %llu programs, %llu commands\n", static_cast<unsigned long long>(count),
              static_cast<unsigned long long>(programs_begun),
              static_cast<unsigned long long>(commands_sent));
  if (count < 100) return;
  for (const Pair& pair : kPairs) {
    const Meetings& its = Meet(pair.user, pair.used);
    SCOPED_TRACE(testing::Message() << "kind " << int(pair.user) << " uses " << int(pair.used));
    EXPECT_NE(its.made, 0u);
    EXPECT_NE(its.ended, 0u);
    EXPECT_EQ(its.held != 0, pair.used != Of::kContext);
    EXPECT_EQ(its.foreign != 0, pair.may_be_foreign);
  }
}

}  // namespace
}  // namespace uroce::nic
