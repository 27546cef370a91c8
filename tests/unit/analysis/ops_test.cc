#include "analysis/ops.h"

#include <gtest/gtest.h>

#include <numeric>
#include <string_view>
#include <utility>
#include <vector>

namespace smeltr::analysis {
namespace {

struct Expected {
  std::string_view symbol;
  std::string_view kind;
};

void ExpectKinds(std::initializer_list<Expected> table) {
  for (const auto& [symbol, kind] : table) EXPECT_EQ(KindOfSymbol(symbol), kind) << symbol;
}

TEST(OpKinds, MlxNamesWithGluedDataTypes) {
  ExpectKinds({{"steel_gemm_fused_nt_bfloat16_bfloat16_bm64_bn64", "Matmul"},
               {"layer_normbfloat16", "LayerNorm"},
               {"gg1_copybfloat16bfloat16", "Copy"},
               {"g2_Addbfloat16", "Elementwise"},
               {"v_ArcTanhfloat32", "Elementwise"},
               {"BroadcastMulSigmoid_2_contiguous", "FusedElementwise"},
               {"CompiledThing_strided_4_large", "FusedElementwise"},
               {"affine_qmv_fast_bfloat16_t_gs_64_b_4", "QuantizedMatmul"},
               {"mxfp4_gather_qmm_t", "QuantizedMatmul"},
               {"rmsbfloat16", "RMSNorm"},
               {"vjp_layer_normfloat32", "LayerNorm"},
               {"looped_softmax_float16", "Softmax"},
               {"block_logsumexp_float32", "Reduce"},
               {"steel_gather_mm_nt", "Matmul"},
               {"affine_dequantize_float16", "Dequantize"},
               {"carg_block_sort_float32", "Sort"},
               {"naive_unfold_2d", "Conv"},
               {"implicit_gemm_conv_2d_float32", "Conv"},
               {"steel_attention_float16", "ScaledDotProductAttention"}});
}

TEST(OpKinds, VulkanNamesOfLlmRuntimes) {
  ExpectKinds({{"mul_mat_vec_q4_k_f32_f32", "QuantizedMatmul"},
               {"matmul_q8_0_f32_aligned", "QuantizedMatmul"},
               {"matmul_f16_f32_aligned_l", "Matmul"},
               {"mul_mat_vec_id_iq4_nl_f32", "QuantizedMatmul"},
               {"mul_f32", "Elementwise"},
               {"soft_max_f32", "Softmax"},
               {"rms_norm_f32", "RMSNorm"},
               {"rms_norm_mul_f32", "RMSNorm"},
               {"rope_neox_f32", "RoPE"},
               {"get_rows_q4_k", "Gather"},
               {"cpy_f32_f16", "Copy"},
               {"flash_attn_f32_f16_aligned", "ScaledDotProductAttention"},
               {"fa_split_k_reduce", "ScaledDotProductAttention"},
               {"split_k_reduce", "Matmul"},
               {"swiglu_f32", "SiLU"},
               {"argsort_f32", "Sort"},
               {"quantize_q8_1", "Quantize"},
               {"dequant_q4_k", "Dequantize"}});
}

TEST(OpKinds, PlainShaderNames) {
  ExpectKinds({{"embed", "Gather"},
               {"rms_norm", "RMSNorm"},
               {"qkv_matmul", "Matmul"},
               {"attention_out_matmul_f32", "Matmul"},
               {"attention_scores_f32", "ScaledDotProductAttention"},
               {"rope", "RoPE"},
               {"attention", "ScaledDotProductAttention"},
               {"softmax", "Softmax"},
               {"silu_mul", "SiLU"},
               {"add", "Elementwise"},
               {"sample", "Sample"}});
}

TEST(OpKinds, CudaNamesAreReadThroughTheirDecoration) {
  ExpectKinds({{"void at::native::vectorized_elementwise_kernel<4, at::native::FillFunctor<float>>(int)",
                "Elementwise"},
               {"void cutlass::Kernel<cutlass_80_tensorop>(Params)", ""},
               {"ampere_sgemm_128x64_tn", "Matmul"},
               {"ncclDevKernel_AllReduce_Sum_f32", "Collective"},
               {"triton_poi_fused_add_mul_0", "FusedElementwise"},
               {"flash_fwd_kernel", "ScaledDotProductAttention"}});
}

TEST(OpKinds, UnknownNamesHaveNone) {
  ExpectKinds(
      {{"", ""}, {"K_f900_64x64x1", ""}, {"K_add_1x1x1", ""}, {"main", ""}, {"sorted", ""}, {"addend", ""}});
}

TEST(OpKinds, TransfersHaveAKindWithoutASymbol) {
  EXPECT_EQ(KindOfOp("", event::OpType::kCopy), "Copy");
  EXPECT_EQ(KindOfOp("", event::OpType::kFill), "Fill");
  EXPECT_EQ(KindOfOp("rope", event::OpType::kDispatch), "RoPE");
  EXPECT_EQ(KindOfOp("", event::OpType::kDispatch), "");
}

TEST(OpKinds, NoPatternIsShadowedByAnEarlierOne) {
  struct Row {
    std::string_view kind;
    std::string_view pattern;
  };
  constexpr Row kRows[] = {
#define OP_KIND(kind, pattern) {kind, pattern},
#include "analysis/op_kinds.def"
  };
  for (const auto& [kind, pattern] : kRows) EXPECT_EQ(KindOfSymbol(pattern), kind) << pattern;
}

TEST(ScaleTo, HitsTheTargetExactly) {
  std::vector<uint64_t> values{300, 100};
  ScaleTo(values, 100);
  EXPECT_EQ(values, (std::vector<uint64_t>{75, 25}));

  values = {1, 1, 1};
  ScaleTo(values, 100);
  EXPECT_EQ(values, (std::vector<uint64_t>{34, 33, 33}));

  values = {0, 0};
  ScaleTo(values, 5);
  EXPECT_EQ(values, (std::vector<uint64_t>{0, 0}));

  const uint64_t huge = ~uint64_t{0} / 3;
  values = {huge, huge, huge, 7};
  ScaleTo(values, huge);
  EXPECT_EQ(std::accumulate(values.begin(), values.end(), uint64_t{0}), huge);
}

TEST(ScaleTo, GivesNothingToWhatHadNothing) {
  std::vector<uint64_t> values{0, 7, 0, 7};
  ScaleTo(values, 13);
  EXPECT_EQ(values, (std::vector<uint64_t>{0, 7, 0, 6}));
}

TEST(GroupOps, ByKindMergesAndKeepsTotals) {
  const auto row = [](const char* name, const char* symbol, const char* kind, uint64_t gpu_ns) {
    OpRow result;
    result.name = name;
    result.symbol = symbol;
    result.kind = kind;
    result.gpu_ns = gpu_ns;
    result.count = 1;
    return result;
  };
  const auto rows = GroupOps({row("K_1", "matmul_a", "Matmul", 10), row("K_2", "matmul_b", "Matmul", 5),
                              row("K_3", "thing", "", 20), row("K_4", "", "", 1)},
                             GroupBy::kKind);
  ASSERT_EQ(rows.size(), 3U);
  EXPECT_EQ(rows[0].name, "thing");
  EXPECT_EQ(rows[1].name, "Matmul");
  EXPECT_EQ(rows[1].gpu_ns, 15U);
  EXPECT_EQ(rows[1].count, 2U);
  EXPECT_EQ(rows[2].name, "K_4");
}

}  // namespace
}  // namespace smeltr::analysis
