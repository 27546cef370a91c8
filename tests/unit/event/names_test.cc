#include "event/names.h"

#include <gtest/gtest.h>

#include <set>
#include <string>

namespace smeltr::event {
namespace {

TEST(Names, CarryTheInterfaceWhereTheyShould) {
  EXPECT_EQ(KindName(Api::kVulkan, Kind::kCbCommitted).view(), "VulkanCbCommitted");
  EXPECT_EQ(KindName(Api::kMetal, Kind::kHookDropped).view(), "MetalHookDropped");
  EXPECT_EQ(KindName(Api::kCuda, Kind::kMark).view(), "Mark");
  EXPECT_EQ(KindName(Api::kNone, Kind::kCbOps).view(), "CbOps");
}

TEST(Names, OfUnknownKindsAreNumbers) {
  EXPECT_EQ(KindName(Api::kVulkan, static_cast<Kind>(77)).view(), "Kind#77");
  EXPECT_EQ(KindName(Api::kNone, static_cast<Kind>(65535)).view(), "Kind#65535");
  EXPECT_EQ(KindName(Api::kNone, Kind::kUnknown).view(), "Kind#0");
  EXPECT_EQ(FindKind(static_cast<Kind>(77)), nullptr);
}

TEST(Names, EveryNameLeadsBackToItsKind) {
  std::set<std::string> names;
  for (const KindInfo& info : AllKinds()) {
    for (size_t api = 0; api < kEnumSize<Api>; ++api) {
      const KindName name(static_cast<Api>(api), info.kind);
      const auto parsed = ParseKindName(name.view());
      ASSERT_TRUE(parsed.has_value()) << name.view();
      EXPECT_EQ(parsed->kind, info.kind) << name.view();
      EXPECT_EQ(parsed->api, info.naming == Naming::kPerApi ? static_cast<Api>(api) : Api::kNone);
      names.insert(std::string(name.view()));
      EXPECT_LT(name.view().size(), 40U) << "a longer one would be cut";
    }
  }
  EXPECT_GT(names.size(), AllKinds().size());
}

TEST(Names, OfNothingAreRefused) {
  for (const char* name :
       {"", "Vulkan", "CudaMark", "vulkanCbCommitted", "CbCommitte", "XCbCommitted", "Kind#77"}) {
    EXPECT_FALSE(ParseKindName(name).has_value()) << name;
  }
}

TEST(Names, EnumValuesOfANewerWriterAreUnknown) {
  EXPECT_EQ(EnumName(CbStatus::kError), "error");
  EXPECT_EQ(EnumName(static_cast<CbStatus>(200)), "unknown");
}

}  // namespace
}  // namespace smeltr::event
