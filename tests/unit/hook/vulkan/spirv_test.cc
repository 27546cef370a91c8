#include "hook/vulkan/spirv.h"

#include <gtest/gtest.h>

#include <cstring>
#include <initializer_list>
#include <vector>

namespace smeltr::hook::vulkan {
namespace {

// Builds a module instruction by instruction.
class Module {
 public:
  Module() : words_{0x07230203, 0x00010000, 0, 100, 0} {}

  Module& Op(uint32_t op, std::initializer_list<uint32_t> operands, std::string_view text = {},
             bool with_text = false) {
    const size_t text_words = with_text ? text.size() / 4 + 1 : 0;
    words_.push_back(static_cast<uint32_t>((1 + operands.size() + text_words) << 16) | op);
    words_.insert(words_.end(), operands);
    if (with_text) {
      const size_t at = words_.size();
      words_.resize(at + text_words, 0);
      std::memcpy(&words_[at], text.data(), text.size());
    }
    return *this;
  }
  Module& Entry(uint32_t function, std::string_view name) { return Op(15, {5, function}, name, true); }
  Module& LocalSize(uint32_t function, uint32_t x, uint32_t y, uint32_t z) {
    return Op(16, {function, 17, x, y, z});
  }
  Module& Name(uint32_t id, std::string_view name) { return Op(5, {id}, name, true); }
  Module& Body(uint32_t seed = 1) { return Op(54, {2, 4, 0, 3}).Op(62, {seed, seed}).Op(56, {}); }
  const std::vector<uint32_t>& words() const { return words_; }

 private:
  std::vector<uint32_t> words_;
};

TEST(ReadSpirv, EntryPointAndLocalSize) {
  const ShaderFacts facts =
      ReadSpirv(Module().Entry(4, "scale_kernel").LocalSize(4, 64, 2, 1).Body().words());
  ASSERT_EQ(facts.entry_points.size(), 1U);
  EXPECT_EQ(facts.entry_points[0].name, "scale_kernel");
  const StageIdentity stage = IdentifyStage(facts, "scale_kernel", {}, {});
  EXPECT_EQ(stage.symbol, "scale_kernel");
  EXPECT_EQ(stage.local[0], 64U);
  EXPECT_EQ(stage.local[1], 2U);
  EXPECT_EQ(stage.local[2], 1U);
}

TEST(ReadSpirv, TheHashIgnoresEverythingBeforeTheFirstFunction) {
  const uint64_t plain = ReadSpirv(Module().Entry(4, "main").Body().words()).code_hash;
  const uint64_t patched =
      ReadSpirv(Module().Op(17, {1}).Entry(4, "main").Name(4, "main").LocalSize(4, 8, 8, 1).Body().words())
          .code_hash;
  EXPECT_EQ(plain, patched);
  EXPECT_NE(plain, ReadSpirv(Module().Entry(4, "main").Body(2).words()).code_hash);
}

TEST(ReadSpirv, WorkgroupSizeFromSpecializationConstants) {
  Module module;
  module.Entry(4, "main").LocalSize(4, 1, 1, 1);
  module.Op(71, {10, 1, 0});    // Id 10 is constant 0.
  module.Op(71, {20, 11, 25});  // Id 20 is the workgroup size.
  module.Op(50, {6, 10, 32}).Op(43, {6, 11, 4}).Op(43, {6, 12, 1}).Op(51, {7, 20, 10, 11, 12}).Body();
  const ShaderFacts facts = ReadSpirv(module.words());
  EXPECT_EQ(IdentifyStage(facts, "main", {}, {}).local[0], 32U);
  const SpecializationValue value{.constant_id = 0, .bits = 128};
  const StageIdentity special = IdentifyStage(facts, "main", {}, {&value, 1});
  EXPECT_EQ(special.local[0], 128U);
  EXPECT_EQ(special.local[1], 4U);
}

TEST(ReadSpirv, LocalSizeById) {
  Module module;
  module.Entry(4, "main").Op(331, {4, 38, 10, 11, 12});
  module.Op(43, {6, 10, 16}).Op(43, {6, 11, 2}).Op(43, {6, 12, 1}).Body();
  EXPECT_EQ(IdentifyStage(ReadSpirv(module.words()), "main", {}, {}).local[0], 16U);
}

TEST(IdentifyStage, SpecializationChangesTheHash) {
  const ShaderFacts facts = ReadSpirv(Module().Entry(4, "main").Body().words());
  const SpecializationValue one{.constant_id = 3, .bits = 1};
  const SpecializationValue two{.constant_id = 3, .bits = 2};
  EXPECT_NE(IdentifyStage(facts, "main", {}, {&one, 1}).hash,
            IdentifyStage(facts, "main", {}, {&two, 1}).hash);
  EXPECT_EQ(IdentifyStage(facts, "main", {}, {&one, 1}).hash,
            IdentifyStage(facts, "main", {}, {&one, 1}).hash);
}

TEST(IdentifyStage, SymbolInOrderOfWorth) {
  Module module;
  module.Op(7, {30}, "src/shaders/soft_max.comp", true)
      .Op(3, {2, 450, 30})
      .Entry(4, "main")
      .Name(4, "soft_max");
  const ShaderFacts facts = ReadSpirv(module.Body().words());
  EXPECT_EQ(IdentifyStage(facts, "softmax_f32", "module", {}).symbol, "softmax_f32");
  EXPECT_EQ(IdentifyStage(facts, "main", "module", {}).symbol, "module");
  EXPECT_EQ(IdentifyStage(facts, "main", {}, {}).symbol, "soft_max");
  Module unnamed;
  unnamed.Op(7, {30}, "src/shaders/soft_max.comp", true).Op(3, {2, 450, 30}).Entry(4, "main").Name(4, "main");
  const ShaderFacts source_only = ReadSpirv(unnamed.Body().words());
  EXPECT_EQ(IdentifyStage(source_only, "main", {}, {}).symbol, "soft_max.comp");
  EXPECT_EQ(IdentifyStage(ReadSpirv(Module().Entry(4, "main").Body().words()), "main", {}, {}).symbol, "");
}

TEST(ReadSpirv, EntryPointsOfOneModuleDiffer) {
  const ShaderFacts facts = ReadSpirv(Module().Entry(4, "encode").Entry(9, "decode").Body().words());
  EXPECT_NE(IdentifyStage(facts, "encode", {}, {}).hash, IdentifyStage(facts, "decode", {}, {}).hash);
}

TEST(ReadSpirv, DamagedModulesEndTheReading) {
  EXPECT_EQ(ReadSpirv({}).code_hash, 0U);
  std::vector<uint32_t> words = Module().Entry(4, "main").LocalSize(4, 8, 1, 1).Body().words();
  std::vector<uint32_t> wrong_magic = words;
  wrong_magic[0] ^= 1;
  EXPECT_TRUE(ReadSpirv(wrong_magic).entry_points.empty());
  for (size_t size = 0; size < words.size(); ++size) {
    ReadSpirv(std::span<const uint32_t>(words.data(), size));
  }
  // Every word made into an instruction that claims too much, or nothing.
  for (size_t i = 5; i < words.size(); ++i) {
    for (const uint32_t bad : {0U, 0xFFFF'FFFFU, 0x0001'0005U, 0x0002'000FU}) {
      std::vector<uint32_t> damaged = words;
      damaged[i] = bad;
      ReadSpirv(damaged);
    }
  }
}

}  // namespace
}  // namespace smeltr::hook::vulkan
