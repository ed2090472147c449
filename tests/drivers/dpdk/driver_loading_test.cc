// SPDX-License-Identifier: Apache-2.0
#include "drivers/dpdk/driver_loading.h"

#include <dlfcn.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <string>

namespace uroce::drivers {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::StartsWith;

class DriverLoadingTest : public testing::Test {
 protected:
  /// A library that nothing can load.
  std::string Broken(const std::string& name) const {
    const std::string path = testing::TempDir() + name;
    std::ofstream(path) << "no library";
    return path;
  }
  void* Load(const std::string& path) const { return dlopen(path.c_str(), RTLD_NOW); }
};

TEST_F(DriverLoadingTest, ADriverThatCannotBeLoadedCountsAsLoaded) {
  const std::string path = Broken("librte_net_broken.so");
  DriverLoading loading;
  EXPECT_NE(Load(path), nullptr);
  EXPECT_NE(Load(path), nullptr);
  EXPECT_THAT(loading.left_out(), ElementsAre(AllOf(StartsWith("librte_net_broken.so: "),
                                                    HasSubstr("file too short"))));
}

TEST_F(DriverLoadingTest, OtherLibrariesFailAsEver) {
  const std::string path = Broken("libother.so");
  DriverLoading loading;
  EXPECT_EQ(Load(path), nullptr);
  EXPECT_THAT(dlerror(), HasSubstr("libother.so"));
  EXPECT_THAT(loading.left_out(), ElementsAre());
}

TEST_F(DriverLoadingTest, ADriverFailsOnceDpdkHasStarted) {
  const std::string path = Broken("librte_net_broken.so");
  { const DriverLoading loading; }
  EXPECT_EQ(Load(path), nullptr);
}

TEST_F(DriverLoadingTest, WhatCanBeLoadedIsLoaded) {
  DriverLoading loading;
  void* const handle = Load("libm.so.6");
  ASSERT_NE(handle, nullptr);
  EXPECT_NE(dlsym(handle, "cos"), nullptr);
  EXPECT_THAT(loading.left_out(), ElementsAre());
}

}  // namespace
}  // namespace uroce::drivers
