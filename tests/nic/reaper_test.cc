// SPDX-License-Identifier: Apache-2.0
#include "nic/resources/reaper.h"

#include <gtest/gtest.h>

#include <future>
#include <vector>

namespace uroce::nic {
namespace {

/// Says where and when it ends.
struct Mortal {
  explicit Mortal(std::function<void()> at_end) : on_end(std::move(at_end)) {}
  ~Mortal() { on_end(); }
  std::function<void()> on_end;
};

TEST(ReaperTest, ThingsEndOnAThreadOfItsOwn) {
  Reaper reaper;
  std::promise<std::thread::id> ended_on;
  reaper.Take(std::make_shared<Mortal>([&] { ended_on.set_value(std::this_thread::get_id()); }));
  EXPECT_NE(ended_on.get_future().get(), std::this_thread::get_id());
}

TEST(ReaperTest, WhoGivesSomethingDoesNotWaitForItsEnd) {
  Reaper reaper;
  std::promise<void> go;
  reaper.Take(std::make_shared<Mortal>([wait = go.get_future().share()] { wait.wait(); }));
  reaper.Take(std::make_shared<Mortal>([] {}));
  go.set_value();  // Reached.
}

TEST(ReaperTest, AllEndsBeforeTheReaperInOrder) {
  std::vector<int> ended;
  {
    Reaper reaper;
    for (int i = 0; i < 100; ++i) {
      reaper.Take(std::make_shared<Mortal>([&ended, i] { ended.push_back(i); }));
    }
  }
  ASSERT_EQ(ended.size(), 100u);
  EXPECT_TRUE(std::is_sorted(ended.begin(), ended.end()));
}

}  // namespace
}  // namespace uroce::nic
