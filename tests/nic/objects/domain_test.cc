// SPDX-License-Identifier: Apache-2.0
// A domain has copied memory or several programs, and its own number.
#include "nic/objects/numbers.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <memory>

namespace uroce::nic {
namespace {

TEST(DomainTest, CopiedMemoryAndSharingExcludeEachOtherAsLongAsOneOfThemLasts) {
  Domains domains;
  const std::shared_ptr<Domain> domain = domains.Make();
  Domain::Use first = domain->HoldCopiedMemory();
  Domain::Use second = domain->HoldCopiedMemory();
  ASSERT_NE(first, nullptr);
  ASSERT_NE(second, nullptr);
  first = nullptr;
  EXPECT_EQ(domain->Share(), nullptr);
  second = nullptr;
  Domain::Use program = domain->Share();
  ASSERT_NE(program, nullptr);
  EXPECT_EQ(domain->HoldCopiedMemory(), nullptr);
  const Domain::Use another = domain->Share();
  EXPECT_NE(another, nullptr);
  program = nullptr;
  EXPECT_EQ(domain->HoldCopiedMemory(), nullptr);
  EXPECT_NE(domains.Make()->HoldCopiedMemory(), nullptr) << "of another domain";
}

TEST(DomainTest, NoNumberIsThatOfADomainThatIsThere) {
  Domains domains(/*most=*/3);
  std::shared_ptr<Domain> first = domains.Make();
  const std::shared_ptr<Domain> second = domains.Make();
  EXPECT_EQ(first->number(), 1u) << "0 is none";
  EXPECT_EQ(second->number(), 2u);
  EXPECT_EQ(domains.Make()->number(), 3u);
  EXPECT_EQ(domains.Make()->number(), 3u) << "the numbers wrap";
  first = nullptr;
  EXPECT_EQ(domains.Make()->number(), 1u);
  EXPECT_EQ(domains.Make()->number(), 3u);
}

}  // namespace
}  // namespace uroce::nic
