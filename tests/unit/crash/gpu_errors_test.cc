#include "crash/gpu_errors.h"

#include <gtest/gtest.h>

namespace smeltr::crash {
namespace {

TEST(Xid, ClassesThatDecideWhoseFaultItIs) {
  for (const int64_t xid : {13, 31, 43})
    EXPECT_EQ(DescribeXid(xid).fault_class, FaultClass::kApplication) << xid;
  for (const int64_t xid : {48, 63, 64, 92, 94, 95}) {
    EXPECT_EQ(DescribeXid(xid).fault_class, FaultClass::kMemory) << xid;
  }
  for (const int64_t xid : {74, 79, 149}) EXPECT_EQ(DescribeXid(xid).fault_class, FaultClass::kLink) << xid;
  for (const int64_t xid : {61, 62, 119, 120}) {
    EXPECT_EQ(DescribeXid(xid).fault_class, FaultClass::kFirmware) << xid;
  }
  EXPECT_EQ(DescribeXid(109).fault_class, FaultClass::kHang);
  EXPECT_EQ(DescribeXid(154).fault_class, FaultClass::kReset);
}

TEST(Xid, FollowOnsAreNotCauses) {
  EXPECT_TRUE(DescribeXid(45).consequence);
  EXPECT_TRUE(DescribeXid(154).consequence);
  EXPECT_FALSE(DescribeXid(31).consequence);
}

TEST(Xid, RangesAndTheirEnds) {
  EXPECT_EQ(DescribeXid(39).meaning, DescribeXid(41).meaning);
  EXPECT_NE(DescribeXid(41).meaning, DescribeXid(43).meaning);
  EXPECT_EQ(DescribeXid(126).meaning, DescribeXid(135).meaning);
}

TEST(Xid, UnknownNumbersSayNothing) {
  for (const int64_t xid : {-1, 0, 7, 42, 91, 153, 999}) {
    EXPECT_EQ(DescribeXid(xid).fault_class, FaultClass::kUnknown) << xid;
    EXPECT_TRUE(DescribeXid(xid).meaning.empty()) << xid;
  }
  EXPECT_EQ(Name(FaultClass::kUnknown), "");
  EXPECT_EQ(Name(FaultClass::kFirmware), "firmware");
}

}  // namespace
}  // namespace smeltr::crash
